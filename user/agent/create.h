/* SPDX-License-Identifier: Apache-2.0 */
/* The request to create an Environment; read apart, so that it can be tested and fuzzed. */
#pragma once

#include "dns/resolv_conf.h"
#include "managed.h"
#include "policy_input.h"

struct pg_create_request {
	const char *name;
	struct pg_policy_input input;
	const struct pg_json_value *members;
	bool attach;
	enum pg_phase phase;
	enum pg_verifier verifier;
	bool apart;
	bool report_denials;
	struct pg_dns_settings dns;
	/* For names of one label, where they are asked for; besides those of containers. */
	struct pg_endpoint own_resolvers[PG_NAMESERVERS_MAX];
	size_t own_resolver_count;
	uint64_t accept; /* exposures.h: kinds, one bit each */
	uint64_t digest; /* of all of it */
};

/* -EINVAL or -ENOMEM: the error is in reply. The policy may be at fault even so: ->input.policy. */
int pg_create_request_read(const struct pg_json *json, struct pg_create_request *request,
			   struct pg_reply *reply) PG_MUST_CHECK;
void pg_create_request_clear(struct pg_create_request *request);
#define pg_autocreaterequest PG_CLEANUP(pg_create_request_clear)
