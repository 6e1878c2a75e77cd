/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/workload.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"

#define X32_BIT 0x40000000

/* Runs the checks in a child that is confined; returns its exit status. */
static int confined(const bool *keeps, int (*checks)(void))
{
	PG_CLEANUP(pg_workload_clear) struct pg_workload workload = {};
	struct pg_error err = {};
	int status;
	pid_t pid;

	for (int i = 0; keeps && i < PG_KEEP_COUNT; i++)
		workload.keep[i] = keeps[i];
	cr_assert_eq(pg_workload_init(&workload, &err), 0, "%s", err.text);
	pid = fork();
	if (!pid)
		_exit(pg_workload_confine(&workload) ? 255 : checks());
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert(WIFEXITED(status), "status %x", (unsigned int)status);
	return WEXITSTATUS(status);
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

static bool makes(long family, int type)
{
	const int protocol = type == SOCK_RAW && family == AF_INET ? IPPROTO_ICMP : 0;
	const long fd = syscall(SYS_socket, family, type, protocol);

	if (fd >= 0)
		close((int)fd);
	return fd >= 0;
}

static bool is_refused(long number, int by)
{
	errno = 0;
	return syscall(number, 0, 0, 0, 0, 0, 0) == -1 && errno == by;
}

static int check_families(void)
{
	int pair[2];

	CHECK(makes(AF_UNIX, SOCK_STREAM) && makes(AF_INET, SOCK_DGRAM));
	CHECK(makes(AF_INET6, SOCK_STREAM) && makes(AF_NETLINK, SOCK_RAW));
	/* What a compiler leaves in the upper half is none of the kernel's business. */
	CHECK(makes(AF_INET | 0xdeadL << 32, SOCK_STREAM));
	CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
	for (long family = 0; family < 300; family++) {
		if (family == AF_UNIX || family == AF_INET || family == AF_INET6 ||
		    family == AF_NETLINK)
			continue;
		for (int type = SOCK_STREAM; type <= SOCK_SEQPACKET; type++) {
			CHECK(!makes(family, type) && errno == EAFNOSUPPORT);
			CHECK(!makes(family | 0xbeefL << 32, type) && errno == EAFNOSUPPORT);
			CHECK(socketpair((int)family, type, 0, pair) && errno == EAFNOSUPPORT);
		}
	}
	return 0;
}

Test(workload, families)
{
	cr_assert_eq(confined(NULL, check_families), 0);
}

static int check_calls(void)
{
	CHECK(is_refused(SYS_bpf, EPERM));
	CHECK(is_refused(SYS_io_uring_setup, EPERM));
	CHECK(is_refused(SYS_io_uring_enter, EPERM));
	CHECK(is_refused(SYS_io_uring_register, EPERM));
	CHECK(is_refused(SYS_request_key, EPERM));
	CHECK(getppid() > 0);
	return 0;
}

Test(workload, calls)
{
	cr_assert_eq(confined(NULL, check_calls), 0);
}

/* Children and what they execute have it as well, and cannot be rid of it. */
static int check_children(void)
{
	const pid_t pid = fork();
	int status;

	if (!pid)
		_exit(check_families() || check_calls());
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	return 0;
}

Test(workload, children)
{
	cr_assert_eq(confined(NULL, check_children), 0);
}

#ifdef __x86_64__
/* The calls of 32-bit programs, which a 64-bit process can make as well. */
static long call_32(long number, long first, long second, long third)
{
	long result;

	/* The kernel clears r8 to r11 on some versions. */
	__asm__ volatile("int $0x80"
			 : "=a"(result)
			 : "a"(number), "b"(first), "c"(second), "d"(third)
			 : "memory", "r8", "r9", "r10", "r11");
	return result;
}

static int check_32_bit(void)
{
	enum {
		SOCKETCALL = 102,
		GETPID = 20,
		BPF = 357,
		SOCKET = 359,
		SOCKETPAIR = 360
	};
	long fd;

	if (call_32(GETPID, 0, 0, 0) != getpid())
		return 0; /* A kernel that has none. */
	CHECK(call_32(SOCKET, 40 /* AF_VSOCK */, SOCK_STREAM, 0) == -EAFNOSUPPORT);
	CHECK(call_32(SOCKET, AF_PACKET, SOCK_RAW, 0) == -EAFNOSUPPORT);
	CHECK(call_32(SOCKETPAIR, AF_PACKET, SOCK_RAW, 0) == -EAFNOSUPPORT);
	CHECK(call_32(SOCKETCALL, 1, 0, 0) == -EAFNOSUPPORT);
	CHECK(call_32(SOCKETCALL, 8, 0, 0) == -EAFNOSUPPORT);
	CHECK(call_32(BPF, 0, 0, 0) == -EPERM);
	CHECK(call_32(425, 0, 0, 0) == -EPERM && call_32(426, 0, 0, 0) == -EPERM);
	fd = call_32(SOCKET, AF_INET, SOCK_STREAM, 0);
	CHECK(fd >= 0 && !close((int)fd));
	return 0;
}

Test(workload, calls_of_32_bit_programs)
{
	cr_assert_eq(confined(NULL, check_32_bit), 0);
}

static int check_x32(void)
{
	CHECK(is_refused(X32_BIT | SYS_socket, ENOSYS));
	CHECK(is_refused(X32_BIT | SYS_getpid, ENOSYS));
	return 0;
}

Test(workload, calls_of_x32)
{
	cr_assert_eq(confined(NULL, check_x32), 0);
}
#endif

/* In any of the sets. */
static bool has(int capability)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3];
	const struct __user_cap_data_struct *set = &sets[CAP_TO_INDEX(capability)];

	return syscall(SYS_capget, &header, sets) ||
	       ((set->effective | set->permitted | set->inheritable) & CAP_TO_MASK(capability)) ||
	       prctl(PR_CAPBSET_READ, capability, 0, 0, 0) ||
	       prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_IS_SET, capability, 0, 0) == 1;
}

