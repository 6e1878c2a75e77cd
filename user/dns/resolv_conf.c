/* SPDX-License-Identifier: Apache-2.0 */
#include "resolv_conf.h"

#include <arpa/inet.h>
#include <arpa/nameser.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "base/file.h"
#include "wire.h"

/* A resolv.conf is a few lines; anything this long is not one. */
#define RESOLV_CONF_MAX (64UL * 1024)
/* Lists that block advertisements are hosts files of some megabytes. */
#define HOSTS_MAX	(16UL * 1024 * 1024)

#define BLANKS " \t\r"

/* Reads "nameserver ADDR" (resolv.conf(5): the keyword begins the line). */
static bool parse_nameserver(char *line, struct pg_endpoint *ret_server)
{
	static const char keyword[] = "nameserver";
	const char *address;
	char *rest;

	if (strncmp(line, keyword, strlen(keyword)) != 0)
		return false;
	line += strlen(keyword);
	if (*line != ' ' && *line != '\t')
		return false;
	address = strtok_r(line, BLANKS, &rest);
	*ret_server = (struct pg_endpoint){.port = htons(NS_DEFAULTPORT)};
	/* An address with a zone (fe80::1%eth0) cannot be asked through a struct pg_endpoint. */
	return address && pg_addr_parse(address, &ret_server->addr) == 0;
}

int pg_resolv_conf_read(const char *path, struct pg_endpoint *ret_servers, size_t max,
			size_t *ret_count, struct pg_error *err)
{
	pg_autofree char *text = NULL;
	size_t size, count = 0;
	char *rest;
	int r;

	if (!path)
		path = "/etc/resolv.conf";
	r = pg_file_read(path, RESOLV_CONF_MAX, &text, &size, err);
	if (r < 0)
		return r;
	for (char *line = strtok_r(text, "\n", &rest); line && count < max;
	     line = strtok_r(NULL, "\n", &rest)) {
		if (parse_nameserver(line, &ret_servers[count]))
			count++;
	}
	if (count == 0)
		return pg_fail(err, -ENOENT, "%s names no nameserver with a usable address", path);
	*ret_count = count;
	return 0;
}

/* Brings a name of the hosts file into the form that callers compare. */
static bool normalize(const char *text, char ret_name[static PG_DNS_TEXT])
{
	struct pg_dns_name name;

	return pg_dns_name_from_text(text, &name) == 0 && name.size > 1 &&
	       pg_dns_name_to_text(&name, ret_name) == 0;
}

/* Reads "ADDR NAME [ALIAS...] [# comment]". */
static int parse_host(char *line, pg_hosts_sink sink, void *userdata)
{
	const char *word;
	struct pg_addr addr;
	char *rest;

	line[strcspn(line, "#")] = '\0';
	word = strtok_r(line, BLANKS, &rest);
	if (!word || pg_addr_parse(word, &addr) < 0)
		return 0;
	while ((word = strtok_r(NULL, BLANKS, &rest))) {
		char name[PG_DNS_TEXT];
		int r;

		if (!normalize(word, name))
			continue;
		r = sink(userdata, name, &addr);
		if (r < 0)
			return r;
	}
	return 0;
}

int pg_hosts_read(const char *path, pg_hosts_sink sink, void *userdata, struct pg_error *err)
{
	pg_autofree char *text = NULL;
	size_t size;
	char *rest;
	int r;

	r = pg_file_read(path, HOSTS_MAX, &text, &size, err);
	if (r < 0)
		return r;
	for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		r = parse_host(line, sink, userdata);
		if (r < 0)
			return r;
	}
	return 0;
}
