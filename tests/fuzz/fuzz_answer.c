/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reader of DNS answers on arbitrary bytes. Beside not crashing: what it returns is how many
 * addresses it reported, each of the family that was asked for, and a malformed message reports
 * none.
 */
#include <stdint.h>
#include <stdlib.h>

#include "dns/answer.h"

#define TYPE_A	  1
#define TYPE_AAAA 28

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct report {
	uint16_t type;
	int count;
};

static int count_address(void *userdata, const struct pg_addr *addr, uint32_t ttl)
{
	struct report *report = userdata;

	/* An AAAA record may hold an IPv4-mapped address; an A record cannot hold anything else. */
	if (report->type == TYPE_A && !pg_addr_is_v4(addr))
		abort();
	report->count++;
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint16_t types[] = {TYPE_A, TYPE_AAAA};

	for (size_t i = 0; i < PG_ARRAY_SIZE(types); i++) {
		struct report report = {types[i], 0};
		int result = pg_answer_addresses(data, size, "api.example.com", types[i],
						 count_address, &report);

		if (result < 0 ? report.count : result != report.count)
			abort();
	}
	return 0;
}
