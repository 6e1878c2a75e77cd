/* SPDX-License-Identifier: Apache-2.0 */
#include "run.h"

#include <errno.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"

#include "command.h"

/* Raised by a fault of the process itself, or for the shell's job control. */
static const int left_alone[] = {SIGSEGV, SIGBUS,  SIGFPE,  SIGILL,  SIGTRAP, SIGSYS,
				 SIGABRT, SIGTSTP, SIGTTIN, SIGTTOU, SIGCONT, SIGCHLD};

static const int asking_to_end[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM};

static bool asks_to_end(int number)
{
	for (size_t i = 0; i < PG_ARRAY_SIZE(asking_to_end); i++)
		if (number == asking_to_end[i])
			return true;
	return false;
}

int run_waiter_open(struct run_waiter *waiter, struct pg_error *err)
{
	sigset_t set, ending;

	/* Inherited as ignored, it would take the children away before they are waited for. */
	signal(SIGCHLD, SIG_DFL);
	sigfillset(&set);
	for (size_t i = 0; i < PG_ARRAY_SIZE(left_alone); i++)
		sigdelset(&set, left_alone[i]);
	sigprocmask(SIG_BLOCK, &set, NULL);
	/* SIGPIPE stays blocked and unread: it is about our own standard error. */
	sigdelset(&set, SIGPIPE);
	waiter->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	sigemptyset(&ending);
	for (size_t i = 0; i < PG_ARRAY_SIZE(asking_to_end); i++)
		sigaddset(&ending, asking_to_end[i]);
	waiter->end_fd = signalfd(-1, &ending, SFD_CLOEXEC | SFD_NONBLOCK);
	if (waiter->signal_fd < 0 || waiter->end_fd < 0)
		return pg_fail_errno(err, -errno, "making a descriptor for signals");
	return 0;
}

void run_waiter_close(struct run_waiter *waiter)
{
	pg_close_fd(&waiter->signal_fd);
	pg_close_fd(&waiter->end_fd);
}

/* Reads what has come; pid 0: there is no command to pass it on to. */
static void read_signals(struct run_waiter *waiter, pid_t pid)
{
	struct signalfd_siginfo info;

	while (read(waiter->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
		if (asks_to_end((int)info.ssi_signo))
			waiter->ended = (int)info.ssi_signo;
		/* What the terminal sends reaches the command's process by itself. */
		if (pid && info.ssi_code != SI_KERNEL)
			kill(pid, (int)info.ssi_signo);
	}
}

bool run_waiter_ended(struct run_waiter *waiter)
{
	read_signals(waiter, 0);
	return waiter->ended != 0;
}

static int status_of(int status)
{
	return WIFSIGNALED(status) ? PG_EXIT_SIGNAL + WTERMSIG(status) : WEXITSTATUS(status);
}

int run_wait(struct run_waiter *waiter, struct pg_host *host, pid_t pid, int *ret_status,
	     struct pg_error *err)
{
	pg_autoclose int pid_fd = (int)syscall(SYS_pidfd_open, pid, 0);
	struct pollfd events[] = {
		{.fd = pid_fd, .events = POLLIN},
		{.fd = waiter->signal_fd, .events = POLLIN},
		{.fd = pg_host_fd(host), .events = POLLIN},
	};
	struct pg_error host_err = {};
	int status;

	if (pid_fd < 0)
		return pg_fail_errno(err, -errno, "watching the command");
	for (;;) {
		if (poll(events, PG_ARRAY_SIZE(events), -1) < 0 && errno != EINTR)
			return pg_fail_errno(err, -errno, "waiting for the command");
		if (events[1].revents)
			read_signals(waiter, pid);
		/* What fails here weakens nothing that is in force. */
		if (events[2].revents && pg_host_process(host, &host_err))
			pg_log_warning("%s", host_err.text);
		if (events[0].revents && waitpid(pid, &status, WNOHANG) == pid)
			break;
	}
	*ret_status = status_of(status);
	return 0;
}
