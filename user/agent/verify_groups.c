/* SPDX-License-Identifier: Apache-2.0 */
/* Groups that are joined: who sends then is the kernel, and no socket of the Environment's. */
#include "verify.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

/* Reads a small file of /proc; "" if it is not there. */
static void read_text(const char *path, char *text, size_t room)
{
	pg_autoclose int fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t used = 0;
	ssize_t got;

	while (fd >= 0 && used < room - 1 && (got = read(fd, text + used, room - 1 - used)) > 0)
		used += (size_t)got;
	text[used] = '\0';
}

bool pg_verify_find_device(char *name)
{
	pg_autoclose int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	char text[16384], *line, *rest = text;

	read_text("/proc/self/net/dev", text, sizeof(text));
	while ((line = strsep(&rest, "\n"))) {
		struct ifreq request = {0};
		const char *colon = strchr(line, ':');

		line += strspn(line, " ");
		if (!colon || colon <= line || colon - line >= IFNAMSIZ)
			continue;
		memcpy(request.ifr_name, line, (size_t)(colon - line));
		if (ioctl(fd, SIOCGIFFLAGS, &request) || !(request.ifr_flags & IFF_UP) ||
		    request.ifr_flags & IFF_LOOPBACK)
			continue;
		memcpy(name, request.ifr_name, IFNAMSIZ);
		return true;
	}
	return false;
}

/* The number after a word that stands at the beginning of a line. */
static uint64_t number_of(const char *text, const char *word)
{
	const size_t length = strlen(word);

	while ((text = strstr(text, word))) {
		if (strspn(text + length, " \t"))
			return strtoull(text + length, NULL, 10);
		text += length;
	}
	return 0;
}

/* Reports of IPv6 groups that the device has sent. */
static uint64_t count_mld(const char *device)
{
	char path[64 + IFNAMSIZ], text[8192];

	snprintf(path, sizeof(path), "/proc/self/net/dev_snmp6/%s", device);
	read_text(path, text, sizeof(text));
	return number_of(text, "Icmp6OutMLDv2Reports") +
	       number_of(text, "Icmp6OutGroupMembResponses");
}

/* IPv4 multicast packets that the namespace has sent: a line of names, then one of numbers. */
static uint64_t count_multicast(void)
{
	char text[16384], *names, *numbers, *name;

	read_text("/proc/self/net/netstat", text, sizeof(text));
	names = strstr(text, "IpExt:");
	numbers = names ? strstr(names + 1, "IpExt:") : NULL;
	if (!numbers)
		return 0;
	numbers[-1] = '\0';
	while ((name = strsep(&names, " "))) {
		const char *number = strsep(&numbers, " ");

		if (!number)
			break;
		if (!strcmp(name, "OutMcastPkts"))
			return strtoull(number, NULL, 10);
	}
	return 0;
}

/* Then the kernel counts what it sends, and drops it. */
static bool is_disabled6(const char *device)
{
	char path[64 + IFNAMSIZ], text[8];

	snprintf(path, sizeof(path), "/proc/sys/net/ipv6/conf/%s/disable_ipv6", device);
	read_text(path, text, sizeof(text));
	return *text != '0';
}

static void join6(int fd, const char *device, struct pg_verify_try *try)
{
	/* A transient group of this site's (RFC 4291), which nobody is in. */
	struct ipv6_mreq group = {.ipv6mr_multiaddr.s6_addr = {0xff, 0x15},
				  .ipv6mr_interface = if_nametoindex(device)};

	if (is_disabled6(device))
		pg_verify_set_impossible(try, EAFNOSUPPORT);
	else if (getrandom(&group.ipv6mr_multiaddr.s6_addr[12], 4, 0) != 4 ||
		 setsockopt(fd, IPPROTO_IPV6, IPV6_JOIN_GROUP, &group, sizeof(group)))
		pg_verify_set_impossible(try, errno);
	else
		pg_verify_set(try, 0);
}

static void join4(int fd, const char *device, struct pg_verify_try *try)
{
	/* Of the local scope (RFC 2365). */
	uint8_t address[4] = {239, 255};
	struct ip_mreqn group = {.imr_ifindex = (int)if_nametoindex(device)};

	if (getrandom(&address[2], 2, 0) != 2)
		return;
	memcpy(&group.imr_multiaddr, address, sizeof(address));
	if (setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &group, sizeof(group)))
		pg_verify_set_impossible(try, errno);
	else
		pg_verify_set(try, 0);
}

/* The kernel says to the network which groups there are: what it has sent it counts. */
void pg_verify_try_groups(struct pg_verify_try *mld, struct pg_verify_try *igmp)
{
	const struct timespec pause = {.tv_nsec = 10 * PG_NSEC_PER_MSEC};
	pg_autoclose int fd4 = pg_verify_socket(AF_INET, SOCK_DGRAM, 0, igmp);
	pg_autoclose int fd6 = pg_verify_socket(AF_INET6, SOCK_DGRAM, 0, mld);
	const uint64_t until = pg_monotonic_ns() + PG_VERIFY_GROUP_MS * PG_NSEC_PER_MSEC;
	uint64_t before4, before6;
	char device[IFNAMSIZ];

	if (!pg_verify_find_device(device)) {
		pg_verify_set_impossible(mld, ENODEV);
		pg_verify_set_impossible(igmp, ENODEV);
		return;
	}
	before4 = count_multicast();
	before6 = count_mld(device);
	if (fd6 >= 0)
		join6(fd6, device, mld);
	if (fd4 >= 0)
		join4(fd4, device, igmp);
	while (pg_monotonic_ns() < until && !(mld->seen && igmp->seen)) {
		nanosleep(&pause, NULL);
		mld->seen = count_mld(device) > before6;
		igmp->seen = count_multicast() > before4;
	}
}
