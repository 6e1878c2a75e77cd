/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/service.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"

static const char *const calls[] = {
	"brk",
	"clone",
	"clone3",
	"close",
	"exit",
	"exit_group",
	"futex",
	"getpid",
	"gettid",
	"kill",
	"madvise",
	"mmap",
	"mprotect",
	"munmap",
	"no_such_call",
	"poll",
	"prctl",
	"read",
	"rseq",
	"rt_sigaction",
	"rt_sigprocmask",
	"rt_sigreturn",
	"set_robust_list",
	"sigaltstack",
	"wait4",
	"write",
	"sched_yield",
	"sched_getaffinity",
	"getrandom",
	"tgkill",
	"nanosleep",
	"clock_nanosleep",
	"newfstatat",
	"dup",
};

/* What has been logged. */
static char text[4096];

static void sink(void *userdata, enum pg_log_level level, const char *message)
{
	strncat(text, message, sizeof(text) - strlen(text) - 2);
	strcat(text, "\n");
}

static int fail(int line, const char *condition)
{
	dprintf(STDERR_FILENO, "line %d: %s: errno %d\n", line, condition, errno);
	return 1;
}

#define CHECK(condition) \
	do { \
		if (!(condition)) \
			return fail(__LINE__, #condition); \
	} while (0)

/* In a child, since it cannot be undone. */
static void confined(int (*checks)(void))
{
	struct pg_error err = {};
	int status;
	pid_t pid = fork();

	if (!pid) {
		pg_log_set_sink(sink, NULL);
		if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
		    pg_service_confine(calls, PG_ARRAY_SIZE(calls), &err))
			_exit(fail(__LINE__, err.text));
		_exit(checks());
	}
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %x", (unsigned int)status);
}

static bool is_denied(long number)
{
	errno = 0;
	return syscall(number, 0, 0, 0, 0, 0, 0) == -1 && errno == EPERM;
}

static int check_calls(void)
{
	CHECK(getpid() > 0 && !text[0]);
	CHECK(is_denied(SYS_ptrace) && strstr(text, "the system call ptrace ("));
	CHECK(is_denied(SYS_execve) && strstr(text, "execve"));
	CHECK(is_denied(SYS_unshare) && is_denied(SYS_mount) && is_denied(SYS_io_uring_setup));
	/* errno is not touched by what is said of it. */
	errno = 0;
	CHECK(syscall(SYS_getuid) == -1 && errno == EPERM);
	return 0;
}

Test(service, calls)
{
	confined(check_calls);
}

static int check_once(void)
{
	const char *first;

	for (int i = 0; i < 100; i++)
		CHECK(is_denied(SYS_mount));
	first = strstr(text, "mount");
	CHECK(first && !strstr(first + 1, "system call mount"));
	return 0;
}

Test(service, is_said_once)
{
	confined(check_once);
}

static int check_families(void)
{
	static const int allowed[] = {AF_UNIX, AF_INET, AF_INET6, AF_NETLINK};

	for (size_t i = 0; i < PG_ARRAY_SIZE(allowed); i++) {
		const int fd = socket(allowed[i], SOCK_DGRAM, 0);

		CHECK(fd >= 0);
		close(fd);
	}
	CHECK(socket(AF_PACKET, SOCK_RAW, 0) == -1 && errno == EPERM);
	CHECK(socket(AF_ALG, SOCK_SEQPACKET, 0) == -1 && errno == EPERM);
	return 0;
}

Test(service, families)
{
	confined(check_families);
}

static void *call_in_thread(void *failed)
{
	*(bool *)failed = !is_denied(SYS_mount);
	return NULL;
}

/* Those that came later, and children. */
static int check_heirs(void)
{
	bool failed = true;
	pthread_t thread;
	int status;
	pid_t pid;

	CHECK(!pthread_create(&thread, NULL, call_in_thread, &failed));
	CHECK(!pthread_join(thread, NULL) && !failed);
	pid = fork();
	if (!pid)
		_exit(!is_denied(SYS_mount));
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	return 0;
}

Test(service, heirs)
{
	confined(check_heirs);
}

static int ends[2];

static void *wait_in_thread(void *failed)
{
	char byte;

	(void)!read(ends[0], &byte, 1);
	*(bool *)failed = !is_denied(SYS_mount);
	return NULL;
}

/* Threads that were there before. */
Test(service, threads_that_run)
{
	struct pg_error err = {};
	int status;
	pid_t pid = fork();

	if (!pid) {
		bool failed = true;
		pthread_t thread;

		pg_log_set_sink(sink, NULL);
		if (pipe(ends) || pthread_create(&thread, NULL, wait_in_thread, &failed) ||
		    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
		    pg_service_confine(calls, PG_ARRAY_SIZE(calls), &err) ||
		    write(ends[1], "", 1) != 1 || pthread_join(thread, NULL))
			_exit(fail(__LINE__, err.text));
		_exit(failed);
	}
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert_eq(status, 0);
}

/* One that somebody sends says nothing, and ends nobody. */
static int check_signal(void)
{
	CHECK(!kill(getpid(), SIGSYS) && !text[0]);
	return 0;
}

Test(service, signal_of_somebody)
{
	confined(check_signal);
}
