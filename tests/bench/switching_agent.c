/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Switches through an agent of the benchmark's own: the call of libphasegate as a harness makes it,
 * with the closing of connections and the answer.
 */
#include "switching.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <phasegate/phasegate.h>

#include "base/clock.h"

#include "children.h"
#include "results.h"

#define SERVES_S	30
/* They take thousands of times as long as the store: one for so many of those. */
#define SWITCHES_OF_ONE 20
#define NAME		"switching"
#define MEMBER		"agent"
/* "/sys/fs/bpf/phasegate/+test-PID-..." is swept by the tests, should this process be killed. */
#define PINS		"/sys/fs/bpf/phasegate/+test-%d-bench"

struct agent {
	char directory[64], socket[96], program[4096];
	pid_t pid;
	struct phasegate_client *client;
};

/* Beside this program, as it is built. */
static bool find_program(struct agent *agent)
{
	const ssize_t size =
		readlink("/proc/self/exe", agent->program, sizeof(agent->program) - 32);
	char *end;

	if (size < 0)
		return false;
	agent->program[size] = '\0';
	end = strrchr(agent->program, '/');
	snprintf(end, 32, "/../bin/phasegated");
	return !access(agent->program, X_OK);
}

static void write_settings(const struct agent *agent, char path[static 128])
{
	pg_autofclose FILE *file = NULL;

	snprintf(path, 128, "%s/phasegated.conf", agent->directory);
	file = fopen(path, "we");
	if (!file || fprintf(file,
			     "{\"socket\":\"%s\",\"pins\":\"" PINS "\",\"cgroup_parent\":\"pgb-%d-"
			     "agent\"}\n",
			     agent->socket, getpid(), getpid()) < 0)
		fail("the settings of an agent: %s", strerror(errno));
}

/* Where it says that it serves. */
static int open_notify(const struct agent *agent, struct sockaddr_un *at)
{
	const struct timeval patience = {.tv_sec = SERVES_S};
	const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	at->sun_family = AF_UNIX;
	snprintf(at->sun_path, sizeof(at->sun_path), "%s/notify", agent->directory);
	if (fd < 0 || bind(fd, (struct sockaddr *)at, sizeof(*at)) < 0)
		fail("waiting for an agent: %s", strerror(errno));
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	return fd;
}

static void wait_ready(int notify)
{
	char text[512];

	do {
		const ssize_t size = recv(notify, text, sizeof(text) - 1, 0);

		if (size < 0)
			fail("an agent does not serve: %s", strerror(errno));
		text[size] = '\0';
	} while (!strstr(text, "READY=1"));
}

static void refuse(struct phasegate_error *error)
{
	fail("the agent: %s", error ? error->message : "no error");
}

static void agent_start(struct agent *agent)
{
	struct phasegate_error *error = NULL;
	const pid_t parent = getpid();
	pg_autoclose int notify = -1;
	struct sockaddr_un at = {0};
	char config[128];

	snprintf(agent->directory, sizeof(agent->directory), "/tmp/phasegate-bench-XXXXXX");
	if (!mkdtemp(agent->directory))
		fail("a directory for an agent: %s", strerror(errno));
	snprintf(agent->socket, sizeof(agent->socket), "%s/agent.sock", agent->directory);
	write_settings(agent, config);
	notify = open_notify(agent, &at);
	agent->pid = fork();
	if (agent->pid < 0)
		fail("fork: %s", strerror(errno));
	if (!agent->pid) {
		prctl(PR_SET_PDEATHSIG, SIGTERM);
		if (getppid() != parent)
			_exit(1);
		setenv("NOTIFY_SOCKET", at.sun_path, 1);
		execl(agent->program, agent->program, "--config", config, "--log-level", "error",
		      NULL);
		_exit(1);
	}
	wait_ready(notify);
	if (phasegate_open(agent->socket, &agent->client, &error))
		refuse(error);
}

static void agent_end(struct agent *agent)
{
	static const char *const names[] = {"agent.sock", "notify", "phasegated.conf"};
	int status;

	phasegate_close(agent->client);
	kill(agent->pid, SIGTERM);
	if (waitpid(agent->pid, &status, 0) < 0 || status)
		fail("an agent ended badly");
	for (size_t i = 0; i < PG_ARRAY_SIZE(names); i++) {
		char path[128];

		snprintf(path, sizeof(path), "%s/%s", agent->directory, names[i]);
		unlink(path);
	}
	rmdir(agent->directory);
}

static void create(const struct agent *agent, const struct machine *machine, const char *document)
{
	const size_t mount = strlen(pg_host_cgroup_mount(machine->host));
	struct phasegate_error *error = NULL;
	char cgroup[sizeof(machine->plain_path) + 16];
	const struct phasegate_member member = {.cgroup = cgroup};
	const struct phasegate_create wanted = {
		.name = NAME,
		.policy = {.documents = &document, .document_count = 1},
		.members = &member,
		.member_count = 1,
		.phase = "setup",
		.verifier = "host",
	};

	snprintf(cgroup, sizeof(cgroup), "%s/%s", machine->plain_path + mount, MEMBER);
	if (phasegate_create(agent->client, &wanted, NULL, NULL, &error))
		refuse(error);
}

static double set_phase_us(const struct agent *agent, bool run)
{
	const struct phasegate_set_phase wanted = {.phase = run ? "run" : "setup",
						   .survivors = "allow"};
	const uint64_t started = pg_monotonic_ns();
	struct phasegate_error *error = NULL;
	struct phasegate_change change;

	if (phasegate_set_phase(agent->client, NAME, &wanted, &change, NULL, &error))
		refuse(error);
	if (!change.changed)
		fail("a switch changed nothing");
	return (double)(pg_monotonic_ns() - started) / PG_NSEC_PER_USEC;
}

static void put_row(const struct bench_options *options, const struct agent *agent, int cgroup,
		    const char *row, bool loaded)
{
	/* An even number ends in the phase that it began with. */
	const size_t count = options->switches / SWITCHES_OF_ONE / 2 * 2 + 2;
	struct flooding *flooding = loaded ? flooding_start(options, cgroup, false) : NULL;
	pg_autofree double *took = calloc(count, sizeof(*took));

	if (!took)
		fail("not enough memory for the results");
	for (size_t i = 0; i < count; i++)
		took[i] = set_phase_us(agent, i % 2 == 0);
	if (loaded)
		flooding_end(flooding, NULL, 0);
	switching_put(row, "whole call", took, count);
}

void switching_agent(const struct bench_options *options, const struct machine *machine,
		     const char *document)
{
	struct phasegate_error *error = NULL;
	struct agent agent = {0};
	int cgroup;

	if (!find_program(&agent)) {
		results_missing(SWITCHING_TABLE, "Phasegate, through the agent",
				"whole call, median", "phasegated is not built");
		return;
	}
	fprintf(stderr, "bench: switches, through an agent\n");
	cgroup = child_cgroup_make(machine, MEMBER);
	agent_start(&agent);
	create(&agent, machine, document);
	put_row(options, &agent, cgroup, "Phasegate, through the agent, 10 entries, idle", false);
	put_row(options, &agent, cgroup, "Phasegate, through the agent, 10 entries, UDP flood",
		true);
	if (phasegate_destroy(agent.client, NAME, "kill", &error))
		refuse(error);
	agent_end(&agent);
	pg_close_fd(&cgroup);
	child_cgroup_remove(machine, MEMBER);
}
