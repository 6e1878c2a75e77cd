/* SPDX-License-Identifier: Apache-2.0 */
/* resolv.conf and hosts, as a container may have written them. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "dns/resolv_conf.h"
#include "dns/wire.h"

#define CHECK(condition) \
	do { \
		if (!(condition)) \
			abort(); \
	} while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int check_name(void *userdata, const char *name, const struct pg_addr *addr)
{
	char text[PG_DNS_TEXT];
	struct pg_dns_name wire;

	CHECK(name[0] != '\0');
	CHECK(pg_dns_name_from_text(name, &wire) == 0);
	CHECK(pg_dns_name_to_text(&wire, text) == 0);
	CHECK(strcmp(text, name) == 0);
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct pg_endpoint servers[PG_NAMESERVERS_MAX];
	pg_autoclose int fd = memfd_create("fuzz", MFD_CLOEXEC);
	char path[64];
	size_t count = 0;
	int r;

	CHECK(fd >= 0);
	CHECK(write(fd, data, size) == (ssize_t)size);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	r = pg_resolv_conf_read(path, servers, PG_ARRAY_SIZE(servers), &count, NULL);
	CHECK(r < 0 ? count == 0 : count > 0 && count <= PG_ARRAY_SIZE(servers));
	CHECK(pg_hosts_read(path, check_name, NULL, NULL) == 0);
	return 0;
}
