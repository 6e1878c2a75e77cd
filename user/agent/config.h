/* SPDX-License-Identifier: Apache-2.0 */
/* The agent's settings: a JSON file (docs/phasegated.8.md) and options of the command line. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "base/log.h"
#include "container/container.h"
#include "dns/resolv_conf.h"
#include "inspect/exposure.h"
#include "limits.h"
#include "net/prefix.h"

#define PG_CONFIG_FILE		 "/etc/phasegate/phasegated.conf"
#define PG_AGENT_SOCKET		 "/run/phasegate/agent.sock"
#define PG_CGROUP_PARENT_DEFAULT "phasegate"
/* Ranges that an operator writes by hand. */
#define PG_NEVER_ALLOW_MAX	 4096
#define PG_HOST_PORTS_MAX	 4096

struct pg_config {
	char *socket;
	char *pins;
	char *parent;			  /* of the cgroups that are made */
	char *runtimes[PG_RUNTIME_COUNT]; /* struct pg_runtimes.paths */
	/* Members may use the API besides root. */
	bool has_group;
	gid_t group;
	enum pg_log_level log_level;
	struct pg_prefix *never_allow;
	size_t never_allow_count;
	/* The only ports that entries open on the host's own addresses; unless .host_ports_given,
	 * all. */
	bool host_ports_given;
	uint16_t *host_ports;
	size_t host_port_count;
	/* Whom to ask for names; none: those of /etc/resolv.conf, read at each create. */
	struct pg_endpoint resolvers[PG_NAMESERVERS_MAX];
	size_t resolver_count;
	/* What is done about what members have beside the network. */
	enum pg_exposure_level exposures[PG_EXPOSURE_COUNT];
	/* Of one user each (limits.h). */
	size_t clients_per_user, environments_per_user, members_per_user, entries_per_user;
};

/* The settings if nothing is said. -ENOMEM. */
int pg_config_init(struct pg_config *config, struct pg_error *err) PG_MUST_CHECK;
/* Reads the text of a settings file over them. name is for messages. */
int pg_config_parse(struct pg_config *config, const char *name, const char *text, size_t size,
		    struct pg_error *err) PG_MUST_CHECK;
/* Reads the file. One that is missing is an error only if it must exist. */
int pg_config_read(struct pg_config *config, const char *path, bool must_exist,
		   struct pg_error *err) PG_MUST_CHECK;
void pg_config_clear(struct pg_config *config);
#define pg_autoconfig PG_CLEANUP(pg_config_clear)
