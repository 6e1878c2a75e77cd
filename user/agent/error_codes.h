/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The errors of the API: one list for the agent, docs/openapi.yaml and the tests. Codes are stable;
 * a client decides by them, never by the message.
 */
#pragma once

/* X(symbol, HTTP status, code, next step) */
#define PG_API_ERRORS(X) \
	X(REQUEST_INVALID, 400, "request_invalid", \
	  "correct the field that object points to; docs/openapi.yaml has the form of each " \
	  "request") \
	X(NAME_INVALID, 400, "name_invalid", \
	  "use 1 to 64 letters, digits, '-', '_' and '.', not beginning with a dot") \
	X(PEER_REFUSED, 403, "peer_refused", \
	  "call the agent from the host itself, outside of every Environment and container") \
	X(NOT_PERMITTED, 403, "not_permitted", \
	  "call as root or as a member of the group that the agent's settings name") \
	X(MEMBER_NOT_YOURS, 403, "member_not_yours", \
	  "name a process or cgroup of your own user, or a container, or let root make the call") \
	X(ROUTE_NOT_FOUND, 404, "route_not_found", "docs/openapi.yaml lists the paths") \
	X(ENVIRONMENT_NOT_FOUND, 404, "environment_not_found", \
	  "list the Environments that you may use with GET /v1/environments") \
	X(METHOD_NOT_ALLOWED, 405, "method_not_allowed", "docs/openapi.yaml lists the methods") \
	X(ENVIRONMENT_EXISTS, 409, "environment_exists", \
	  "destroy it first, update its policy, or use another name") \
	X(NAME_TAKEN, 409, "name_taken", "remove what has it, or use another name") \
	X(MEMBER_TAKEN, 409, "member_taken", \
	  "name a cgroup that is neither an Environment's nor above or below one") \
	X(MEMBER_POPULATED, 409, "member_populated", \
	  "set attach to true to take over processes that run already, or name an empty cgroup") \
	X(MEMBER_HOLDS_OTHERS, 409, "member_holds_others", \
	  "move the process into a cgroup of its own, or name the cgroup itself") \
	X(CONTAINER_NOT_RUNNING, 409, "container_not_running", "start the container first") \
	X(GENERATION_MISMATCH, 409, "generation_mismatch", \
	  "somebody else has switched or updated; look at the reply and decide again") \
	X(SURVIVORS_PRESENT, 409, "survivors_present", \
	  "end the processes, or let survivors be kill, freeze or allow") \
	X(VERIFIER_ON_HOST, 409, "verifier_on_host", \
	  "verify on the host, or create the Environment with verifier same or new") \
	X(ENVIRONMENT_POPULATED, 409, "environment_populated", \
	  "stop its processes, or destroy with processes=kill or processes=release") \
	X(CURSOR_EXPIRED, 410, "cursor_expired", \
	  "events were dropped in between; go on from the cursor that object names") \
	X(BODY_TOO_LARGE, 413, "body_too_large", "split the policy or write ranges as CIDR") \
	X(MEDIA_TYPE_UNSUPPORTED, 415, "media_type_unsupported", \
	  "send JSON in UTF-8, as application/json and without a content encoding") \
	X(POLICY_INVALID, 422, "policy_invalid", \
	  "correct every entry of errors; POST /v1/validate checks without creating") \
	X(MEMBER_NOT_FOUND, 422, "member_not_found", "check the path or process id") \
	X(MEMBER_IS_ROOT, 422, "member_is_root", \
	  "name the cgroup of the container, or start the process in one: without members a " \
	  "create " \
	  "makes a cgroup for it") \
	X(MEMBER_HOLDS_CALLER, 422, "member_holds_caller", \
	  "name a cgroup that holds neither the caller nor the agent") \
	X(MEMBER_UNFIT, 422, "member_unfit", \
	  "use a cgroup of type domain that is not frozen, in cgroup version 2") \
	X(CONTAINER_NOT_FOUND, 422, "container_not_found", \
	  "check the name; docker ps, podman ps or nerdctl ps list the containers") \
	X(CONTAINER_UNSUPPORTED, 422, "container_unsupported", \
	  "run the container with a cgroup of its own in cgroup version 2") \
	X(EXPOSURE_REFUSED, 422, "exposure_refused", \
	  "start the container without what exposures names, or let the operator's settings say " \
	  "what may be accepted") \
	X(NO_RESOLVER, 422, "no_resolver", \
	  "set resolvers in the agent's settings, or use addresses instead of names") \
	X(LEASE_WIDER, 422, "lease_wider", \
	  "let then be a phase that allows no more than the one taken, or deny") \
	X(INTERNAL, 500, "internal", "look into the agent's log and report this") \
	X(ENFORCEMENT_FAILED, 500, "enforcement_failed", \
	  "what was in force stays in force; phasegate doctor and the agent's log say more") \
	X(TOO_MANY_ENVIRONMENTS, 503, "too_many_environments", "destroy one that is not needed") \
	X(QUOTA_EXCEEDED, 503, "quota_exceeded", \
	  "destroy Environments that are not needed, or let the operator raise " \
	  "environments_per_user, members_per_user or entries_per_user of its settings") \
	X(TOO_MANY_CLIENTS, 503, "too_many_clients", "close connections, wait and try again") \
	X(BUSY, 503, "busy", \
	  "nothing was done; wait and try again, or end what the message names") \
	X(OUT_OF_MEMORY, 503, "out_of_memory", "wait and try again") \
	X(RUNTIME_UNAVAILABLE, 503, "runtime_unavailable", \
	  "start the container runtime, or name the container's cgroup or process id") \
	X(STOPPING, 503, "stopping", "wait until the agent has been started again")

enum pg_api_error {
#define PG_X(symbol, status, name, next_step) PG_API_##symbol,
	PG_API_ERRORS(PG_X)
#undef PG_X
};

unsigned int pg_api_error_status(enum pg_api_error code);
const char *pg_api_error_name(enum pg_api_error code);
const char *pg_api_error_next_step(enum pg_api_error code);
