/* SPDX-License-Identifier: Apache-2.0 */
#include "net/addr.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>

static struct pg_addr addr_of(const char *text)
{
	struct pg_addr addr;

	cr_assert_eq(pg_addr_parse(text, &addr), 0, "%s", text);
	return addr;
}

Test(addr, text_forms)
{
	static const char *const rows[][2] = {
		{"203.0.113.10", "203.0.113.10"},
		{"::ffff:203.0.113.10", "203.0.113.10"},
		{"2001:DB8::0001", "2001:db8::1"},
		{"::", "::"},
		{"::1", "::1"},
		{"1::", "1::"},
		{"0:1:0:0:1:0:0:0", "0:1:0:0:1::"},
		{"1:0:0:1:0:0:0:1", "1:0:0:1::1"},
		{"1:0:0:1:1:0:0:1", "1::1:1:0:0:1"},
		{"1:0:1:1:1:1:1:1", "1:0:1:1:1:1:1:1"},
		{"::203.0.113.10", "::cb00:710a"},
		{"64:ff9b::203.0.113.10", "64:ff9b::cb00:710a"},
		{"ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
		 "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"},
	};
	char buffer[PG_ADDR_TEXT];

	for (size_t i = 0; i < PG_ARRAY_SIZE(rows); i++) {
		struct pg_addr addr = addr_of(rows[i][0]), again;

		cr_expect_str_eq(pg_addr_format(&addr, buffer), rows[i][1]);
		again = addr_of(buffer);
		cr_expect_eq(pg_addr_compare(&addr, &again), 0);
	}
}

Test(addr, refused_text)
{
	static const char *const rows[] = {"",		 "127.1",      "010.0.0.1", "1.2.3.4 ",
					   "fe80::1%lo", "[::1]",      "1.2.3",	    "256.0.0.1",
					   ":::",	 "0x7f.0.0.1", "1:2:3::g"};
	struct pg_addr addr = addr_of("192.0.2.1"), before = addr;

	for (size_t i = 0; i < PG_ARRAY_SIZE(rows); i++)
		cr_expect_eq(pg_addr_parse(rows[i], &addr), -EINVAL, "%s", rows[i]);
	cr_expect_eq(pg_addr_compare(&addr, &before), 0, "untouched");
}

Test(addr, families)
{
	struct pg_addr v4 = addr_of("203.0.113.10"), v6 = addr_of("2001:db8::1");
	struct pg_addr made = pg_addr_from_v4(htonl(0xcb00710a));

	cr_expect(pg_addr_is_v4(&v4));
	cr_expect_not(pg_addr_is_v4(&v6));
	cr_expect_eq(pg_addr_compare(&v4, &made), 0);
	cr_expect_eq(pg_addr_to_v4(&v4), htonl(0xcb00710a));
	cr_expect_eq(v4.word[2], htonl(0xffff));
}

Test(addr, loopback)
{
	static const char *const inside[] = {"127.0.0.1", "127.255.0.53", "::1"};
	static const char *const outside[] = {"128.0.0.1", "126.255.255.255", "::", "::2"};

	for (size_t i = 0; i < PG_ARRAY_SIZE(inside); i++) {
		struct pg_addr addr = addr_of(inside[i]);

		cr_expect(pg_addr_is_loopback(&addr), "%s", inside[i]);
	}
	for (size_t i = 0; i < PG_ARRAY_SIZE(outside); i++) {
		struct pg_addr addr = addr_of(outside[i]);

		cr_expect_not(pg_addr_is_loopback(&addr), "%s", outside[i]);
	}
}

Test(addr, what_dns_may_teach)
{
	static const char *const yes[] = {"203.0.113.10",
					  "10.0.0.1",
					  "2001:db8::1",
					  "fd00::1",
					  "169.253.0.1",
					  "223.255.255.255",
					  "64:ff9b::8.8.8.8",
					  "::ffff:8.8.8.8",
					  "::8.8.8.8",
					  "64:ff9b:1::8.8.8.8",
					  "64:ff9b:2::127.0.0.1",
					  "64:ff9b:0:1::127.0.0.1",
					  "2002:808:808::1",
					  "::ffff:0:8.8.8.8",
					  "::1:0:127.0.0.1",
					  "2001:1::1",
					  "100:0:0:1::1",
					  "fec0::1",
					  "192.0.1.0",
					  "191.255.255.255",
					  "100.100.100.199",
					  "100.100.100.201",
					  "fd00:ec3::254",
					  "fd20:cf::254"};

	for (size_t i = 0; i < PG_ARRAY_SIZE(yes); i++) {
		struct pg_addr addr = addr_of(yes[i]);

		cr_expect(pg_addr_is_learnable(&addr), "%s", yes[i]);
	}
}

