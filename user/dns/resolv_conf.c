/* SPDX-License-Identifier: Apache-2.0 */
#include "names.h"

#include <arpa/inet.h>
#include <arpa/nameser.h>
#include <errno.h>
#include <string.h>

#include "base/file.h"

/* A resolv.conf is a few lines; anything this long is not one. */
#define RESOLV_CONF_MAX (64UL * 1024)

/* Reads "nameserver ADDR" (resolv.conf(5): the keyword begins the line). */
static bool parse_line(char *line, struct pg_endpoint *ret_server)
{
	static const char keyword[] = "nameserver";
	const char *address;
	char *rest;

	if (strncmp(line, keyword, strlen(keyword)) != 0)
		return false;
	line += strlen(keyword);
	if (*line != ' ' && *line != '\t')
		return false;
	address = strtok_r(line, " \t\r", &rest);
	*ret_server = (struct pg_endpoint){.port = htons(NS_DEFAULTPORT)};
	/* An address with a zone (fe80::1%eth0) cannot be asked through a struct pg_endpoint. */
	return address && pg_addr_parse(address, &ret_server->addr) == 0;
}

int pg_names_host_servers(const char *path, struct pg_endpoint *ret_servers, size_t max,
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
		if (parse_line(line, &ret_servers[count]))
			count++;
	}
	if (count == 0)
		return pg_fail(err, -ENOENT, "%s names no nameserver with a usable address", path);
	*ret_count = count;
	return 0;
}
