/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a namespace has sent something, by the kernel's counts. */
#include <criterion/criterion.h>

#include "environment/host_internal.h"

#define HEAD  "Ip: Forwarding DefaultTTL InReceives OutRequests OutDiscards"
#define OTHER "\nIcmp: InMsgs OutMsgs\nIcmp: 1 2\nUdp: InDatagrams OutDatagrams\nUdp: 3 4\n"
#define NEWER HEAD " OutTransmits\nIp: 2 64 5 "

static const char fresh4[] = HEAD "\nIp: 2 64 5 0 7" OTHER;
static const char fresh6[] = "Ip6InReceives\t1\nIp6OutRequests   \t12\nIp6OutTransmits \t12\n"
			     "Icmp6InMsgs \t9\nIcmp6OutMsgs \t12\n";

Test(older_datagrams, by_counts)
{
	cr_assert_not(pg_counts_have_sent(fresh4, fresh6));
	cr_assert_not(pg_counts_have_sent(fresh4, ""));
	cr_assert_not(pg_counts_have_sent("", ""));
	cr_assert_not(pg_counts_have_sent(NEWER "0 7 0" OTHER, fresh6));
	cr_assert(pg_counts_have_sent(HEAD "\nIp: 2 64 5 1 7" OTHER, fresh6));
	cr_assert(pg_counts_have_sent(NEWER "0 7 1" OTHER, fresh6));
	cr_assert(pg_counts_have_sent(fresh4, "Ip6InReceives\t1\nIp6OutRequests\t13\n"
					      "Icmp6OutMsgs\t12\n"));
	cr_assert(pg_counts_have_sent(fresh4, "Ip6InReceives\t1\nIp6OutRequests\t12\n"
					      "Ip6OutTransmits\t13\nIcmp6OutMsgs\t12\n"));
}
