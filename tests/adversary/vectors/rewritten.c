/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernel asks its neighbours, rewritten by netfilter at the device: below its sockets, and
 * still its own to whoever looks at the socket. */
#include "../adversary.h"

#include <stdio.h>
#include <unistd.h>

static void ask(const struct attempt *attempt)
{
	const char *gateway = text_of(&attempt->gateway);

	shell("ip neigh del %s dev " DEVICE, gateway);
	shell("ip neigh add %s dev " DEVICE " use", gateway);
	usleep(2000);
}

static int asked(const struct attempt *attempt, const char *rule)
{
	int result = shell("nft add table netdev pgt; nft 'add chain netdev pgt c "
			   "{ type filter hook egress device " DEVICE " priority 0; }'; "
			   "nft add rule netdev pgt c %s",
			   rule);

	if (!result)
		ask(attempt);
	shell("nft delete table netdev pgt");
	/* So that the next vector has not to wait for the answer. */
	ask(attempt);
	return result;
}

VECTOR(question_to_target)
{
	char rule[200];
	const uint8_t *mac = attempt->gateway_mac;

	snprintf(rule, sizeof(rule),
		 "icmpv6 type nd-neighbor-solicit ip6 daddr set %s "
		 "ether daddr set %02x:%02x:%02x:%02x:%02x:%02x",
		 text_of(&attempt->target), mac[0], mac[1], mac[2], mac[3], mac[4], mac[5]);
	return asked(attempt, rule);
}

static int asked_with(const struct attempt *attempt, const char *format)
{
	char rule[200];
	const uint8_t *mac = attempt->made_mac;

	snprintf(rule, sizeof(rule), format, mac[0], mac[1], mac[2], mac[3], mac[4], mac[5]);
	return asked(attempt, rule);
}

VECTOR(question_to_station)
{
	return asked_with(attempt, "ether daddr set %02x:%02x:%02x:%02x:%02x:%02x");
}

/* The target's hardware address in ARP; checksum and reserved octets in a solicitation. */
VECTOR(question_filled)
{
	return asked_with(attempt, is_v6(&attempt->target)
					   ? "icmpv6 type nd-neighbor-solicit "
					     "@th,16,48 set 0x%02x%02x%02x%02x%02x%02x"
					   : "arp daddr ether set %02x:%02x:%02x:%02x:%02x:%02x");
}
