/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The system calls that the agent makes: all others fail for it and its children once it works,
 * execve among them. Found by tracing it through all of its tests; what the C library may choose
 * instead, on other machines, is there too. The unit of systemd is made of the same list.
 */
#pragma once

/* Memory and threads. */
#define PG_CALLS_MEMORY(X) \
	X(brk) \
	X(clone) \
	X(clone3) \
	X(exit) \
	X(exit_group) \
	X(futex) \
	X(get_robust_list) \
	X(gettid) \
	X(madvise) \
	X(membarrier) \
	X(mmap) \
	X(mprotect) \
	X(mremap) \
	X(munmap) \
	X(restart_syscall) \
	X(rseq) \
	X(rt_sigaction) \
	X(rt_sigprocmask) \
	X(rt_sigreturn) \
	X(sched_getaffinity) \
	X(sched_yield) \
	X(set_robust_list) \
	X(sigaltstack)

/* Itself, its children, and processes of Environments. */
#define PG_CALLS_PROCESSES(X) \
	X(alarm) \
	X(capget) \
	X(capset) \
	X(getegid) \
	X(geteuid) \
	X(getgid) \
	X(getpid) \
	X(getppid) \
	X(getrlimit) \
	X(getuid) \
	X(kcmp) \
	X(kill) \
	X(pidfd_getfd) \
	X(pidfd_open) \
	X(pidfd_send_signal) \
	X(prctl) \
	X(prlimit64) \
	X(setitimer) \
	X(setns) \
	X(sysinfo) \
	X(tgkill) \
	X(uname) \
	X(wait4) \
	X(waitid)

/* Files: cgroups, records, pins, /proc. */
#define PG_CALLS_FILES(X) \
	X(access) \
	X(close) \
	X(close_range) \
	X(dup) \
	X(dup2) \
	X(dup3) \
	X(faccessat) \
	X(faccessat2) \
	X(fchdir) \
	X(fchmod) \
	X(fcntl) \
	X(fdatasync) \
	X(flock) \
	X(fstat) \
	X(fstatfs) \
	X(fsync) \
	X(ftruncate) \
	X(getcwd) \
	X(getdents64) \
	X(inotify_add_watch) \
	X(inotify_init1) \
	X(inotify_rm_watch) \
	X(lseek) \
	X(lstat) \
	X(memfd_create) \
	X(mkdir) \
	X(mkdirat) \
	X(name_to_handle_at) \
	X(newfstatat) \
	X(open) \
	X(openat) \
	X(openat2) \
	X(pread64) \
	X(pwrite64) \
	X(read) \
	X(readlink) \
	X(readlinkat) \
	X(readv) \
	X(rename) \
	X(renameat) \
	X(renameat2) \
	X(rmdir) \
	X(stat) \
	X(statfs) \
	X(statx) \
	X(umask) \
	X(unlink) \
	X(unlinkat) \
	X(write) \
	X(writev)

/* Sockets, waiting, time. socket(2) is judged by its family, see PG_SERVICE_FAMILIES. */
#define PG_CALLS_NETWORK(X) \
	X(accept) \
	X(accept4) \
	X(bind) \
	X(clock_getres) \
	X(clock_gettime) \
	X(clock_nanosleep) \
	X(connect) \
	X(epoll_create1) \
	X(epoll_ctl) \
	X(epoll_pwait) \
	X(epoll_pwait2) \
	X(epoll_wait) \
	X(eventfd2) \
	X(getpeername) \
	X(getrandom) \
	X(getsockname) \
	X(getsockopt) \
	X(gettimeofday) \
	X(ioctl) \
	X(listen) \
	X(nanosleep) \
	X(pipe2) \
	X(poll) \
	X(ppoll) \
	X(pselect6) \
	X(recvfrom) \
	X(recvmmsg) \
	X(recvmsg) \
	X(select) \
	X(sendmmsg) \
	X(sendmsg) \
	X(sendto) \
	X(setsockopt) \
	X(shutdown) \
	X(signalfd4) \
	X(socketpair) \
	X(time) \
	X(timerfd_create) \
	X(timerfd_gettime) \
	X(timerfd_settime)

/* Programs and maps. */
#define PG_CALLS_BPF(X) X(bpf)

#define PG_CALLS(X) \
	PG_CALLS_MEMORY(X) \
	PG_CALLS_PROCESSES(X) \
	PG_CALLS_FILES(X) \
	PG_CALLS_NETWORK(X) \
	PG_CALLS_BPF(X)

/* Before it works: until the filter is in force these are made as well. */
#define PG_CALLS_START(X) \
	X(arch_prctl) \
	X(chmod) \
	X(chown) \
	X(execve) \
	X(fchmodat) \
	X(fchown) \
	X(fchownat) \
	X(lchown) \
	X(mount) \
	X(seccomp) \
	X(set_tid_address) \
	X(setpriority) \
	X(setrlimit) \
	X(socket)
