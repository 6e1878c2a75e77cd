/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/mountinfo.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* Part of a line; not terminated. */
struct word {
	const char *text;
	size_t size;
};

static bool word_is(struct word word, const char *text)
{
	return word.size == strlen(text) && memcmp(word.text, text, word.size) == 0;
}

/* Takes the next word, up to one of the separators, off the front of rest. */
static struct word take_word(struct word *rest, char separator)
{
	const char *end = memchr(rest->text, separator, rest->size);
	struct word word = {rest->text, end ? (size_t)(end - rest->text) : rest->size};
	size_t taken = word.size + (end ? 1 : 0);

	rest->text += taken;
	rest->size -= taken;
	return word;
}

struct mount {
	struct word device, root, point, how, type, options;
};

/* 36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue */
static bool parse_line(struct word line, struct mount *ret_mount)
{
	take_word(&line, ' ');
	take_word(&line, ' ');
	ret_mount->device = take_word(&line, ' ');
	ret_mount->root = take_word(&line, ' ');
	ret_mount->point = take_word(&line, ' ');
	ret_mount->how = take_word(&line, ' ');
	/* Any number of optional fields, then a hyphen. */
	while (line.size > 0) {
		if (!word_is(take_word(&line, ' '), "-"))
			continue;
		ret_mount->type = take_word(&line, ' ');
		take_word(&line, ' ');
		ret_mount->options = take_word(&line, ' ');
		return ret_mount->root.size > 0 && ret_mount->point.size > 0 &&
		       ret_mount->type.size > 0;
	}
	return false;
}

static bool is_octal(char c)
{
	return c >= '0' && c <= '7';
}

/* The kernel writes space, tab, newline and backslash as \ooo. */
static char *unescape(struct word word)
{
	char *text = malloc(word.size + 1), *out = text;

	if (!text)
		return NULL;
	for (size_t i = 0; i < word.size; i++) {
		const char *at = word.text + i;

		if (*at == '\\' && word.size - i > 3 && is_octal(at[1]) && is_octal(at[2]) &&
		    is_octal(at[3])) {
			*out++ = (char)((at[1] - '0') << 6 | (at[2] - '0') << 3 | (at[3] - '0'));
			i += 3;
		} else {
			*out++ = *at;
		}
	}
	*out = '\0';
	return text;
}

/* One round over the text; keeps the last usable mount in *point. */
static int find_round(const char *text, const char *type, bool of_root, pg_mount_usable usable,
		      void *userdata, char **point)
{
	struct word rest = {text, strlen(text)};

	while (rest.size > 0) {
		pg_autofree char *candidate = NULL;
		struct mount mount;

		if (!parse_line(take_word(&rest, '\n'), &mount) || !word_is(mount.type, type) ||
		    word_is(mount.root, "/") != of_root)
			continue;
		candidate = unescape(mount.point);
		if (!candidate)
			return -ENOMEM;
		if (!usable(userdata, candidate))
			continue;
		free(*point);
		*point = PG_TAKE_PTR(candidate);
	}
	return 0;
}

int pg_mountinfo_find(const char *text, const char *type, pg_mount_usable usable, void *userdata,
		      char **ret_point)
{
	pg_autofree char *point = NULL;

	for (int of_root = 1; of_root >= 0 && !point; of_root--) {
		int r = find_round(text, type, of_root, usable, userdata, &point);

		if (r < 0)
			return r;
	}
	if (!point)
		return -ENOENT;
	*ret_point = PG_TAKE_PTR(point);
	return 0;
}

static bool has_word(struct word words, const char *text)
{
	while (words.size > 0)
		if (word_is(take_word(&words, ','), text))
			return true;
	return false;
}

bool pg_mount_has_option(const char *options, const char *option)
{
	return has_word((struct word){options, strlen(options)}, option);
}

void pg_mount_clear(struct pg_mount *mount)
{
	free(mount->root);
	free(mount->point);
	free(mount->type);
	free(mount->options);
	*mount = (struct pg_mount){0};
}

/* "98:0" */
static bool parse_device(struct word word, struct pg_mount *mount)
{
	char text[32];

	if (word.size >= sizeof(text))
		return false;
	memcpy(text, word.text, word.size);
	text[word.size] = '\0';
	return sscanf(text, "%u:%u", &mount->major, &mount->minor) == 2;
}

static bool take_line(const char **text, struct mount *ret_line, struct pg_mount *mount)
{
	const char *end = strchrnul(*text, '\n');
	const struct word line = {*text, (size_t)(end - *text)};

	*text = *end ? end + 1 : end;
	*ret_line = (struct mount){0};
	return parse_line(line, ret_line) && parse_device(ret_line->device, mount);
}

int pg_mountinfo_next(const char **text, struct pg_mount *ret_mount)
{
	pg_automount struct pg_mount mount = {0};
	struct mount line;

	*ret_mount = (struct pg_mount){0};
	do {
		if (!**text)
			return 0;
	} while (!take_line(text, &line, &mount));
	mount.root = unescape(line.root);
	mount.point = unescape(line.point);
	mount.type = unescape(line.type);
	mount.options = unescape(line.options);
	mount.read_only = has_word(line.how, "ro") || has_word(line.options, "ro");
	if (!mount.root || !mount.point || !mount.type || !mount.options)
		return -ENOMEM;
	*ret_mount = mount;
	mount = (struct pg_mount){0};
	return 1;
}

/* 0::/path; the kernel does not escape it, and no other line begins so. */
int pg_cgroup2_path(const char *text, char **ret_path)
{
	struct word rest = {text, strlen(text)};

	while (rest.size > 0) {
		struct word line = take_word(&rest, '\n');

		if (line.size < 4 || memcmp(line.text, "0::/", 4) != 0)
			continue;
		*ret_path = strndup(line.text + 3, line.size - 3);
		return *ret_path ? 0 : -ENOMEM;
	}
	return -ENOENT;
}

/* 4:memory,net_cls:/path; the line of cgroup2 names no controller. */
static bool find_v1(const char *text, const char *controller, struct word *ret_path)
{
	struct word rest = {text, strlen(text)};

	while (rest.size > 0) {
		struct word line = take_word(&rest, '\n');

		take_word(&line, ':');
		if (has_word(take_word(&line, ':'), controller)) {
			*ret_path = line;
			return true;
		}
	}
	return false;
}

int pg_cgroup_v1_path(const char *text, const char *controller, char **ret_path)
{
	struct word path;

	if (!find_v1(text, controller, &path))
		return -ENOENT;
	*ret_path = strndup(path.text, path.size);
	return *ret_path ? 0 : -ENOMEM;
}

bool pg_cgroup_v1_has(const char *text, const char *controller)
{
	struct word path;

	return find_v1(text, controller, &path);
}
