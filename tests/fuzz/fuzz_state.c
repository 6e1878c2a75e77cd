/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of a kept Environment on arbitrary bytes, as a damaged file would be. Beside not
 * crashing: what is refused is refused as the state of another version, with a reason; what is
 * accepted keeps to the limits that its user relies on, and can be written and read again.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "environment/record.h"
#include "environment/state.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char directory[] = "/dev/shm/phasegate-fuzz-XXXXXX";
static int record_fd = -1;

static void require(bool holds)
{
	if (!holds)
		abort();
}

static void remove_directory(void)
{
	unlinkat(record_fd, PG_STATE_FILE, 0);
	rmdir(directory);
}

static void make_directory(void)
{
	require(mkdtemp(directory));
	record_fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	require(record_fd >= 0 && atexit(remove_directory) == 0);
}

static void write_file(const uint8_t *data, size_t size)
{
	pg_autoclose int fd =
		openat(record_fd, PG_STATE_FILE, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	require(fd >= 0 && write(fd, data, size) == (ssize_t)size);
}

static void check_limits(const struct pg_saved *saved)
{
	const struct pg_settings *settings = &saved->settings;

	require(saved->pins && settings->note);
	require(saved->member_count >= 1 && saved->member_count <= PG_MEMBERS_MAX);
	require(saved->state > 0 && saved->state < PG_ENVIRONMENT_MAX);
	require(settings->resolver_count <= PG_NAMESERVERS_MAX);
	require(settings->own_resolver_count <= PG_NAMESERVERS_MAX);
	for (size_t i = 0; i < PG_BANK_COUNT; i++)
		for (size_t j = 0; saved->banks[i].there && j < PG_PHASE_COUNT; j++)
			require(saved->banks[i].compiled[j] <= PG_PHASE_COUNT);
	for (size_t i = 0; i < settings->host_count; i++)
		require(settings->hosts[i].name);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	pg_autosaved struct pg_saved saved = {0}, again = {0};
	struct pg_error err = {};
	int error;

	if (record_fd < 0)
		make_directory();
	write_file(data, size);
	error = pg_saved_read(record_fd, "x", &saved, &err);
	require(error == 0 || (error == -EPROTO && *err.text));
	if (error)
		return 0;
	check_limits(&saved);
	require(pg_saved_write(record_fd, &saved, &err) == 0);
	require(pg_saved_read(record_fd, "x", &again, &err) == 0);
	require(again.member_count == saved.member_count && again.state == saved.state);
	require(again.settings.host_count == saved.settings.host_count);
	require(strcmp(again.settings.note, saved.settings.note) == 0);
	return 0;
}
