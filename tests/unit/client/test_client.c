/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#include <errno.h>
#include <string.h>

#include <phasegate/phasegate.h>

#include "fake_agent.h"

#define OK(body) \
	"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n" body
#define CHANGE \
	OK("{\"name\":\"e\",\"phase\":\"run\",\"generation\":7,\"changed\":true,\"closed\":3," \
	   "\"took_us\":1.5,\"survivors\":[{\"pid\":1,\"command\":\"x\",\"cgroup\":null}]," \
	   "\"something_new\":{}}")

static struct fake_agent fake;
static struct phasegate_client *client;
static struct phasegate_error *error;

static void start(const char *reply)
{
	fake_agent_start(&fake, reply);
	cr_assert(phasegate_open(fake.path, &client, &error) == 0);
}

static void stop(void)
{
	fake_agent_stop(&fake);
	phasegate_close(client);
	phasegate_error_free(error);
	client = NULL;
	error = NULL;
}

static bool asked(const char *line)
{
	return strncmp(fake.request, line, strlen(line)) == 0;
}

static const char *const documents[] = {"{\"network_policy\":\"public\"}", " {} \n"};
static const struct phasegate_addition additions[] = {{"run", "a\"b"},
						      {"setup", "c"},
						      {"run", "d"}};

Test(client, creates)
{
	const struct phasegate_member members[] = {{.cgroup = "/a"},
						   {.pid = 12},
						   {.container = "c", .runtime = "docker"}};
	const struct phasegate_create wanted = {
		.name = "e",
		.policy = {documents, 2, true, additions, 3},
		.members = members,
		.member_count = 3,
		.attach = true,
		.phase = "run",
		.verifier = "new",
		.member_traffic = "deny",
		.omit_denials = true,
		.dns = "{\"floor_s\":1}",
	};
	bool created = false;
	char *json = NULL;

	start("HTTP/1.1 201 Created\r\nContent-Length: 12\r\n\r\n{\"name\":\"e\"}");
	cr_assert(phasegate_create(client, &wanted, &created, &json, &error) == 0);
	cr_expect(created);
	cr_expect_str_eq(json, "{\"name\":\"e\"}");
	phasegate_free(json);
	stop();
	cr_expect(asked("POST /v1/environments HTTP/1.1\r\n"));
	cr_expect(!strstr(fake.request, "Expect"));
	cr_expect_str_eq(
		fake_agent_body(&fake),
		"{\"name\":\"e\",\"policy\":[{\"network_policy\":\"public\"}, {} \n],"
		"\"form\":\"env-params\",\"allow\":{\"setup\":[\"c\"],\"run\":[\"a\\\"b\",\"d\"]},"
		"\"dns\":{\"floor_s\":1},\"members\":[{\"cgroup\":\"/a\"},{\"pid\":12},"
		"{\"container\":\"c\",\"runtime\":\"docker\"}],\"attach\":true,\"phase\":\"run\","
		"\"verifier\":\"new\",\"member_traffic\":\"deny\",\"report_denials\":false}");
}

Test(client, sets_a_phase)
{
	const struct phasegate_set_phase wanted = {.phase = "run",
						   .expected_generation = 6,
						   .survivors = "freeze",
						   .lease_seconds = 9,
						   .lease_then = "deny"};
	struct phasegate_change change = {0};

	start(CHANGE);
	cr_assert(phasegate_set_phase(client, "e", &wanted, &change, NULL, &error) == 0);
	stop();
	cr_expect(change.generation == 7 && change.changed && change.closed == 3 &&
		  change.survivors == 1);
	cr_expect(asked("PUT /v1/environments/e/phase HTTP/1.1\r\n"));
	cr_expect_str_eq(fake_agent_body(&fake),
			 "{\"phase\":\"run\",\"expected_generation\":6,\"survivors\":\"freeze\","
			 "\"lease\":{\"seconds\":9,\"then\":\"deny\"}}");
}

/* Of a struct of which the phase alone is set. */
Test(client, sets_a_phase_by_the_agents_defaults)
{
	const struct phasegate_set_phase wanted = {.phase = "run"};

	start(CHANGE);
	cr_assert(phasegate_set_phase(client, "e", &wanted, NULL, NULL, &error) == 0);
	stop();
	cr_expect_str_eq(fake_agent_body(&fake), "{\"phase\":\"run\"}");
}

Test(client, updates)
{
	const struct phasegate_policy policy = {.documents = documents, .document_count = 1};
	struct phasegate_change change = {0};

	start(CHANGE);
	cr_assert(phasegate_update(client, "e", &policy, PHASEGATE_ANY_GENERATION, &change, NULL,
				   &error) == 0);
	stop();
	cr_expect(asked("PUT /v1/environments/e/policy HTTP/1.1\r\n"));
	cr_expect_str_eq(fake_agent_body(&fake), "{\"policy\":{\"network_policy\":\"public\"}}");
}

