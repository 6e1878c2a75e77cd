/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads attempts, one a line, and answers each with a line of JSON.
 *
 *   adversary list                   the names of all vectors
 *   adversary serve                  a server, for what comes from outside
 *   adversary first ATTEMPT          tries it at once, some times, and goes on as without
 *   adversary flood ATTEMPT          frames by eth1 once it is there, and so on; a line for each
 *   adversary                        attempts from standard input:
 *     NAME root|user KEY=VALUE...    keys as in parse()
 */
#include "adversary.h"
#include "serve.h"

#include <arpa/inet.h>
#include <errno.h>
#include <grp.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <netpacket/packet.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define NOBODY	      65534
#define LIMIT_SECONDS 5
#define NOTE	      160
#define FIRST_TRIES   20

extern const struct vector __start_vectors[], __stop_vectors[];

struct outcome {
	int error;
	char note[NOTE];
};

static struct outcome outcome;

void note(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(outcome.note, sizeof(outcome.note), format, arguments);
	va_end(arguments);
}

static const struct vector *find(const char *name)
{
	for (const struct vector *one = __start_vectors; one < __stop_vectors; one++)
		if (strcmp(one->name, name) == 0)
			return one;
	return NULL;
}

static void parse_address(union any *address, const char *text)
{
	memset(address, 0, sizeof(*address));
	if (strchr(text, ':')) {
		address->in6.sin6_family = AF_INET6;
		address->in6.sin6_port = htons(PORT);
		inet_pton(AF_INET6, text, &address->in6.sin6_addr);
	} else {
		address->in.sin_family = AF_INET;
		address->in.sin_port = htons(PORT);
		inet_pton(AF_INET, text, &address->in.sin_addr);
	}
}

static void parse_mac(uint8_t *mac, const char *text)
{
	sscanf(text, "%hhx:%hhx:%hhx:%hhx:%hhx:%hhx", &mac[0], &mac[1], &mac[2], &mac[3], &mac[4],
	       &mac[5]);
}

static void parse(struct attempt *attempt, const char *key, const char *value)
{
	const struct {
		const char *key;
		union any *address;
		uint8_t *mac;
	} keys[] = {
		{"target", &attempt->target, NULL},    {"allowed", &attempt->allowed, NULL},
		{"own", &attempt->own, NULL},	       {"gateway", &attempt->gateway, NULL},
		{"group", &attempt->group, NULL},      {"onlink", &attempt->onlink, NULL},
		{"other", &attempt->other, NULL},      {"mac", NULL, attempt->mac},
		{"gwmac", NULL, attempt->gateway_mac}, {"madmac", NULL, attempt->made_mac},
	};

	if (strcmp(key, "token") == 0)
		attempt->token = value;
	else if (strcmp(key, "number") == 0)
		attempt->number = (unsigned)atoi(value);
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		if (strcmp(key, keys[i].key) != 0)
			continue;
		if (keys[i].mac)
			parse_mac(keys[i].mac, value);
		else
			parse_address(keys[i].address, value);
	}
}

static void become_nobody(void)
{
	if (setgroups(0, NULL) || setresgid(NOBODY, NOBODY, NOBODY) ||
	    setresuid(NOBODY, NOBODY, NOBODY))
		_exit(1);
}

/* The process that tries, and may be lost. */
static void attempt_in(int report, const struct vector *vector, bool root,
		       const struct attempt *attempt)
{
	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	alarm(LIMIT_SECONDS);
	signal(SIGPIPE, SIG_IGN);
	if (!root)
		become_nobody();
	outcome.error = -vector->run(attempt);
	if (write(report, &outcome, sizeof(outcome)) != sizeof(outcome))
		_exit(1);
	_exit(0);
}

static struct outcome try_one(const struct vector *vector, bool root, const struct attempt *attempt)
{
	struct outcome result = {.error = ETIME};
	int ends[2], child;

