/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent's settings and the notes that it keeps, on arbitrary bytes; the first octet chooses.
 * Beside not crashing: what is refused has a reason that names the file, and what is accepted is
 * within the limits; a note that is read is the same when it is printed and read again.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "agent/config.h"
#include "agent/managed.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
	if (!holds)
		abort();
}

static void check_config(const char *text, size_t size)
{
	pg_autoconfig struct pg_config config = {0};
	struct pg_error err = {};
	int error = pg_config_init(&config, &err);

	require(error == 0);
	error = pg_config_parse(&config, "the-file", text, size, &err);
	require(error == 0 || (error == -EINVAL && strstr(err.text, "the-file")));
	if (error)
		return;
	require(*config.socket == '/' && *config.pins == '/');
	require(config.never_allow_count <= PG_NEVER_ALLOW_MAX);
	require(config.host_port_count <= PG_HOST_PORTS_MAX);
	require(config.resolver_count <= PG_NAMESERVERS_MAX);
	require(config.clients_per_user >= 1 && config.clients_per_user <= PG_CLIENTS_MAX);
	require(config.environments_per_user >= 1);
	for (size_t i = 0; i < config.never_allow_count; i++)
		require(config.never_allow[i].length <= 128);
}

static void check_note(const char *text)
{
	pg_autonote struct pg_note note = {0}, again = {0};
	pg_autofree char *printed = NULL, *reprinted = NULL;
	struct pg_error err = {};
	int error = pg_note_parse(text, &note, &err);

	require(error == 0 || *err.text);
	if (error)
		return;
	require(pg_note_print(&note, &printed) == 0);
	require(pg_note_parse(printed, &again, &err) == 0);
	require(pg_note_print(&again, &reprinted) == 0 && strcmp(printed, reprinted) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	/* A copy of the exact size: reading past it is seen. */
	pg_autofree char *text = NULL;

	if (size == 0)
		return 0;
	if (*data == 'n') {
		text = strndup((const char *)data + 1, size - 1);
		require(text);
		check_note(text);
		return 0;
	}
	text = malloc(size);
	require(text);
	memcpy(text, data + 1, size - 1);
	check_config(text, size - 1);
	return 0;
}
