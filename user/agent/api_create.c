/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "containers.h"
#include "create.h"
#include "describe.h"
#include "descriptors.h"
#include "exposures.h"
#include "exposures_watch.h"
#include "members.h"
#include "opens_host.h"
#include "quota.h"
#include "request.h"

/* One that is being made. What it has of the request outlives that. */
struct creation {
	const struct pg_agent *agent;
	struct pg_json *json;
	struct pg_caller caller;
	struct pg_reply refusal; /* .status: the members cannot be had */
	struct pg_create_request wanted;
	struct pg_member_list members;
	struct pg_endpoint resolvers[PG_NAMESERVERS_MAX];
	size_t resolver_count;
	struct pg_endpoint own_resolvers[PG_NAMESERVERS_MAX];
	size_t own_resolver_count, told_resolver_count;
	struct pg_managed *managed;
};

static void free_creation(void *task)
{
	struct creation *creation = task;

	pg_create_request_clear(&creation->wanted);
	pg_json_free(creation->json);
	pg_caller_clear(&creation->caller);
	pg_reply_clear(&creation->refusal);
	pg_member_list_clear(&creation->members);
	if (creation->managed)
		pg_note_clear(&creation->managed->note);
	free(creation->managed);
	free(creation);
}

static void free_creation_of(struct creation **creation)
{
	if (*creation)
		free_creation(*creation);
}

static void answer(const struct pg_managed *managed, unsigned int status, struct pg_reply *reply)
{
	struct pg_json_writer *json = pg_reply_open(reply, status);

	if (!json)
		return;
	pg_describe(managed, PG_DETAIL_WHOLE, json);
	pg_reply_close(reply);
}

/* A member that was started anew is in another cgroup, also if that has the same path. */
static const char *find_gone(const struct pg_environment *environment)
{
	for (size_t i = 0; i < pg_environment_member_count(environment); i++)
		if (pg_environment_member_gone(environment, i))
			return pg_environment_member(environment, i);
	return NULL;
}

/* The same request again is the same Environment, unless that does not confine its members. */
static void answer_existing(const struct pg_request *request, const struct pg_managed *managed,
			    const struct pg_create_request *wanted, struct pg_reply *reply)
{
	/* It is not said what somebody else's is, only that the name is not free. */
	if (request->caller->uid != pg_environment_owner(managed->environment))
		pg_reply_error(reply, PG_API_NAME_TAKEN, wanted->name, NULL,
			       "an Environment of another user has the name");
	else if (managed->note.digest != wanted->digest)
		pg_reply_error(reply, PG_API_ENVIRONMENT_EXISTS, wanted->name, NULL,
			       "an Environment of this name was created with another request");
	else if (find_gone(managed->environment))
		pg_reply_error(reply, PG_API_ENVIRONMENT_EXISTS, wanted->name,
			       "destroy it, then create it again",
			       "the Environment's member %s is gone, so it does not confine what is"
			       " there now",
			       find_gone(managed->environment));
	else
		answer(managed, 200, reply);
}

/* Read at each create, since the host's may change. A policy without names may get some later. */
static int find_resolvers(struct pg_agent *agent, struct creation *creation, struct pg_reply *reply)
{
	const struct pg_config *config = agent->config;
	struct pg_error err = {};

	creation->resolver_count = config->resolver_count;
	memcpy(creation->resolvers, config->resolvers, sizeof(config->resolvers));
	pg_containers_resolvers(agent, &creation->members, creation->own_resolvers,
				PG_NAMESERVERS_MAX, &creation->own_resolver_count);
	for (size_t i = 0; i < creation->wanted.own_resolver_count &&
			   creation->own_resolver_count < PG_NAMESERVERS_MAX;
	     i++) {
		creation->own_resolvers[creation->own_resolver_count++] =
			creation->wanted.own_resolvers[i];
		creation->told_resolver_count++;
	}
	if (creation->resolver_count > 0 ||
	    pg_resolv_conf_read(NULL, creation->resolvers, PG_NAMESERVERS_MAX,
				&creation->resolver_count, &err) == 0 ||
	    creation->own_resolver_count > 0 || !pg_policy_has_names(creation->wanted.input.policy))
		return 0;
	return pg_reply_error(reply, PG_API_NO_RESOLVER, "/policy", NULL,
			      "the policy has host names: %s", err.text);
}

