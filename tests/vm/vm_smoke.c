/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Does `phasegate run` allow and deny as it must on this kernel? For virtual machines that hold
 * little else (tests/vm/smoke.sh), in network namespaces of its own, with servers that say what
 * arrived.
 *
 *   vm_smoke PHASEGATE      all checks, a line each; status 1 if any fails
 *   vm_smoke attempt FIRST  inside the Environment: tries everything, with tokens from FIRST on
 *   vm_smoke listen         inside the Environment: serves four exchanges
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "exchange.h"

/* A denial comes at once; a lost SYN alone would take a second, even where nothing is emulated. */
#define DENIAL_MAX_MS 500

#define MODES(X) \
	X(PUBLIC, "\"public\"") \
	X(NO_NETWORK, "\"no-network\"") \
	X(ALLOWLIST, "{\"network_mode\":\"allowlist\",\"allowed_hosts\":" \
		     "[\"10.77.0.1\",\"10.77.1.0/24\",\"fd77::1\",\"fd77:1::/32\"]}")

enum mode {
#define X(name, text) MODE_##name,
	MODES(X)
#undef X
};

static const char *const mode_text[] = {
#define X(name, text) [MODE_##name] = (text),
	MODES(X)
#undef X
};

/* The forbidden ones come first: when the last one has answered, all of them had their time. */
static const struct destination {
	const char *address;
	bool listed;
} destinations[] = {
	{"10.77.9.1", false}, {"fd77:9::1", false}, {"::ffff:10.77.9.1", false},
	{"10.77.1.1", true},  {"fd77:1::1", true},  {"::ffff:10.77.0.1", true},
	{"10.77.0.1", true},  {"fd77::1", true},
};

#define DESTINATION_COUNT (sizeof(destinations) / sizeof(destinations[0]))
_Static_assert(KIND_COUNT *DESTINATION_COUNT <= TOKENS_PER_RUN, "tokens of runs overlap");

static const char *const inside_addresses[] = {"10.77.0.2", "fd77::2"};

static struct record *record;
static unsigned int failures;
static const char *phasegate, *self;
static int outside_fd = -1;

static void check(bool good, const char *what)
{
	printf("%s %s\n", good ? "ok    " : "FAILED", what);
	fflush(stdout);
	failures += !good;
}

static _Noreturn void die(const char *what)
{
	fprintf(stderr, "vm_smoke: %s: %s\n", what, strerror(errno));
	exit(1);
}

static uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* Starts a program, its standard output going to output_fd unless that is negative. */
static pid_t start(const char *const argv[], int output_fd)
{
	pid_t pid = fork();

	if (pid < 0)
		die("fork");
	if (pid == 0) {
		if (output_fd >= 0)
			dup2(output_fd, STDOUT_FILENO);
		execv(argv[0], (char *const *)argv);
		die(argv[0]);
	}
	return pid;
}

static int finish(pid_t pid)
{
	int status;

	if (waitpid(pid, &status, 0) < 0)
		die("waitpid");
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static FILE *start_reading(const char *const argv[], pid_t *ret_pid)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) < 0)
		die("pipe");
	*ret_pid = start(argv, ends[1]);
	close(ends[1]);
	return fdopen(ends[0], "r");
}

static void shell(const char *script)
{
	const char *const argv[] = {"/bin/sh", "-e", "-c", script, NULL};

	if (finish(start(argv, -1)) != 0) {
		fprintf(stderr, "vm_smoke: this failed: %s\n", script);
		exit(1);
	}
}

/* Runs as a child in the other namespace; the status is the child's. */
static int outside(int (*function)(void))
{
	pid_t pid = fork();

	if (pid < 0)
		die("fork");
	if (pid == 0) {
		if (setns(outside_fd, CLONE_NEWNET) < 0)
			die("setns");
		_exit(function());
	}
	return finish(pid);
}

