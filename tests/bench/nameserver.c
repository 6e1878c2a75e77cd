/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The nameserver that is asked: has an address for every name, knows it by arithmetic, and takes
 * what is there in one call, so that it is not what is measured.
 */
#include "names.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#define BATCH	     64
#define MESSAGE_SIZE 512
#define ANY	     "0.0.0.0"

static struct batch {
	struct mmsghdr headers[BATCH];
	struct iovec parts[BATCH];
	struct sockaddr_storage peers[BATCH];
	uint8_t messages[BATCH][MESSAGE_SIZE];
} batch;

static void serve_datagrams(int fd)
{
	for (;;) {
		int count;
		unsigned int answers = 0;

		for (size_t i = 0; i < BATCH; i++) {
			batch.parts[i] = (struct iovec){batch.messages[i], MESSAGE_SIZE};
			batch.headers[i].msg_hdr = (struct msghdr){
				.msg_name = &batch.peers[i],
				.msg_namelen = sizeof(batch.peers[i]),
				.msg_iov = &batch.parts[i],
				.msg_iovlen = 1,
			};
		}
		count = recvmmsg(fd, batch.headers, BATCH, MSG_WAITFORONE, NULL);
		for (int i = 0; i < count; i++) {
			const size_t size = names_answer(batch.messages[i],
							 batch.headers[i].msg_len, MESSAGE_SIZE);

			batch.parts[i].iov_len = size;
			if (size)
				batch.headers[answers++].msg_hdr = batch.headers[i].msg_hdr;
		}
		if (answers)
			sendmmsg(fd, batch.headers, answers, 0);
	}
}

/* One query at a time, as the client asks them. */
static void serve_stream(int fd)
{
	uint8_t message[2 + MESSAGE_SIZE];

	for (;;) {
		size_t size;

		if (recv(fd, message, 2, MSG_WAITALL) != 2)
			return;
		size = (size_t)message[0] << 8 | message[1];
		if (size > MESSAGE_SIZE ||
		    recv(fd, message + 2, size, MSG_WAITALL) != (ssize_t)size)
			return;
		size = names_answer(message + 2, size, MESSAGE_SIZE);
		message[0] = (uint8_t)(size >> 8);
		message[1] = (uint8_t)size;
		if (send(fd, message, 2 + size, MSG_NOSIGNAL) < 0)
			return;
	}
}

static void *serve_streams(void *argument)
{
	const int listener = *(int *)argument;

	for (;;) {
		pg_autoclose int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

		if (fd >= 0)
			serve_stream(fd);
	}
	return NULL;
}

void nameserver_start(const char *namespace)
{
	const int datagrams = socket_in(namespace, SOCK_DGRAM, ANY, NAMES_PORT);
	int streams = socket_in(namespace, SOCK_STREAM, ANY, NAMES_PORT);
	const pid_t parent = getpid(), pid = fork();
	pthread_t thread;

	if (pid < 0)
		fail("fork: %s", strerror(errno));
	if (pid) {
		close(datagrams);
		close(streams);
		return;
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	pin_first();
	if (pthread_create(&thread, NULL, serve_streams, &streams))
		_exit(1);
	serve_datagrams(datagrams);
}
