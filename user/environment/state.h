/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to user/environment/: what a kept Environment is, for the process that adopts it. It
 * stands in its record as state.json, with the policy of each bank as policy.BANK.json beside it.
 * Phase, generation and the bank in force are not in it: the state in the kernel has them.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <phasegate/abi/header.h>
#include <phasegate/abi/member.h>

#include "dns/resolv_conf.h"
#include "environment.h"

/* Raised whenever an older reader would misunderstand what is written. */
#define PG_STATE_VERSION 1

/* Octets of a note. */
#define PG_NOTE_MAX (1UL * 1024 * 1024)

/* What its owner is about to do, so that the next one completes or undoes it. */
enum pg_intent {
	PG_INTENT_NONE,
	PG_INTENT_CREATE,  /* nothing has been in force yet */
	PG_INTENT_KILL,	   /* destroy */
	PG_INTENT_RELEASE, /* destroy, and leave processes as they are */
};

struct pg_fixed_host {
	char *name;
	struct pg_addr addr;
};

/* What stays as it was when the Environment was created. */
struct pg_settings {
	bool apart, report_denials;
	bool attached; /* members were running before */
	uint64_t refused_rights;
	struct pg_dns_settings dns;
	struct pg_endpoint resolvers[PG_NAMESERVERS_MAX], own_resolvers[PG_NAMESERVERS_MAX];
	size_t resolver_count, own_resolver_count;
	size_t told_resolver_count;  /* of the last own ones, see environment.h */
	struct pg_fixed_host *hosts; /* of a hosts file */
	size_t host_count, host_room;
	uid_t owner;
	char *note; /* but for this; NULL: "" */
};
void pg_settings_clear(struct pg_settings *settings);

/* What a bank of the headers says. */
struct pg_saved_bank {
	bool there;
	/* As in struct pg_content. */
	unsigned int compiled[PG_PHASE_COUNT];
	struct pg_phase_slot slots[PG_PHASE_COUNT];
	/* Of what is in the slots: kernel/set.h. */
	uint32_t set_ids[PG_PHASE_COUNT], learned_ids[PG_PHASE_COUNT];
};

struct pg_saved {
	enum pg_intent intent;
	char *pins; /* pg_host_options.pins of its owner */
	uint32_t state;
	uint32_t flags; /* of the header */
	uint64_t members[PG_MEMBERS_MAX];
	size_t member_count;
	uint64_t held; /* members that were frozen for a moment only, a bit each */
	struct pg_endpoint listener[2];
	struct pg_saved_bank banks[PG_BANK_COUNT];
	struct pg_settings settings;
};
void pg_saved_clear(struct pg_saved *saved);
#define pg_autosaved PG_CLEANUP(pg_saved_clear)

/* -ENOENT: there is none; -EPROTO: it is not of this version, or damaged. */
int pg_saved_read(int record_fd, const char *name, struct pg_saved *ret_saved,
		  struct pg_error *err) PG_MUST_CHECK;
/* Whether a state that is damaged or of another version says that it is of an owner with other
 * pins, as far as that can be told. */
bool pg_saved_is_foreign(int record_fd, const char *pins);
int pg_saved_write(int record_fd, const struct pg_saved *saved, struct pg_error *err) PG_MUST_CHECK;

int pg_saved_policy_read(int record_fd, unsigned int bank, struct pg_policy **ret_policy,
			 struct pg_error *err) PG_MUST_CHECK;
int pg_saved_policy_write(int record_fd, unsigned int bank, const struct pg_policy *policy,
			  struct pg_error *err) PG_MUST_CHECK;
void pg_saved_policy_remove(int record_fd, unsigned int bank);