static int check_capabilities(void)
{
	CHECK(!has(CAP_NET_RAW) && !has(CAP_NET_ADMIN) && has(CAP_SYS_ADMIN));
	/* Programs of others with the set-uid bit work as ever. */
	CHECK(!prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0));
	CHECK(!makes(AF_INET, SOCK_RAW) && errno == EPERM);
	return 0;
}

Test(workload, capabilities)
{
	if (geteuid())
		cr_skip_test("needs root");
	cr_assert_eq(confined(NULL, check_capabilities), 0);
}

/* Of AF_INET by name, and AF_PACKET in fact: the kernel takes it for that. */
static bool makes_sock_packet(long flags)
{
	const long fd = syscall(SYS_socket, AF_INET, SOCK_PACKET | flags, htons(3));

	if (fd >= 0)
		close((int)fd);
	return fd >= 0;
}

static int check_kept(void)
{
	CHECK(has(CAP_NET_RAW) && has(CAP_NET_ADMIN));
	CHECK(makes(AF_PACKET, SOCK_RAW) && makes(AF_INET, SOCK_RAW));
	CHECK(makes_sock_packet(0));
	CHECK(!is_refused(SYS_request_key, EPERM));
	return 0;
}

Test(workload, kept)
{
	bool keeps[PG_KEEP_COUNT] = {true, true, true};

	if (geteuid())
		cr_skip_test("needs root");
	cr_assert_eq(confined(keeps, check_kept), 0);
}

static int check_one_kept(void)
{
	CHECK(!makes_sock_packet(0) && errno == EAFNOSUPPORT);
	CHECK(!makes_sock_packet(SOCK_CLOEXEC | SOCK_NONBLOCK) && errno == EAFNOSUPPORT);
	CHECK(!makes_sock_packet(0xdeadL << 32) && errno == EAFNOSUPPORT);
	CHECK(has(CAP_NET_RAW) && !has(CAP_NET_ADMIN));
	CHECK(!makes(AF_PACKET, SOCK_RAW) && makes(AF_INET, SOCK_RAW));
	return 0;
}

Test(workload, one_kept)
{
	bool keeps[PG_KEEP_COUNT] = {[PG_KEEP_NET_RAW] = true};

	if (geteuid())
		cr_skip_test("needs root");
	cr_assert_eq(confined(keeps, check_one_kept), 0);
}

/* Without CAP_SYS_ADMIN the filter takes no_new_privs. */
static int check_unprivileged(void)
{
	CHECK(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1);
	return check_families();
}

static int confine_unprivileged(void)
{
	PG_CLEANUP(pg_workload_clear) struct pg_workload workload = {};
	struct pg_error err = {};

	CHECK(!pg_workload_init(&workload, &err));
	/* The bounding set cannot be changed without CAP_SETPCAP. */
	workload.keep[PG_KEEP_NET_RAW] = workload.keep[PG_KEEP_NET_ADMIN] = true;
	CHECK(!setresuid(65534, 65534, 65534));
	CHECK(!pg_workload_confine(&workload));
	return check_unprivileged();
}

Test(workload, unprivileged)
{
	bool keeps[PG_KEEP_COUNT] = {true, true, true};

	if (geteuid())
		cr_skip_test("needs root");
	cr_assert_eq(confined(keeps, confine_unprivileged), 0);
}
