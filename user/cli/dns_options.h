/* SPDX-License-Identifier: Apache-2.0 */
/* --resolver, --resolv-conf, --hosts and --dns: how the names of a policy are resolved. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "dns/resolv_conf.h"
#include "environment/environment.h"

struct pg_dns_options {
	struct pg_endpoint resolvers[PG_NAMESERVERS_MAX];
	size_t resolver_count;
	bool environment; /* --resolver environment: there are no others than the own ones */
	struct pg_endpoint own_resolvers[PG_NAMESERVERS_MAX];
	size_t own_resolver_count;
	const char *resolv_conf; /* NULL: not given */
	const char *hosts;
	struct pg_dns_settings settings;
};

#define PG_DNS_OPTIONS_DEFAULT \
	{ \
		.settings = PG_DNS_SETTINGS_DEFAULT \
	}

/* Adds one --resolver: ADDR, ADDR:PORT, [ADDR6]:PORT, or "environment". */
int pg_dns_options_resolver(struct pg_dns_options *options, const char *argument,
			    struct pg_error *err) PG_MUST_CHECK;

/* Takes --hosts, a file that can be read. */
int pg_dns_options_hosts(struct pg_dns_options *options, const char *argument,
			 struct pg_error *err) PG_MUST_CHECK;

/* Reads one --dns KEY=VALUE. */
int pg_dns_options_setting(struct pg_dns_options *options, const char *argument,
			   struct pg_error *err) PG_MUST_CHECK;

/*
 * For a policy that has names: reads the Environment's own nameservers, if they are wanted (from
 * .resolv_conf; with .environment from /etc/resolv.conf without it), and, if no others are given,
 * those of the host. -ENOENT if there is nobody to ask.
 */
int pg_dns_options_complete(struct pg_dns_options *options, struct pg_error *err) PG_MUST_CHECK;