static int configure_outside(void)
{
	shell("for a in 10.77.0.1/16 10.77.1.1/16 10.77.9.1/16; do /bin/ip addr add $a dev peer; "
	      "done; for a in fd77::1/16 fd77:1::1/16 fd77:9::1/16; do "
	      "/bin/ip addr add $a dev peer nodad; done; /bin/ip link set peer up");
	return 0;
}

/* The server lives in a namespace of its own, at the other end of a veth. */
static pid_t build_network(void)
{
	char script[128], path[64], ready;
	int ends[2];
	pid_t pid;

	if (unshare(CLONE_NEWNET) < 0 || pipe2(ends, O_CLOEXEC) < 0)
		die("network namespace");
	pid = fork();
	if (pid < 0)
		die("fork");
	if (pid == 0) {
		int listener, datagrams;

		if (unshare(CLONE_NEWNET) < 0 ||
		    server_open(SERVER_PORT, &listener, &datagrams) < 0 ||
		    write(ends[1], "r", 1) != 1)
			die("server");
		_exit(server_run(listener, datagrams, record, 0) < 0);
	}
	close(ends[1]);
	if (read(ends[0], &ready, 1) != 1)
		die("the server did not start");
	close(ends[0]);
	snprintf(path, sizeof(path), "/proc/%d/ns/net", pid);
	outside_fd = open(path, O_RDONLY | O_CLOEXEC);
	if (outside_fd < 0)
		die(path);
	snprintf(script, sizeof(script),
		 "/bin/ip link add inside type veth peer name peer; "
		 "/bin/ip link set peer netns %d",
		 pid);
	shell(script);
	(void)outside(configure_outside);
	shell("/bin/ip addr add 10.77.0.2/16 dev inside; "
	      "/bin/ip addr add fd77::2/16 dev inside nodad; "
	      "/bin/ip link set inside up; /bin/ip link set lo up");
	return pid;
}

/* Inside the Environment. */
static int attempt(unsigned int first)
{
	for (unsigned int i = 0; i < DESTINATION_COUNT; i++) {
		for (unsigned int kind = 0; kind < KIND_COUNT; kind++) {
			unsigned int token = first + i * KIND_COUNT + kind;
			uint64_t began = now_ms();
			int r = exchange((enum kind)kind, destinations[i].address, SERVER_PORT,
					 token);

			printf("%u %d %u\n", token, -r, (unsigned int)(now_ms() - began));
		}
	}
	return 0;
}

/* Inside the Environment. */
static int listen_inside(void)
{
	int listener, datagrams;

	if (server_open(INSIDE_PORT, &listener, &datagrams) < 0)
		return 1;
	puts("ready");
	fflush(stdout);
	return server_run(listener, datagrams, record, 4) < 0;
}

static int knock(void)
{
	for (unsigned int i = 0; i < 2; i++) {
		if (exchange(KIND_TCP, inside_addresses[i], INSIDE_PORT, 1) < 0 ||
		    exchange(KIND_UDP, inside_addresses[i], INSIDE_PORT, 2) < 0)
			return 1;
	}
	return 0;
}

/* Judges what `attempt` printed, and what the server saw. */
static void judge(FILE *output, unsigned int first, enum mode mode, const char *name)
{
	unsigned int token, error, took, seen;
	char what[160];

	for (unsigned int i = 0; i < KIND_COUNT * DESTINATION_COUNT; i++) {
		const struct destination *destination = &destinations[i / KIND_COUNT];
		bool allowed =
			mode == MODE_PUBLIC || (mode == MODE_ALLOWLIST && destination->listed);

		if (fscanf(output, "%u %u %u", &token, &error, &took) != 3 || token != first + i) {
			check(false, "what the attempts printed ends early");
			return;
		}
		seen = __atomic_load_n(&record->arrived[token], __ATOMIC_RELAXED);
		snprintf(what, sizeof(what), "%s: %s to %s: %s after %u ms, arrived %u times", name,
			 kind_names[i % KIND_COUNT], destination->address,
			 error ? strerrorname_np((int)error) : "answered", took, seen);
		if (allowed)
			check(error == 0 && seen == 1, what);
		else
			check(error == EPERM && took <= DENIAL_MAX_MS && seen == 0, what);
	}
}

