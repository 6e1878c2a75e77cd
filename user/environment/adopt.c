/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Taking over a kept Environment. Until the end nothing is changed that the next one could not
 * adopt again:
 *
 *   1. record locked, state file and policy read; cgroups, sets and tables opened
 *   2. programs      the new owner's in the place of each, without a gap; the maps are the same
 *   3. headers       as they were, but for the operator's ceiling and host ports, which are the
 *                    new owner's; each is one write
 *   4. listeners     at the same endpoints, in all network namespaces
 *   5. the bank that is not in force is let go
 *   6. state file    without it
 *   7. members       that were frozen for a moment go on
 *   8. connections   that are forbidden are closed, after the return
 *
 * The phase, the generation and the bank in force are what the state in the kernel says: the
 * killed owner may have switched without having told anybody.
 */
#include <errno.h>
#include <string.h>

#include "dns.h"
#include "steps.h"
#include "survivors.h"

static int open_record(struct pg_environment *environment, const char *name, struct pg_error *err)
{
	PG_CLEANUP(pg_records_unlock) int records_fd = -1;
	int error = pg_records_lock(environment->host->interrupt_fd, &records_fd, err);

	if (!error)
		error = pg_record_open(records_fd, name, &environment->record,
				       &environment->record_fd, err);
	return error;
}

static int adopt_content(struct pg_environment *environment, struct pg_kept *kept,
			 struct pg_error *err)
{
	const unsigned int bank = environment->state.bank;
	pg_autopolicy struct pg_policy *policy = NULL;
	int error;

	if (bank >= PG_BANK_COUNT || !kept->saved.banks[bank].there)
		return pg_fail(err, -EPROTO, "the state of %s lacks what is in force", kept->name);
	error = pg_saved_policy_read(environment->record_fd, bank, &policy, err);
	if (!error)
		error = pg_content_adopt(environment, policy, &kept->saved.banks[bank],
					 kept->learned[bank], &environment->content, err);
	return error;
}

/* What is in force, as the kernel and the state file say. */
static int read_all(struct pg_environment *environment, struct pg_kept *kept, struct pg_error *err)
{
	struct pg_saved *saved = &kept->saved;
	int error =
		pg_state_read(environment->host->kernel, saved->state, &environment->state, err);

	if (error)
		return error;
	if (environment->state.phase != PG_PHASE_NONE)
		environment->phase = (enum pg_phase)environment->state.phase;
	environment->settings = saved->settings;
	saved->settings = (struct pg_settings){};
	memcpy(environment->header.listener, saved->listener, sizeof(saved->listener));
	error = adopt_content(environment, kept, err);
	if (!error)
		error = pg_member_addresses_recall(environment, err);
	if (!error)
		error = pg_places_adopt(environment, saved, err);
	if (!error) {
		environment->state_index = saved->state;
		pg_step(PG_STEP_ADOPT_OPENED);
	}
	return error;
}

static int take_over(struct pg_environment *environment, struct pg_error *err)
{
	struct pg_header *header = &environment->header;
	int error = 0;

	pg_environment_set_flags(environment);
	header->state = environment->state_index;
	memcpy(header->slots[environment->state.bank], environment->content->slots,
	       sizeof(header->slots[0]));
	if (environment->content->names) {
		header->flags |= PG_HEADER_DNS_LISTENER;
		error = pg_dns_create(environment, err);
	}
	if (!error)
		error = pg_links_recall(environment, err);
	if (!error)
		error = pg_places_write(environment, err);
	if (!error)
		error = pg_links_renew(environment, err);
	if (error)
		return error;
	pg_step(PG_STEP_ADOPT_WRITTEN);
	error = pg_places_admit(environment, err);
	if (!error)
		error = pg_member_addresses_start(environment, err);
	if (!error)
		error = pg_places_watch(environment, err);
	if (!error)
		error = pg_homes_start(environment, PG_HOMES_ADOPT, err);
	if (!error && environment->dns)
		error = pg_dns_resume(environment->dns, err);
	return error;
}

/* An update had filled it and not come to put it in force, or had and not come to empty it. */
static int let_other_bank_go(struct pg_environment *environment, struct pg_kept *kept,
			     struct pg_error *err)
{
	const unsigned int other = !environment->state.bank;

	if (!kept->saved.banks[other].there && !kept->stale)
		return 0;
	pg_kept_release_bank(environment->host, kept, other);
	pg_saved_policy_remove(environment->record_fd, other);
	return pg_environment_save(environment, err);
}

/* The killed owner was about to end survivors: they are still there, or not. */
static void end_hold(struct pg_environment *environment, const struct pg_kept *kept)
{
	environment->held = kept->saved.held;
	pg_hold_end(environment);
}

static int adopt(struct pg_environment *environment, struct pg_kept *kept, struct pg_error *err)
{
	int error = open_record(environment, kept->name, err);

	if (!error)
		error = read_all(environment, kept, err);
	if (!error)
		error = take_over(environment, err);
	if (!error)
		error = let_other_bank_go(environment, kept, err);
	if (!error) {
		end_hold(environment, kept);
		pg_flows_begin(environment);
	}
	/* The killed owner may not have come to it, and the operator may forbid more than before.
	 */
	return error ? error : pg_host_close_soon(environment, err);
}

int pg_environment_adopt(struct pg_host *host, const char *name,
			 struct pg_environment **ret_environment, struct pg_error *err)
{
	struct pg_kept *kept = pg_kept_find(host, name);
	struct pg_environment *environment;
	int error;

	if (!kept)
		return pg_fail(err, -ENOENT, "there is no Environment \"%s\" to be adopted", name);
	environment = pg_environment_new(host);
	if (!environment)
		return pg_fail(err, -ENOMEM, "not enough memory for an Environment");
	/* It was there when others that were adopted before it saw that a program was missed. */
	if (host->begun_missed_of)
		host->begun_missed_of = environment->number;
	error = adopt(environment, kept, err);
	/* A second try finds its tables in use; the next start finds all as it was. */
	pg_kept_drop(host, kept, !error);
	if (error) {
		pg_environment_free(environment);
		return pg_error_prefix(err, "adopting the Environment %s", name);
	}
	LIST_INSERT_HEAD(&host->environments, environment, link);
	*ret_environment = environment;
	return 0;
}
