/* SPDX-License-Identifier: Apache-2.0 */
/* The same sets as rules of what else is in use, for scripts/bench to load. */
#include "bench.h"

#include <string.h>

static bool is_ipv6(const char *entry)
{
	return strchr(entry, ':');
}

static bool is_range(const char *entry)
{
	return strchr(entry, '/');
}

struct nft_set {
	bool ipv6, begun;
};

static void nft_element(void *userdata, const char *entry)
{
	struct nft_set *set = userdata;

	if (is_ipv6(entry) != set->ipv6)
		return;
	printf("%s%s", set->begun ? "," : "", entry);
	set->begun = true;
}

static void print_nft_set(size_t count, bool ipv6)
{
	struct nft_set set = {.ipv6 = ipv6};

	printf("\tset allowed%d {\n\t\ttype ipv%d_addr\n\t\tflags interval\n\t\telements = { ",
	       ipv6 ? 6 : 4, ipv6 ? 6 : 4);
	set_each(count, nft_element, &set);
	puts(" }\n\t}");
}

static void print_nft(size_t count)
{
	puts("table inet bench {");
	print_nft_set(count, false);
	print_nft_set(count, true);
	puts("\tchain output {\n\t\ttype filter hook output priority filter; policy drop;\n"
	     "\t\toif lo accept\n\t\tip daddr @allowed4 accept\n\t\tip6 daddr @allowed6 accept\n"
	     "\t}\n}");
}

/* In sets of their own, so that most of the work is a look-up in the simpler one. */
static void ipset_element(void *userdata, const char *entry)
{
	(void)userdata;
	printf("add %s%d %s\n", is_range(entry) ? "net" : "ip", is_ipv6(entry) ? 6 : 4, entry);
}

static void print_ipset(size_t count)
{
	for (int family = 4; family <= 6; family += 2) {
		const char *inet = family == 4 ? "inet" : "inet6";

		printf("create ip%d hash:ip family %s maxelem %zu\n", family, inet, count);
		printf("create net%d hash:net family %s maxelem %zu\n", family, inet, count);
	}
	set_each(count, ipset_element, NULL);
}

static void iptables_rule(void *userdata, const char *entry)
{
	if (is_ipv6(entry) == *(const bool *)userdata)
		printf("-A OUTPUT -d %s -j ACCEPT\n", entry);
}

static void print_rules(size_t count, bool ipv6)
{
	puts("*filter\n:INPUT ACCEPT [0:0]\n:FORWARD ACCEPT [0:0]\n:OUTPUT DROP [0:0]\n"
	     "-A OUTPUT -o lo -j ACCEPT");
	set_each(count, iptables_rule, &ipv6);
	puts("COMMIT");
}

static void print_iptables(size_t count)
{
	print_rules(count, false);
}

static void print_ip6tables(size_t count)
{
	print_rules(count, true);
}

int rules_main(char **argv)
{
	static const struct {
		const char *name;
		void (*print)(size_t count);
	} formats[] = {
		{"nft", print_nft},
		{"ipset", print_ipset},
		{"iptables", print_iptables},
		{"ip6tables", print_ip6tables},
	};
	const size_t count = strtoul(argv[3], NULL, 10);

	for (size_t i = 0; i < PG_ARRAY_SIZE(formats); i++)
		if (!strcmp(argv[2], formats[i].name)) {
			formats[i].print(count < BENCH_SMALL ? BENCH_SMALL : count);
			return fflush(stdout) ? 1 : 0;
		}
	fail("no rules of the form %s", argv[2]);
}