static void check_mode(enum mode mode, unsigned int first, const char *name)
{
	char policy[256], number[16];
	const char *const argv[] = {phasegate, "run",	  "--policy", policy, "--",
				    self,      "attempt", number,     NULL};
	FILE *output;
	pid_t pid;

	snprintf(policy, sizeof(policy), "{\"network_policy\":%s}", mode_text[mode]);
	snprintf(number, sizeof(number), "%u", first);
	output = start_reading(argv, &pid);
	judge(output, first, mode, name);
	fclose(output);
	check(finish(pid) == 0, name);
}

/* Three commands in one Environment, each in its phase. */
static void check_phases(unsigned int first)
{
	static const enum mode modes[] = {MODE_PUBLIC, MODE_NO_NETWORK, MODE_ALLOWLIST};
	static const char *const names[] = {"phase setup", "phase run", "phase verifier"};
	char policy[512], commands[3][128];
	const char *const argv[] = {phasegate,	"run",	     "--policy", policy,
				    "--setup",	commands[0], "--run",	 commands[1],
				    "--verify", commands[2], NULL};
	FILE *output;
	pid_t pid;

	snprintf(policy, sizeof(policy),
		 "{\"network_policy\":%s,\"run_network_policy\":%s,\"verifier_network_policy\":%s}",
		 mode_text[modes[0]], mode_text[modes[1]], mode_text[modes[2]]);
	for (unsigned int i = 0; i < 3; i++)
		snprintf(commands[i], sizeof(commands[i]), "%s attempt %u", self,
			 first + i * TOKENS_PER_RUN);
	output = start_reading(argv, &pid);
	for (unsigned int i = 0; i < 3; i++)
		judge(output, first + i * TOKENS_PER_RUN, modes[i], names[i]);
	fclose(output);
	check(finish(pid) == 0, "three phases");
}

/* The policy is for what goes out: who comes in from outside is answered, in no-network too. */
static void check_inbound(void)
{
	char policy[] = "{\"network_policy\":\"no-network\"}", line[16];
	const char *const argv[] = {phasegate, "run", "--policy", policy,
				    "--",      self,  "listen",	  NULL};
	FILE *output;
	pid_t pid;

	output = start_reading(argv, &pid);
	check(fgets(line, sizeof(line), output) && strcmp(line, "ready\n") == 0,
	      "inbound: the server inside has started");
	check(outside(knock) == 0, "inbound: tcp and udp, v4 and v6, are answered in no-network");
	fclose(output);
	check(finish(pid) == 0, "inbound: the server inside saw all four");
}

static int run_checks(void)
{
	pid_t server = build_network();

	check_mode(MODE_ALLOWLIST, 0, "allowlist");
	check_mode(MODE_NO_NETWORK, TOKENS_PER_RUN, "no-network");
	check_mode(MODE_PUBLIC, 2 * TOKENS_PER_RUN, "public");
	check_phases(3 * TOKENS_PER_RUN);
	check_inbound();
	check(__atomic_load_n(&record->empty, __ATOMIC_RELAXED) == 0,
	      "no connection reached the server without its token");
	kill(server, SIGKILL);
	(void)finish(server);
	printf("vm_smoke: %u failed\n", failures);
	return failures != 0;
}

int main(int argc, char **argv)
{
	char path[256];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);

	if (n < 0)
		die("/proc/self/exe");
	path[n] = 0;
	self = path;
	record = mmap(NULL, sizeof(*record), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	if (record == MAP_FAILED)
		die("mmap");
	if (argc == 3 && strcmp(argv[1], "attempt") == 0)
		return attempt((unsigned int)strtoul(argv[2], NULL, 10));
	if (argc == 2 && strcmp(argv[1], "listen") == 0)
		return listen_inside();
	if (argc != 2) {
		fprintf(stderr, "usage: vm_smoke PHASEGATE\n");
		return 2;
	}
	phasegate = argv[1];
	return run_checks();
}
