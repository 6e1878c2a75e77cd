/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file "links" of a record: the interfaces that have the Environment's guard, a line each: the
 * inode of their network namespace, a space, the index. It is written before the guard is put on
 * and after it was taken off, so that whoever ends or adopts the Environment finds all of them.
 */
#include "links.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"

/* As many as an Environment can have in the kernel's table, a line each. */
#define LINKS_FILE_MAX (PG_LINK_MAX * 32UL)

uint64_t pg_links_namespace(void)
{
	struct stat status;

	return stat("/proc/thread-self/ns/net", &status) ? 0 : status.st_ino;
}

/* Of another namespace than this one: 0. */
static int parse_line(const char *line, uint64_t here, unsigned int *ret_ifindex)
{
	char *end;
	const unsigned long long inode = strtoull(line, &end, 10);
	const char *text = end + 1;
	unsigned long index;

	if (end == line || *end != ' ')
		return -EPROTO;
	index = strtoul(text, &end, 10);
	if (end == text || *end || !index || index > INT32_MAX)
		return -EPROTO;
	*ret_ifindex = inode == here ? (unsigned int)index : 0;
	return 0;
}

int pg_links_file_read(int record_fd, unsigned int **ret_items, size_t *ret_count,
		       struct pg_error *err)
{
	pg_autofree char *text = NULL;
	pg_autofree unsigned int *items = NULL;
	const uint64_t here = pg_links_namespace();
	char *save = NULL;
	size_t size, count = 0;
	int error = pg_file_read_at(record_fd, PG_LINKS_FILE, LINKS_FILE_MAX, &text, &size, err);

	*ret_items = NULL;
	*ret_count = 0;
	if (error)
		return error == -ENOENT ? 0 : error;
	items = calloc(size + 1, sizeof(*items));
	if (!items)
		return pg_fail(err, -ENOMEM, "not enough memory for guarded interfaces");
	for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		if (parse_line(line, here, &items[count]))
			return pg_fail(err, -EPROTO,
				       "the file %s of a record has a line that is no interface",
				       PG_LINKS_FILE);
		count += items[count] != 0;
	}
	*ret_items = PG_TAKE_PTR(items);
	*ret_count = count;
	return 0;
}

int pg_links_file_write(struct pg_environment *environment, struct pg_error *err)
{
	struct pg_link_watch *watch = environment->host->links;
	const uint64_t here = pg_links_namespace();
	const struct pg_veth *veth;
	pg_autofree char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);
	int error;

	if (!out)
		return pg_fail(err, -ENOMEM, "not enough memory for guarded interfaces");
	PG_VETH_FOREACH (watch, i, veth)
		if (veth->owner == environment)
			fprintf(out, "%" PRIu64 " %u\n", here, veth->ifindex);
	if (fclose(out))
		return pg_fail(err, -ENOMEM, "not enough memory for guarded interfaces");
	error = pg_record_put(environment->record_fd, PG_LINKS_FILE, text, size, err);
	return error ? pg_error_prefix(err, "%s", environment->record.name) : 0;
}

static int has(int record_fd, unsigned int ifindex, bool *ret_has, struct pg_error *err)
{
	pg_autofree unsigned int *items = NULL;
	size_t count;
	int error = pg_links_file_read(record_fd, &items, &count, err);

	*ret_has = false;
	for (size_t i = 0; i < count; i++)
		*ret_has |= items[i] == ifindex;
	/* Of a damaged one its own end tells. */
	return error == -EPROTO ? 0 : error;
}

int pg_links_file_elsewhere(const char *name, unsigned int ifindex, bool *ret_elsewhere,
			    struct pg_error *err)
{
	pg_autoclosedir DIR *records = opendir(PG_RECORD_ROOT);
	const struct dirent *entry;
	int error = 0;

	*ret_elsewhere = false;
	if (!records)
		return errno == ENOENT ? 0
				       : pg_fail_errno(err, -errno, "opening %s", PG_RECORD_ROOT);
	while (!error && !*ret_elsewhere && (entry = readdir(records))) {
		pg_autoclose int fd = -1;

		if (!pg_record_name_valid(entry->d_name) || !strcmp(entry->d_name, name))
			continue;
		fd = openat(dirfd(records), entry->d_name,
			    O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
		if (fd >= 0)
			error = has(fd, ifindex, ret_elsewhere, err);
		else if (errno != ENOENT && errno != ENOTDIR && errno != ELOOP)
			error = pg_fail_errno(err, -errno, "opening the record of %s",
					      entry->d_name);
	}
	return error;
}