	if (pipe(ends) || (child = fork()) < 0) {
		result.error = errno;
		return result;
	}
	if (child == 0)
		attempt_in(ends[1], vector, root, attempt);
	close(ends[1]);
	if (read(ends[0], &result, sizeof(result)) != sizeof(result))
		result.error = ETIME;
	close(ends[0]);
	waitpid(child, NULL, 0);
	/* What it has left running. */
	kill(-child, SIGKILL);
	return result;
}

int in_child(vector_fn function, const struct attempt *attempt)
{
	int ends[2], child, result = -ETIME;

	if (pipe(ends) || (child = fork()) < 0)
		return -errno;
	if (child == 0) {
		result = function(attempt);
		_exit(write(ends[1], &result, sizeof(result)) != sizeof(result));
	}
	close(ends[1]);
	if (read(ends[0], &result, sizeof(result)) != sizeof(result))
		result = -ETIME;
	waitpid(child, NULL, 0);
	return result;
}

static void parse_all(struct attempt *attempt, char **rest)
{
	for (char *word; (word = strtok_r(NULL, " \n", rest));) {
		char *value = strchr(word, '=');

		if (!value)
			continue;
		*value++ = '\0';
		parse(attempt, word, value);
	}
}

/* By the next device when one has gone. */
static void flood(char *line)
{
	struct attempt attempt = {.token = ""};
	struct sockaddr_ll to = {.sll_family = AF_PACKET};
	const int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
	char *rest = NULL, device[IFNAMSIZ] = "eth1";
	unsigned number = 1;
	uint8_t frame[ROOM];
	bool taken = false;
	size_t size;

	strtok_r(line, " \n", &rest);
	parse_all(&attempt, &rest);
	size = put_ethernet(frame, &attempt, ETHERTYPE_IP);
	size += put_udp(frame + size, &attempt.own, &attempt.target, PORT, attempt.token);
	for (;;) {
		to.sll_ifindex = (int)if_nametoindex(device);
		if (!to.sll_ifindex && taken)
			snprintf(device, sizeof(device), "eth%u", ++number);
		if (!to.sll_ifindex)
			taken = false;
		else if (sendto(fd, frame, size, 0, (struct sockaddr *)&to, sizeof(to)) > 0 &&
			 !taken) {
			taken = true;
			puts("{}");
			fflush(stdout);
		}
	}
}

static void interpret(char *line)
{
	struct attempt attempt = {.token = ""};
	char *rest = NULL, *name = strtok_r(line, " \n", &rest);
	const char *privilege = name ? strtok_r(NULL, " \n", &rest) : NULL;
	const struct vector *vector = name ? find(name) : NULL;
	struct outcome result = {.error = ENOSYS};
	struct timespec begin, end;

	clock_gettime(CLOCK_MONOTONIC, &begin);
	if (!privilege)
		return;
	parse_all(&attempt, &rest);
	if (vector)
		result = try_one(vector, strcmp(privilege, "root") == 0, &attempt);
	for (char *c = result.note; *c; c++)
		if (*c == '"' || *c == '\\' || (unsigned char)*c < ' ')
			*c = ' ';
	clock_gettime(CLOCK_MONOTONIC, &end);
	printf("{\"vector\":\"%s\",\"errno\":\"%s\",\"note\":\"%s\",\"ms\":%ld}\n", name,
	       result.error ? strerrorname_np(result.error) ?: "?" : "", result.note,
	       (end.tv_sec - begin.tv_sec) * 1000 + (end.tv_nsec - begin.tv_nsec) / 1000000);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	char *line = NULL;
	size_t room = 0;

	if (argc > 1 && strcmp(argv[1], "list") == 0) {
		for (const struct vector *one = __start_vectors; one < __stop_vectors; one++)
			puts(one->name);
		return 0;
	}
	for (int tries = 0; argc > 2 && strcmp(argv[1], "first") == 0 && tries < FIRST_TRIES;
	     tries++) {
		char *copy = strdup(argv[2]);

		interpret(copy);
		free(copy);
	}
	if (argc > 1 && strcmp(argv[1], "serve") == 0)
		return serve();
	if (argc > 2 && strcmp(argv[1], "flood") == 0)
		flood(argv[2]);
	while (getline(&line, &room, stdin) > 0)
		interpret(line);
	free(line);
	return 0;
}