Test(client, escapes_names_and_hosts)
{
	bool allowed = false;
	char *json = NULL;

	start(OK("{\"allowed\":true,\"denied\":false}"));
	cr_assert(phasegate_explain(client, "a/b ?", "x&phase=y", "run", &allowed, &json, &error) ==
		  0);
	cr_expect(allowed);
	phasegate_free(json);
	stop();
	cr_expect(asked("GET /v1/environments/a%2Fb%20%3F/explain?host=x%26phase%3Dy&phase=run "));
}

Test(client, explains_denied_after_a_lease)
{
	bool allowed = true;

	start(OK("{\"allowed\":true,\"denied\":true}"));
	cr_assert(phasegate_explain(client, "e", "x", NULL, &allowed, NULL, &error) == 0);
	stop();
	cr_expect(!allowed);
}

Test(client, destroys)
{
	start(OK("{\"name\":\"e\",\"destroyed\":true}"));
	cr_assert(phasegate_destroy(client, "e", "kill", &error) == 0);
	stop();
	cr_expect(asked("DELETE /v1/environments/e?processes=kill "));
}

Test(client, verifies)
{
	static const struct {
		const char *reply;
		enum phasegate_verdict verdict;
	} cases[] = {
		{OK("{\"result\":\"enforced\"}"), PHASEGATE_ENFORCED},
		{OK("{\"result\":\"not_enforced\"}"), PHASEGATE_NOT_ENFORCED},
		{OK("{\"result\":\"inconclusive\"}"), PHASEGATE_INCONCLUSIVE},
		{OK("{\"result\":\"of another version\"}"), PHASEGATE_INCONCLUSIVE},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		static const char *const without[] = {"vsock", "mld"};
		const struct phasegate_verify wanted = {"a:1", NULL, without, 2};
		enum phasegate_verdict verdict = PHASEGATE_ENFORCED;

		start(cases[i].reply);
		cr_assert(phasegate_verify(client, "e", &wanted, &verdict, NULL, &error) == 0);
		stop();
		cr_expect(verdict == cases[i].verdict);
		cr_expect_str_eq(fake_agent_body(&fake),
				 "{\"allowed\":\"a:1\",\"without\":[\"vsock\",\"mld\"]}");
	}
}

Test(client, verifies_by_default)
{
	enum phasegate_verdict verdict = PHASEGATE_INCONCLUSIVE;

	start(OK("{\"result\":\"enforced\"}"));
	cr_assert(phasegate_verify(client, "e", NULL, &verdict, NULL, &error) == 0);
	stop();
	cr_expect(verdict == PHASEGATE_ENFORCED);
	cr_expect_str_eq(fake_agent_body(&fake), "{}");
}

static bool count_event(void *userdata, const char *json, size_t size)
{
	unsigned int *left = userdata;

	cr_expect(size == strlen("{\"cursor\":5}") && !strncmp(json, "{\"cursor\":", 10));
	return --*left > 0;
}

#define EVENTS OK("{\"cursor\":5}\n{\"cursor\":6}\n{\"event\":\"cursor\",\"cursor\":7}\n")

Test(client, reads_events)
{
	const struct phasegate_events wanted = {"now", "e", true};
	unsigned int left = 3;
	uint64_t cursor = 0;

	start(EVENTS);
	cr_assert(phasegate_events(client, &wanted, count_event, &left, &cursor, &error) == 0);
	stop();
	cr_expect(cursor == 7 && left == 1);
	cr_expect(asked("GET /v1/events?cursor=now&environment=e&follow=1 "));
}

Test(client, ends_events_when_told)
{
	const struct phasegate_events wanted = {0};
	unsigned int left = 1;
	uint64_t cursor = 0;

	start(EVENTS);
	cr_assert(phasegate_events(client, &wanted, count_event, &left, &cursor, &error) ==
		  -ECANCELED);
	cr_expect_str_eq(error->code, "cancelled");
	stop();
	cr_expect(cursor == 0);
}

Test(client, hands_errors_over)
{
	char *json = (char *)"untouched";

	start("HTTP/1.1 409 Conflict\r\nConnection: close\r\n\r\n"
	      "{\"code\":\"generation_mismatch\",\"message\":\"m\",\"object\":\"e\","
	      "\"next_step\":\"n\",\"generation\":4}");
	cr_assert(phasegate_show(client, "e", &json, &error) == -EREMOTEIO);
	cr_expect_str_eq(json, "untouched");
	cr_expect(error->number == -EREMOTEIO && error->status == 409);
	cr_expect_str_eq(error->code, "generation_mismatch");
	cr_expect_str_eq(error->message, "m");
	cr_expect_str_eq(error->object, "e");
	cr_expect_str_eq(error->next_step, "n");
	cr_expect(strstr(error->json, "\"generation\":4"));
	stop();
}

Test(client, takes_an_error_without_object)
{
	start("HTTP/1.1 503 X\r\nConnection: close\r\n\r\n"
	      "{\"code\":\"stopping\",\"message\":\"m\",\"object\":null,\"next_step\":\"n\"}");
	cr_assert(phasegate_list(client, NULL, &error) == -EREMOTEIO);
	cr_expect(!error->object);
	stop();
}