Test(addr, what_dns_may_not_teach)
{
	static const char *const no[] = {"127.0.0.1",
					 "0.0.0.0",
					 "0.1.2.3",
					 "169.254.169.254",
					 "224.0.0.1",
					 "239.255.255.255",
					 "255.255.255.255",
					 "240.0.0.1",
					 "::",
					 "::1",
					 "fe80::1",
					 "febf::1",
					 "ff02::1",
					 "::ffff:127.0.0.1",
					 "::127.0.0.1",
					 "::169.254.169.254",
					 "64:ff9b::127.0.0.1",
					 "::ffff:169.254.169.254",
					 "::ffff:224.0.0.1",
					 "::2",
					 "64:ff9b::169.254.169.254",
					 "64:ff9b::224.0.0.1",
					 "64:ff9b::0.0.0.0",
					 "64:ff9b:1::169.254.169.254",
					 "64:ff9b:1:fffe::a9fe:a9fe",
					 "2002:a9fe:a9fe::1",
					 "2002:7f00:1::",
					 "2001:0:a9fe:a9fe::1",
					 "2001::1",
					 "::ffff:0:169.254.169.254",
					 "100::1",
					 "192.0.0.192",
					 "::ffff:192.0.0.0",
					 "100.100.100.200",
					 "168.63.129.16",
					 "64:ff9b::100.100.100.200",
					 "fd00:ec2::254",
					 "fd20:ce::254"};

	for (size_t i = 0; i < PG_ARRAY_SIZE(no); i++) {
		struct pg_addr addr = addr_of(no[i]);

		cr_expect_not(pg_addr_is_learnable(&addr), "%s", no[i]);
	}
}

Test(addr, what_is_private)
{
	static const char *const yes[] = {"10.0.0.0",	       "10.255.255.255", "172.16.0.0",
					  "172.31.255.255",    "192.168.0.0",	 "100.64.0.0",
					  "192.168.255.255",   "fc00::",	 "fdff:ffff::1",
					  "100.127.255.255",   "::10.0.0.1",	 "::ffff:10.0.0.1",
					  "64:ff9b::a00:1",    "2002:a00:1::",	 "64:ff9b:1::a00:1",
					  "::ffff:0:10.0.0.1", "fec0::1",	 "feff::1"};
	static const char *const no[] = {"9.255.255.255",
					 "11.0.0.0",
					 "172.15.255.255",
					 "172.32.0.0",
					 "192.167.255.255",
					 "192.169.0.0",
					 "100.63.255.255",
					 "100.128.0.0",
					 "fbff::1",
					 "fe00::1",
					 "2001:db8::1",
					 "203.0.113.10",
					 "::",
					 "::1",
					 "64:ff9b::8.8.8.8",
					 "::ffff:8.8.8.8",
					 "2002:808:808::",
					 "febf::1",
					 "ff00::1"};

	for (size_t i = 0; i < PG_ARRAY_SIZE(yes); i++) {
		struct pg_addr addr = addr_of(yes[i]);

		cr_expect(pg_addr_is_private(&addr), "%s", yes[i]);
		/* Whether they may be learned all the same is a setting. */
		cr_expect(pg_addr_is_learnable(&addr), "%s", yes[i]);
	}
	for (size_t i = 0; i < PG_ARRAY_SIZE(no); i++) {
		struct pg_addr addr = addr_of(no[i]);

		cr_expect_not(pg_addr_is_private(&addr), "%s", no[i]);
	}
}

Test(endpoint, text_forms)
{
	static const char *const rows[][2] = {
		{"203.0.113.10", "203.0.113.10:53"},	{"203.0.113.10:5353", "203.0.113.10:5353"},
		{"2001:db8::1", "[2001:db8::1]:53"},	{"[2001:db8::1]", "[2001:db8::1]:53"},
		{"[2001:db8::1]:1", "[2001:db8::1]:1"}, {"[::ffff:1.2.3.4]:65535", "1.2.3.4:65535"},
	};
	static const char *const refused[] = {"",	   "203.0.113.10:", "203.0.113.10:0",
					      "1.2.3.4:x", "1.2.3.4:65536", "1.2.3.4:999999999999",
					      "[::1",	   "[::1]53",	    "[1.2.3.4]:53",
					      "host:53",   "[::1]:53:53",   "[]:53"};
	struct pg_endpoint endpoint;
	char buffer[PG_ADDR_TEXT];

	for (size_t i = 0; i < PG_ARRAY_SIZE(rows); i++) {
		cr_assert_eq(pg_endpoint_parse(rows[i][0], 53, &endpoint), 0, "%s", rows[i][0]);
		cr_expect_str_eq(pg_endpoint_format(&endpoint, buffer), rows[i][1]);
	}
	for (size_t i = 0; i < PG_ARRAY_SIZE(refused); i++)
		cr_expect_eq(pg_endpoint_parse(refused[i], 53, &endpoint), -EINVAL, "%s",
			     refused[i]);
}

Test(endpoint, sockaddr)
{
	struct sockaddr_storage storage;
	struct pg_endpoint endpoint;

	cr_assert_eq(pg_endpoint_parse("203.0.113.10:80", 0, &endpoint), 0);
	cr_expect_eq(pg_endpoint_to_sockaddr(&endpoint, &storage), sizeof(struct sockaddr_in));
	cr_expect_eq(storage.ss_family, AF_INET);
	cr_expect_eq(((struct sockaddr_in *)&storage)->sin_port, htons(80));
	cr_assert_eq(pg_endpoint_parse("[2001:db8::1]:443", 0, &endpoint), 0);
	cr_expect_eq(pg_endpoint_to_sockaddr(&endpoint, &storage), sizeof(struct sockaddr_in6));
	cr_expect_eq(storage.ss_family, AF_INET6);
	cr_expect_eq(((struct sockaddr_in6 *)&storage)->sin6_addr.s6_addr[15], 1);
}
