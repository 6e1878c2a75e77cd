/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loaded before the agent's libraries (LD_PRELOAD): makes the N-th of its requests to the kernel
 * fail, of those to bpf() that take memory and of those that are sent to a netlink socket. The test
 * says which in a file that both have mapped. With PHASEGATE_FAULTS_INOTIFY in the environment
 * there is no inotify, as where somebody has used up what its user may have; with
 * PHASEGATE_FAULTS_THREADS no descriptor of a thread, as before Linux 6.9.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/bpf.h>

struct faults {
	_Atomic int32_t countdown; /* the N-th from now fails; 0: none, or it has failed */
	_Atomic int32_t error;	   /* with this errno */
	_Atomic int32_t failed;	   /* how many have */
	char what[64];
};

static struct faults *faults;
static long (*real_syscall)(long, ...);
static ssize_t (*real_sendto)(int, const void *, size_t, int, const struct sockaddr *, socklen_t);
static int (*real_inotify_init1)(int);

__attribute__((constructor)) static void start(void)
{
	const char *path = getenv("PHASEGATE_FAULTS");
	int fd;

	real_syscall = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
	real_sendto = (ssize_t(*)(int, const void *, size_t, int, const struct sockaddr *,
				  socklen_t))dlsym(RTLD_NEXT, "sendto");
	real_inotify_init1 = (int (*)(int))dlsym(RTLD_NEXT, "inotify_init1");
	if (!path || strcmp(program_invocation_short_name, "phasegated") != 0)
		return;
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		abort();
	faults = mmap(NULL, sizeof(*faults), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (faults == MAP_FAILED)
		abort();
	close(fd);
	/* Not those that it starts. */
	unsetenv("LD_PRELOAD");
}

/* Whether it is this one's turn. */
static int fails(const char *what)
{
	int32_t left = faults ? atomic_load(&faults->countdown) : 0;

	while (left > 0 && !atomic_compare_exchange_weak(&faults->countdown, &left, left - 1))
		;
	if (left != 1)
		return 0;
	snprintf(faults->what, sizeof(faults->what), "%s", what);
	errno = atomic_load(&faults->error);
	atomic_fetch_add(&faults->failed, 1);
	return 1;
}

/* Of a request that the kernel may refuse for want of memory, what it is. */
static const char *name_of(long command)
{
	switch (command) {
	case BPF_MAP_CREATE:
		return "map create";
	case BPF_MAP_UPDATE_ELEM:
		return "map update";
	case BPF_MAP_UPDATE_BATCH:
		return "map update batch";
	case BPF_MAP_GET_FD_BY_ID:
		return "map by id";
	case BPF_PROG_ATTACH:
		return "program attach";
	case BPF_LINK_CREATE:
		return "link create";
	case BPF_LINK_UPDATE:
		return "link update";
	case BPF_OBJ_PIN:
		return "pin";
	case BPF_OBJ_GET:
		return "open pin";
	case BPF_OBJ_GET_INFO_BY_FD:
		return "info";
	case BPF_PROG_LOAD:
		return "program load";
	default:
		return NULL;
	}
}

/* NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name): libc's are reserved. */
long syscall(long number, ...)
{
	long words[6];
	va_list list;

	va_start(list, number);
	for (int i = 0; i < 6; i++)
		words[i] = va_arg(list, long);
	va_end(list);
	if (number == SYS_bpf && name_of(words[0]) && fails(name_of(words[0])))
		return -1;
	if (number == SYS_pidfd_open && (unsigned int)words[1] &&
	    getenv("PHASEGATE_FAULTS_THREADS")) {
		errno = EINVAL;
		return -1;
	}
	return real_syscall(number, words[0], words[1], words[2], words[3], words[4], words[5]);
}

/* NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name): libc's are reserved. */
ssize_t sendto(int fd, const void *buffer, size_t size, int flags, const struct sockaddr *to,
	       socklen_t to_size)
{
	const int saved = errno;
	socklen_t length = sizeof(int);
	int domain = 0;

	if (faults && atomic_load(&faults->countdown) > 0 &&
	    !getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &length) && domain == AF_NETLINK &&
	    fails("netlink"))
		return -1;
	errno = saved;
	return real_sendto(fd, buffer, size, flags, to, to_size);
}

int inotify_init1(int flags)
{
	if (!getenv("PHASEGATE_FAULTS_INOTIFY"))
		return real_inotify_init1(flags);
	errno = EMFILE;
	return -1;
}
