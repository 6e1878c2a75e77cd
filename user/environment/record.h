/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records of Environments in /run/phasegate, so that what a killed process leaves behind can be
 * found and ended, or adopted. An Environment's record is a directory of its name, locked (flock)
 * for as long as its owner lives; it is written before anything else of the Environment exists.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/hash.h"

#define PG_RECORD_ROOT "/run/phasegate"
#define PG_PIN_ROOT    "/sys/fs/bpf/phasegate"
#define PG_NAME_MAX    64
#define PG_STATE_FILE  "state.json"

/* Whether the name has only letters, digits, '-', '_', '.', and does not start with a dot. */
bool pg_record_name_valid(const char *name);

/* How long another process may take to make or remove an Environment: killing its tree included. */
#define PG_RECORDS_LOCK_MS	60000
/* How long one waits for that who has others waiting, too. */
#define PG_RECORDS_LOCK_SOON_MS 5000

/*
 * Takes the lock under which Environments are made and removed; *ret_fd is the directory of the
 * records. Held only while cgroups and pins change. -EAGAIN after PG_RECORDS_LOCK_MS;
 * -ECANCELED if interrupt_fd (-1: none) becomes readable first.
 */
int pg_records_lock(int interrupt_fd, int *ret_fd, struct pg_error *err) PG_MUST_CHECK;
/* The same; -EAGAIN after wait_ms. */
int pg_records_lock_within(unsigned int wait_ms, int interrupt_fd, int *ret_fd,
			   struct pg_error *err) PG_MUST_CHECK;
/* Gives the lock back and removes the directory if it holds nothing. */
void pg_records_unlock(int *records_fd);

struct pg_record_cgroup {
	char *path; /* absolute path below the cgroup2 mount; owned */
	/* Of a given cgroup, so that another one made later at the same path is left alone; 0:
	 * made.
	 */
	uint64_t id;
};

struct pg_record {
	char name[PG_NAME_MAX + 1];
	struct pg_record_cgroup *cgroups; /* owned */
	size_t cgroup_count;
	bool made; /* the one cgroup was made by us and is removed with the Environment */
	bool kept; /* has a state (state.h): its owner's end is not its own */
};
void pg_record_clear(struct pg_record *record);

/* Which of its cgroups is the one of the path, or above or below it; NULL: none. */
const char *pg_record_overlap(const struct pg_record *record, const char *path);

/* Records whose locks this process has: they are as they are here, and need not be read again. */
struct pg_own_records {
	const struct pg_record **records;
	size_t count, room;
	struct pg_hash_key key;
	struct pg_hash_table names;
};
/* -ENOMEM: not all of them are known, which takes longer but is no error. */
int pg_own_records_add(struct pg_own_records *own, const struct pg_record *record);
const struct pg_record *pg_own_records_find(const struct pg_own_records *own, const char *name);
void pg_own_records_clear(struct pg_own_records *own);

/*
 * Makes the directory of a record; *ret_fd holds its lock. -EEXIST: the name is taken. -EBUSY:
 * another Environment's cgroup is the same, above or below. It is a record once it is written; what
 * is written before that (the state) exists with it or is found without it.
 */
int pg_record_create(int records_fd, const struct pg_record *record,
		     const struct pg_own_records *own, int *ret_fd,
		     struct pg_error *err) PG_MUST_CHECK;
int pg_record_write(int record_fd, const struct pg_record *record,
		    struct pg_error *err) PG_MUST_CHECK;

/* Opens and locks a record. -ENOENT: there is none; -EBUSY: it has an owner. */
int pg_record_open(int records_fd, const char *name, struct pg_record *ret_record, int *ret_fd,
		   struct pg_error *err) PG_MUST_CHECK;

/* Replaces a file of the record atomically. */
int pg_record_put(int record_fd, const char *file, const char *text, size_t size,
		  struct pg_error *err) PG_MUST_CHECK;
/* -EBUSY if the cgroup is an Environment's, or below one. */
int pg_records_refuse_inside(int records_fd, const char *cgroup, const struct pg_own_records *own,
			     struct pg_error *err) PG_MUST_CHECK;
int pg_record_remove(int records_fd, const char *name, struct pg_error *err) PG_MUST_CHECK;

typedef int (*pg_record_visit)(void *userdata, int record_fd, const struct pg_record *record,
			       struct pg_error *err);
/*
 * A lock outlives its killed owner for as long as a child does that was forked with it and is about
 * to die, too: so one is waited for that long. -EWOULDBLOCK, or another negative errno.
 */
#define PG_HEIR_MS 3000
int pg_heir_lock(int fd, int interrupt_fd) PG_MUST_CHECK;

/*
 * Calls back for each record whose owner is dead; the callback may remove it. One without cgroups
 * was not written, or is about to go: its Environment consists of nothing else. If its state says
 * that it is in force, somebody has removed it.
 */
int pg_records_visit_orphans(int records_fd, pg_record_visit visit, void *userdata,
			     struct pg_error *err) PG_MUST_CHECK;
/* Calls back for each record, whoever owns it, those without cgroups too. */
int pg_records_visit(int records_fd, pg_record_visit visit, void *userdata,
		     struct pg_error *err) PG_MUST_CHECK;