static void warn(struct pg_agent *agent, const struct creation *creation)
{
	const struct pg_policy *policy = creation->wanted.input.policy;

	if (creation->wanted.verifier == PG_VERIFIER_HOST &&
	    policy->phases[PG_PHASE_VERIFIER].origin == PG_ORIGIN_DOCUMENT)
		pg_agent_warn(agent, "verifier_on_host",
			      "verification runs on the host, where verifier_network_policy does"
			      " not apply; the phase will be refused");
	if (creation->wanted.own_resolver_count > 0)
		pg_agent_warn(agent, "environment_resolver",
			      "names of one label are asked of own_resolvers where they are asked"
			      " for: whoever can listen or answer there decides what they open");
	pg_opens_host_warn(agent, policy);
	pg_containers_warn(agent, &creation->members, policy);
	pg_exposures_warn(agent, &creation->members.exposures, creation->wanted.accept);
	pg_exposures_warn_accepted(agent, creation->wanted.accept);
}

/* What the layers below say; everything that has a code of its own was checked before. */
static void refuse(const struct creation *creation, const struct pg_error *err,
		   struct pg_reply *reply)
{
	const char *name = creation->wanted.name;

	if (err->number == -EEXIST)
		pg_reply_error(reply, PG_API_NAME_TAKEN, name, NULL, "%s", err->text);
	else if (err->number == -EBUSY)
		pg_reply_error(reply, PG_API_MEMBER_TAKEN, "/members", NULL, "%s", err->text);
	else if (err->number == -EINVAL)
		pg_reply_error(reply, PG_API_MEMBER_UNFIT, "/members", NULL, "%s", err->text);
	else
		pg_reply_failure(reply, name, err);
}

static int prepare_note(struct creation *creation, struct pg_reply *reply)
{
	struct pg_managed *managed = creation->managed = calloc(1, sizeof(*managed));

	if (managed) {
		managed->events_from = creation->agent->events.next;
		managed->note.digest = creation->wanted.digest;
		managed->note.verifier = creation->wanted.verifier;
		managed->note.apart = creation->wanted.apart;
		managed->note.let =
			pg_exposures_let(creation->agent->config, &creation->members.exposures,
					 creation->wanted.accept);
		if (creation->wanted.phase == PG_PHASE_RUN)
			managed->note.run_since = pg_boottime_ns();
		managed->note.members = PG_TAKE_PTR(creation->members.sources);
		managed->note.warnings = strdup("");
		(void)!pg_exposures_print(&creation->members.exposures, &managed->note.exposures);
	}
	if (!managed || !managed->note.warnings || !managed->note.exposures)
		return pg_reply_error(reply, PG_API_OUT_OF_MEMORY, creation->wanted.name, NULL,
				      "no memory for the Environment");
	return 0;
}

static int make(struct pg_agent *agent, const struct pg_request *request, struct creation *creation,
		struct pg_error *err)
{
	const struct pg_create_request *wanted = &creation->wanted;
	struct pg_member_address_of addresses[PG_MEMBER_ADDRESSES_MAX];
	pg_autofree char *note = NULL;
	pg_autoclose int hosts_fd = -1;
	char hosts[32];
	int error;
	struct pg_environment_options options = {
		.name = wanted->name,
		.members = (const char *const *)creation->members.paths,
		.member_count = creation->members.count,
		.attach = creation->members.attach,
		.apart = wanted->apart,
		.addresses = addresses,
		.address_count = pg_containers_addresses(&creation->members, addresses,
							 PG_MEMBER_ADDRESSES_MAX),
		.report_denials = wanted->report_denials,
		.policy = wanted->input.policy,
		.phase = wanted->phase,
		.resolvers = creation->resolvers,
		.resolver_count = creation->resolver_count,
		.own_resolvers = creation->own_resolvers,
		.own_resolver_count = creation->own_resolver_count,
		.told_resolver_count = creation->told_resolver_count,
		.dns = wanted->dns,
		.owner = request->caller->uid,
		.refused_rights =
			pg_exposures_refused_rights(agent->config, creation->managed->note.let),
	};

	if (pg_note_print(&creation->managed->note, &note) < 0)
		return pg_fail(err, -ENOMEM, "no memory for the Environment");
	options.note = note;
	error = pg_containers_hosts(agent, &creation->members, &hosts_fd, err);
	if (error)
		return error;
	snprintf(hosts, sizeof(hosts), "/proc/self/fd/%d", hosts_fd);
	options.hosts = hosts_fd < 0 ? NULL : hosts;
	return pg_environment_create(agent->host, &options, &creation->managed->environment, err);
}

