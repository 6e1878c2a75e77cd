/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a seccomp profile leaves of a container: one JSON object with the errno's name of a socket
 * of each family and of system calls, "" where it worked. With an argument it makes a system call
 * of 32-bit programs first. Static, for images without libraries.
 */
#include <errno.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static const struct {
	const char *name;
	int family, type, protocol;
} sockets[] = {
	{"unix", AF_UNIX, SOCK_STREAM, 0},	  {"inet", AF_INET, SOCK_STREAM, 0},
	{"inet6", AF_INET6, SOCK_DGRAM, 0},	  {"netlink", AF_NETLINK, SOCK_RAW, NETLINK_ROUTE},
	{"packet", AF_PACKET, SOCK_RAW, 0},	  {"packet-dgram", AF_PACKET, SOCK_DGRAM, 0},
	{"vsock", AF_VSOCK, SOCK_STREAM, 0},	  {"xdp", 44, SOCK_RAW, 0},
	{"alg", 38, SOCK_SEQPACKET, 0},		  {"raw", AF_INET, SOCK_RAW, IPPROTO_ICMP},
	{"sock-packet", AF_INET, SOCK_PACKET, 0},
};

static const struct {
	const char *name;
	long number;
} calls[] = {
	{"bpf", SYS_bpf},
	{"io_uring_setup", 425},
	{"io_uring_enter", 426},
	{"io_uring_register", 427},
	{"request_key", SYS_request_key},
	{"getppid", SYS_getppid},
	{"unshare", SYS_unshare},
	{"mount", SYS_mount},
};

static void print(const char *name, long result)
{
	printf("\"%s\":\"%s\",", name, result < 0 ? strerrorname_np(errno) : "");
}

int main(int argc, char **argv)
{
#ifdef __x86_64__
	if (argc > 1) {
		long result;

		__asm__ volatile("int $0x80" : "=a"(result) : "a"(20L /* getpid */) : "memory");
	}
#endif
	putchar('{');
	for (size_t i = 0; i < sizeof(sockets) / sizeof(*sockets); i++)
		print(sockets[i].name,
		      socket(sockets[i].family, sockets[i].type, sockets[i].protocol));
	for (size_t i = 0; i < sizeof(calls) / sizeof(*calls); i++)
		print(calls[i].name, syscall(calls[i].number, 0, 0, 0, 0, 0, 0));
	puts("\"end\":\"\"}");
	return 0;
}
