/* SPDX-License-Identifier: Apache-2.0 */
/* What the commands that call the host agent share: options, errors, tables. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include <phasegate/phasegate.h>

#include "json/json.h"

#include "command.h"

#define PG_AGENT_ARGUMENTS_MAX 2

/* One call of such a command. */
struct pg_agent_call {
	struct phasegate_client *client;
	struct phasegate_error *error; /* of the last call; owned */
	const char *socket;	       /* NULL: the default */
	bool json, help;
	const char *arguments[PG_AGENT_ARGUMENTS_MAX];
	size_t argument_count;
	void *wanted;	       /* the command's own options */
	const char *next_step; /* in the place of that of the error; NULL: the error's */
};

/* Options that all of them take, after the command's own. */
enum pg_agent_option {
	PG_AGENT_SOCKET_OPTION = 0x3000,
	PG_AGENT_JSON,
};
#define PG_AGENT_OPTIONS \
	{"socket", required_argument, NULL, PG_AGENT_SOCKET_OPTION}, \
		{"json", no_argument, NULL, PG_AGENT_JSON}, PG_COMMON_OPTIONS

struct pg_agent_command {
	const char *name;     /* "env create" */
	const char *synopsis; /* after the name, without the options of all */
	const char *summary;  /* one line */
	const char *details;  /* of the options and arguments, lines */
	const char *exits;    /* statuses that only this command has, lines; NULL: none */
	size_t least, most;   /* arguments */
	const struct option *options;
	/* Handles an option of its own; NULL: there is none. */
	int (*option)(void *wanted, int option, const char *value, struct pg_error *err);
	/* Looks at all of them together; may be NULL. */
	int (*check)(const struct pg_agent_call *call, struct pg_error *err);
	int (*run)(struct pg_agent_call *call); /* returns enum pg_exit */
};

/* Reads options, opens the client, runs the command. argv[0] is replaced. */
int pg_agent_command(const struct pg_agent_command *command, void *wanted, int argc, char **argv);
void pg_agent_command_help(const struct pg_agent_command *command);

/* Says the error of the call; returns the exit status. */
int pg_agent_failed(struct pg_agent_call *call);

/*
 * The end of a command. With --json the text is printed as it is, else it is parsed and handed to
 * print. Frees text. Returns status, or PG_EXIT_FAILURE if it could not be written.
 */
int pg_agent_answer(const struct pg_agent_call *call, char *text,
		    void (*print)(const struct pg_json_value *root), int status);

/* The member as text, for people: nothing that misleads a terminal. "-": there is none. The caller
 * frees it; NULL: no memory. */
char *pg_agent_text(const struct pg_json_value *object, const char *name) PG_MUST_CHECK;
/* Prints "label  text", if there is such a member. */
void pg_agent_line(const struct pg_json_value *object, const char *name, const char *label);
/* Prints arrays of {code, message, object}. */
void pg_agent_diagnostics(FILE *out, const struct pg_json_value *array, const char *kind);
void pg_agent_survivors(FILE *out, const char *label, const struct pg_json_value *array);

/* The words of an option; -EINVAL: it is none of them. words end with NULL. */
int pg_agent_word(const char *option, const char *value, const char *const *words,
		  const char **ret_word, struct pg_error *err) PG_MUST_CHECK;
/* From 1 on. */
int pg_agent_number(const char *option, const char *value, uint64_t max, uint64_t *ret_number,
		    struct pg_error *err) PG_MUST_CHECK;

extern const char *const pg_agent_phases[];

/* Text in columns. */
struct pg_table {
	size_t columns, count; /* cells */
	char **cells;
	bool failed;
};
/* Takes the cell over; NULL: no memory. */
void pg_table_add(struct pg_table *table, char *cell);
void pg_table_add_text(struct pg_table *table, const char *text);
/* Prints it and frees the cells. */
void pg_table_print(struct pg_table *table, FILE *out);