Test(client, refuses_what_is_no_answer)
{
	static const char *const replies[] = {
		OK(""),
		OK("{"),
		OK("[]"),
		OK("{\"changed\":true}"),
		OK("{\"generation\":-1}"),
		"HTTP/1.1 500 X\r\nConnection: close\r\n\r\n<html>",
		"HTTP/1.1 500 X\r\nConnection: close\r\n\r\n{}",
		"HTTP/1.1 302 X\r\nLocation: http://localhost/\r\nConnection: close\r\n\r\n{}",
	};
	const struct phasegate_set_phase wanted = {.phase = "run"};
	struct phasegate_change change;

	for (size_t i = 0; i < sizeof(replies) / sizeof(*replies); i++) {
		start(replies[i]);
		cr_expect(phasegate_set_phase(client, "e", &wanted, &change, NULL, &error) ==
				  -EPROTO,
			  "%zu", i);
		cr_assert(error);
		cr_expect_str_eq(error->code, "agent_reply");
		stop();
	}
}

Test(client, says_that_it_was_lost)
{
	static const char *const replies[] = {NULL, "nonsense",
					      "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}"};

	for (size_t i = 0; i < sizeof(replies) / sizeof(*replies); i++) {
		start(replies[i]);
		cr_expect(phasegate_list(client, NULL, &error) == -EIO, "%zu", i);
		cr_assert(error);
		cr_expect_str_eq(error->code, "agent_lost");
		stop();
	}
}

Test(client, says_that_nobody_is_there)
{
	cr_assert(phasegate_open("/nonexistent/agent.sock", &client, &error) == 0);
	cr_expect(phasegate_list(client, NULL, &error) == -ENOENT);
	cr_assert(error);
	cr_expect_str_eq(error->code, "agent_unreachable");
	cr_expect(error->status == 0);
	phasegate_error_free(error);
	/* Without anybody who wants to know. */
	cr_expect(phasegate_list(client, NULL, NULL) == -ENOENT);
	phasegate_close(client);
}

/* As many as there is room for wait to be accepted. */
static size_t fill_backlog(int fds[static 16])
{
	struct sockaddr_un name = {.sun_family = AF_UNIX};
	size_t count = 0;

	snprintf(name.sun_path, sizeof(name.sun_path), "%s", fake.path);
	for (;; count++) {
		cr_assert(count < 16);
		fds[count] = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
		if (connect(fds[count], (const struct sockaddr *)&name, sizeof(name)))
			break;
	}
	cr_assert(errno == EAGAIN);
	close(fds[count]);
	return count;
}

Test(client, waits_until_it_is_accepted)
{
	char *json = NULL;
	size_t count;
	int fds[16];

	fake_agent_listen(&fake, OK("{\"environments\":[]}"));
	count = fill_backlog(fds);
	cr_assert(phasegate_open(fake.path, &client, &error) == 0);
	phasegate_set_timeout(client, 100);
	cr_expect(phasegate_list(client, &json, &error) == -ETIMEDOUT);
	cr_assert(error);
	cr_expect_str_eq(error->code, "agent_unreachable");
	phasegate_error_free(error);
	error = NULL;
	for (size_t i = 0; i < count; i++) {
		close(accept(fake.listen_fd, NULL, NULL));
		close(fds[i]);
	}
	phasegate_set_timeout(client, 60000);
	fake_agent_accept(&fake);
	cr_expect(phasegate_list(client, &json, &error) == 0);
	phasegate_free(json);
	stop();
}

Test(client, sends_nothing_that_is_wrong)
{
	static const char *const wrong[] = {"",		  "[]",	 "{",	  "{}}",   "{},\"a\":{}",
					    "{\"a\":\"}", "x{}", "{} {}", "{\"\\", NULL};
	char name[3000];
	int result;

	memset(name, 'a', sizeof(name));
	name[sizeof(name) - 1] = '\0';
	cr_assert(phasegate_open("/nonexistent/agent.sock", &client, &error) == 0);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		const struct phasegate_policy policy = {.documents = &wrong[i],
							.document_count = 1};

		result = phasegate_validate(client, &policy, NULL, &error);
		cr_expect(result == -EINVAL, "%s", wrong[i] ? wrong[i] : "NULL");
		cr_assert(error);
		cr_expect_str_eq(error->code, "bad_argument");
		phasegate_error_free(error);
	}
	cr_expect(phasegate_show(client, "..", NULL, NULL) == -EINVAL);
	cr_expect(phasegate_show(client, "", NULL, NULL) == -EINVAL);
	cr_expect(phasegate_show(client, name, NULL, NULL) == -EINVAL);
	cr_expect(phasegate_open(name, &client, NULL) == -EINVAL);
	phasegate_close(client);
}

Test(client, lets_null_pass)
{
	phasegate_close(NULL);
	phasegate_free(NULL);
	phasegate_error_free(NULL);
}