/* Which links can have no guard is known once it is made; then it is given up again. */
static int judge_links(struct pg_agent *agent, struct creation *creation, struct pg_reply *reply)
{
	struct pg_exposure_list *found = &creation->members.exposures;
	const size_t before = found->count;
	struct pg_exposure_list links;
	struct pg_error err = {};

	pg_exposures_find_links(creation->managed->environment, &creation->members);
	links = (struct pg_exposure_list){.items = found->items + before,
					  .count = found->count - before};
	if (links.count == 0)
		return 0;
	if (pg_exposures_judge(agent, &links, creation->wanted.accept, reply) == 0) {
		pg_exposures_warn(agent, &links, creation->wanted.accept);
		return 0;
	}
	if (pg_environment_destroy(PG_TAKE_PTR(creation->managed->environment), PG_DESTROY_RELEASE,
				   &err) < 0)
		pg_log_error("%s: %s", creation->wanted.name, err.text);
	return -EINVAL;
}

static void watch(const struct creation *creation)
{
	pg_exposures_watch(creation->managed, false);
	if (creation->members.attach)
		pg_exposures_seen(creation->managed);
}

/* All warnings of its creation belong to what is shown of it later. */
static void keep_warnings(struct pg_agent *agent, struct creation *creation)
{
	struct pg_managed *managed = creation->managed;
	pg_autojsonwriter struct pg_json_writer json = {0};
	pg_autofree char *warnings = NULL;
	pg_autonote struct pg_note note = {0};
	struct pg_error err = {};
	size_t size;

	pg_agent_take_warnings(agent, &warnings);
	if (!warnings || pg_json_writer_start(&json) < 0 || pg_note_copy(&managed->note, &note) < 0)
		return;
	pg_policy_input_warnings(&creation->wanted.input, &json);
	if (*warnings) {
		pg_json_write_name(&json, NULL);
		fputs(warnings, json.out);
	}
	free(PG_TAKE_PTR(note.warnings));
	free(PG_TAKE_PTR(note.exposures));
	if (pg_exposures_print(&creation->members.exposures, &note.exposures) < 0)
		return;
	if (pg_json_writer_end(&json, &note.warnings, &size) == 0 &&
	    pg_managed_set_note(managed, &note, &err) < 0)
		pg_log_warning("%s: %s", creation->wanted.name, err.text);
}

/* What was denied until now was so for trying it, and before the phase was in force. */
static void forget_denials(struct pg_agent *agent, const struct pg_environment *environment)
{
	struct pg_error err = {};

	agent->quiet = environment;
	if (pg_host_process(agent->host, &err) < 0)
		pg_log_error("%s", err.text);
	agent->quiet = NULL;
}

static void report(struct pg_agent *agent, const struct pg_environment *environment)
{
	const struct pg_connections *connections = pg_environment_connections(environment);
	struct pg_json_writer json;

	forget_denials(agent, environment);
	pg_log_info("%s: created by user %u, in phase %s", pg_environment_name(environment),
		    (unsigned int)pg_environment_owner(environment),
		    pg_phase_name(pg_environment_phase(environment)));
	if (!pg_agent_open_event(agent, &json, "created", pg_environment_name(environment)))
		return;
	pg_json_write_string(&json, "phase", pg_phase_name(pg_environment_phase(environment)));
	pg_json_write_number(&json, "generation", pg_environment_generation(environment));
	if (connections) {
		pg_json_write_number(&json, "closed", connections->closed);
		pg_json_write_number(&json, "kept", connections->kept);
	}
	pg_agent_close_event(agent, &json, pg_environment_owner(environment),
			     pg_environment_name(environment));
}

static void create(struct pg_agent *agent, const struct pg_request *request,
		   struct creation *creation, struct pg_reply *reply)
{
	pg_autofree char *unused = NULL;
	struct pg_error err = {};
	int error;

	if (prepare_note(creation, reply) < 0)
		return;
	if (pg_agent_collect_warnings(agent, creation->wanted.name) < 0) {
		pg_reply_error(reply, PG_API_OUT_OF_MEMORY, creation->wanted.name, NULL,
			       "no memory for the Environment");
		return;
	}
	warn(agent, creation);
	error = make(agent, request, creation, &err);
	if (error) {
		pg_agent_take_warnings(agent, &unused);
		refuse(creation, &err, reply);
		return;
	}
	if (judge_links(agent, creation, reply) < 0) {
		pg_agent_take_warnings(agent, &unused);
		return;
	}
	keep_warnings(agent, creation);
	watch(creation);
	LIST_INSERT_HEAD(&agent->environments, creation->managed, link);
	agent->environment_count++;
	report(agent, creation->managed->environment);
	answer(PG_TAKE_PTR(creation->managed), 201, reply);
}

/* Without any it gets a cgroup of its own. */
static size_t count_members(const struct pg_create_request *wanted)
{
	const size_t count = wanted->members ? pg_json_count(wanted->members) : 0;

	return count ? count : 1;
}

/* Whether there is nothing that stands against it, as far as the agent knows. */
static bool may_go_on(struct pg_agent *agent, const struct pg_request *request,
		      const struct creation *creation, struct pg_reply *reply)
{
	const struct pg_create_request *wanted = &creation->wanted;
	const struct pg_managed *existing = pg_agent_find(agent, wanted->name);

	if (existing)
		answer_existing(request, existing, wanted, reply);
	else if (!wanted->input.policy)
		pg_policy_input_refuse(&wanted->input, reply);
	else
		return pg_quota_check(agent, request->caller->uid, NULL, wanted->input.policy,
				      wanted->name, reply) == 0 &&
		       pg_quota_check_members(agent, request->caller->uid, count_members(wanted),
					      wanted->name, reply) == 0;
	return false;
}

static int resolve(struct creation *creation)
{
	return pg_members_resolve(creation->agent, &creation->caller, creation->json,
				  creation->wanted.members, &creation->members, &creation->refusal);
}

static void resolve_in_thread(struct pg_work *work)
{
	struct creation *creation = work->task;

	creation->members.cancelled = &work->cancelled;
	(void)!resolve(creation);
	creation->members.cancelled = NULL;
}

/* The members are known, or cannot be had. */
static void finish(struct pg_agent *agent, const struct pg_request *request,
		   struct creation *creation, struct pg_reply *reply)
{
	if (creation->refusal.status) {
		*reply = creation->refusal;
		creation->refusal = (struct pg_reply){0};
	} else if (pg_exposures_judge(agent, &creation->members.exposures, creation->wanted.accept,
				      reply) == 0 &&
		   find_resolvers(agent, creation, reply) == 0) {
		create(agent, request, creation, reply);
	}
}

/* It has waited for a runtime; meanwhile the name may have been taken. */
static void go_on(struct pg_agent *agent, const struct pg_request *request, struct pg_work *work,
		  struct pg_reply *reply)
{
	struct creation *creation = work->task;

	if (!pg_work_is_over(work) && !request->last)
		reply->wait = true;
	else if (!pg_work_is_over(work) && agent->stopping)
		pg_reply_error(reply, PG_API_STOPPING, NULL, NULL, "the agent is being stopped");
	else if (!pg_work_is_over(work))
		pg_reply_error(reply, PG_API_RUNTIME_UNAVAILABLE, "/members", NULL,
			       "no runtime has answered in time");
	else if (may_go_on(agent, request, creation, reply))
		finish(agent, request, creation, reply);
}

static int check_descriptors(const struct pg_agent *agent, const struct creation *creation,
			     struct pg_reply *reply)
{
	return pg_descriptors_check(agent, PG_DESCRIPTORS_TO_MAKE(count_members(&creation->wanted)),
				    creation->wanted.name, reply);
}

static struct creation *read_creation(struct pg_agent *agent, const struct pg_request *request,
				      struct pg_reply *reply)
{
	PG_CLEANUP(free_creation_of) struct creation *creation = calloc(1, sizeof(*creation));
	struct pg_error err = {};

	if (!creation) {
		pg_reply_error(reply, PG_API_OUT_OF_MEMORY, NULL, NULL,
			       "no memory for the Environment");
		return NULL;
	}
	creation->agent = agent;
	creation->caller = PG_CALLER_NONE;
	if (pg_request_parse(request->body, request->size, &creation->json, reply) < 0 ||
	    pg_create_request_read(creation->json, &creation->wanted, reply) < 0)
		return NULL;
	if (pg_caller_copy(request->caller, &creation->caller, &err) < 0) {
		pg_reply_failure(reply, creation->wanted.name, &err);
		return NULL;
	}
	creation->members.attach = creation->wanted.attach;
	return PG_TAKE_PTR(creation);
}

void pg_api_create(struct pg_agent *agent, const struct pg_request *request, struct pg_reply *reply)
{
	PG_CLEANUP(free_creation_of) struct creation *creation = NULL;
	struct pg_error err = {};
	int error;

	if (*request->work) {
		go_on(agent, request, *request->work, reply);
		return;
	}
	creation = read_creation(agent, request, reply);
	if (!creation || !may_go_on(agent, request, creation, reply) ||
	    check_descriptors(agent, creation, reply) < 0)
		return;
	if (!pg_members_ask(creation->wanted.members)) {
		(void)!resolve(creation);
		finish(agent, request, creation, reply);
		return;
	}
	error = pg_work_start(agent, resolve_in_thread, free_creation, creation, request->work,
			      &err);
	if (error) {
		pg_reply_error(reply,
			       error == -EBUSY ? PG_API_TOO_MANY_CLIENTS : PG_API_OUT_OF_MEMORY,
			       creation->wanted.name, "wait and try again", "%s", err.text);
		return;
	}
	creation = NULL;
	reply->wait = true;
}
