/* SPDX-License-Identifier: Apache-2.0 */
/* The data of records, type by type. */
#include "dns/answer.h"

#include <criterion/criterion.h>

#include <errno.h>
#include <string.h>

#include "answer_fixture.h"

/* Pointers to the names of the question. */
#define WWW_EXAMPLE_COM "\xc0\x0c"
#define EXAMPLE_COM	"\xc0\x10"

#define FULL "\3www\7example\3com"

TestSuite(record, .fini = free_answer);

/* Reads an answer of one record of the question's name, with this data. */
static int read_data(uint16_t type, const void *data, size_t size)
{
	dns_begin(&message, 1, RESPONSE, ASKED, type);
	dns_count(&message, DNS_ANSWERS);
	dns_put_raw(&message, ASKED, type, 60, data, size);
	return read_answer(type);
}

static void expect_data(uint16_t type, const void *data, size_t size, const void *expected,
			size_t expected_size)
{
	struct dns_message record = {.size = 0};

	cr_assert_eq(read_data(type, data, size), 0, "type %u", type);
	cr_expect_eq(answer->count, 1);
	dns_put_raw(&record, ASKED, type, 60, expected, expected_size);
	dns_expect_octets(answer->records, answer->size, &record);
}

#define EXPECT_DATA(type, data, expected) \
	expect_data(type, data, sizeof(data) - 1, expected, sizeof(expected) - 1)
#define EXPECT_BAD(type, data) \
	cr_expect_eq(read_data(type, data, sizeof(data) - 1), -EBADMSG, "%s", #data)

Test(record, data_as_it_is)
{
	/* TXT, CAA, and a type that nobody knows: a pointer in it is none. */
	EXPECT_DATA(ns_t_txt, "\4text\0", "\4text\0");
	EXPECT_DATA(257, "\0\5issueca.test", "\0\5issueca.test");
	EXPECT_DATA(65280, WWW_EXAMPLE_COM, WWW_EXAMPLE_COM);
	EXPECT_DATA(65280, "", "");
}

Test(record, names_are_whole)
{
	static const uint16_t single[] = {ns_t_ns, ns_t_cname, ns_t_ptr, ns_t_dname, ns_t_mb};

	for (size_t i = 0; i < PG_ARRAY_SIZE(single); i++) {
		EXPECT_DATA(single[i], "\1a" EXAMPLE_COM, "\1a\7example\3com\0");
		EXPECT_BAD(single[i], "\1a" EXAMPLE_COM "\0");
		EXPECT_BAD(single[i], "\1a");
		EXPECT_BAD(single[i], "");
	}
	EXPECT_DATA(ns_t_mx, "\0\12" WWW_EXAMPLE_COM, "\0\12" FULL "\0");
	EXPECT_DATA(ns_t_mx, "\0\0\0", "\0\0\0");
	EXPECT_DATA(ns_t_srv, "\0\1\0\2\1\273" WWW_EXAMPLE_COM, "\0\1\0\2\1\273" FULL "\0");
	EXPECT_DATA(ns_t_minfo, WWW_EXAMPLE_COM "\0", FULL "\0\0");
	EXPECT_DATA(ns_t_px, "\0\1" WWW_EXAMPLE_COM WWW_EXAMPLE_COM, "\0\1" FULL "\0" FULL "\0");
}

Test(record, names_that_do_not_fit)
{
	EXPECT_BAD(ns_t_mx, "\0");
	EXPECT_BAD(ns_t_mx, "\0\12");
	EXPECT_BAD(ns_t_mx, "\0\12" WWW_EXAMPLE_COM "x");
	EXPECT_BAD(ns_t_srv, "\0\1\0\2\1");
	EXPECT_BAD(ns_t_srv, "\0\1\0\2\1\273");
	EXPECT_BAD(ns_t_minfo, WWW_EXAMPLE_COM);
	EXPECT_BAD(ns_t_minfo, WWW_EXAMPLE_COM "\0\0");
}

/* A name that ends behind the record's data, though in the message. */
Test(record, name_that_runs_into_the_next_record)
{
	dns_begin(&message, 1, RESPONSE, ASKED, ns_t_ns);
	dns_count(&message, DNS_ANSWERS);
	dns_put_raw(&message, ASKED, ns_t_ns, 60, "\3abc", 4);
	dns_count(&message, DNS_ANSWERS);
	dns_put_raw(&message, "", ns_t_ns, 60, "\0", 1);
	cr_expect_eq(read_answer(ns_t_ns), -EBADMSG);
}

#define NUMBERS "\0\0\0\1\0\0\0\2\0\0\0\3\0\0\0\4\0\0\0\5"

Test(record, soa)
{
	EXPECT_DATA(ns_t_soa, "\2ns" EXAMPLE_COM WWW_EXAMPLE_COM NUMBERS,
		    "\2ns\7example\3com\0" FULL "\0" NUMBERS);
	EXPECT_BAD(ns_t_soa, "\2ns" EXAMPLE_COM WWW_EXAMPLE_COM "\0\0\0\1\0\0\0\2\0\0\0\3\0\0\0\4");
	EXPECT_BAD(ns_t_soa, "\2ns" EXAMPLE_COM WWW_EXAMPLE_COM NUMBERS "\0");
}

Test(record, addresses_have_their_size)
{
	EXPECT_DATA(ns_t_a, "\1\2\3\4", "\1\2\3\4");
	EXPECT_BAD(ns_t_a, "\1\2\3");
	EXPECT_BAD(ns_t_a, "\1\2\3\4\5");
	EXPECT_DATA(ns_t_aaaa, "0123456789abcdef", "0123456789abcdef");
	EXPECT_BAD(ns_t_aaaa, "0123456789abcde");
	EXPECT_BAD(ns_t_aaaa, "0123456789abcdefg");
}

/* Records of the OPT type tell of a message and are in no answer. */
Test(record, opt_is_no_data)
{
	cr_expect_eq(read_data(ns_t_opt, "", 0), 0);
	cr_expect_eq(answer->count, 0);
}

#define HTTPS(data, expected) EXPECT_DATA(PG_DNS_TYPE_HTTPS, data, expected)
#define HTTPS_BAD(data)	      EXPECT_BAD(PG_DNS_TYPE_HTTPS, data)
#define MANDATORY(size, keys) "\0\0\0" size keys
#define ALPN		      "\0\1\0\3\2h2"
#define PORT		      "\0\3\0\2\1\273"
#define IPV4HINT	      "\0\4\0\4\300\0\2\1"
#define ECH		      "\0\5\0\2xx"
#define IPV6HINT \
	"\0\6\0\20" \
	"0123456789abcdef"
#define KEY7 "\0\7\0\0"

Test(record, https_without_hints)
{
	HTTPS("\0\1\0" ALPN PORT IPV4HINT ECH IPV6HINT KEY7, "\0\1\0" ALPN PORT KEY7);
	HTTPS("\0\1\1a\4test\0" ALPN, "\0\1\1a\4test\0" ALPN);
	HTTPS("\0\1\0" IPV4HINT, "\0\1\0");
	HTTPS("\0\1\0" IPV6HINT, "\0\1\0");
	HTTPS("\0\1\0" ECH, "\0\1\0");
	/* Alias mode */
	HTTPS("\0\0\1a\4test\0", "\0\0\1a\4test\0");
	EXPECT_DATA(PG_DNS_TYPE_SVCB, "\0\1\0" ALPN IPV4HINT, "\0\1\0" ALPN);
}

Test(record, https_mandatory)
{
	HTTPS("\0\1\0" MANDATORY("\4", "\0\1\0\3") ALPN PORT,
	      "\0\1\0" MANDATORY("\4", "\0\1\0\3") ALPN PORT);
	HTTPS("\0\1\0" MANDATORY("\10", "\0\1\0\4\0\5\0\7") ALPN IPV4HINT ECH KEY7,
	      "\0\1\0" MANDATORY("\4", "\0\1\0\7") ALPN KEY7);
	/* Nothing of it is left, so it goes. */
	HTTPS("\0\1\0" MANDATORY("\6", "\0\4\0\5\0\6") ALPN IPV4HINT ECH IPV6HINT, "\0\1\0" ALPN);
	HTTPS("\0\1\0" MANDATORY("\2", "\0\3") ALPN PORT,
	      "\0\1\0" MANDATORY("\2", "\0\3") ALPN PORT);
}

Test(record, https_mandatory_at_fault)
{
	HTTPS_BAD("\0\1\0" MANDATORY("\0", "") ALPN);
	HTTPS_BAD("\0\1\0" MANDATORY("\1", "\0") ALPN);
	HTTPS_BAD("\0\1\0" MANDATORY("\3", "\0\1\0") ALPN);
	/* Itself, one that is not there, one twice, out of order. */
	HTTPS_BAD("\0\1\0" MANDATORY("\4", "\0\0\0\1") ALPN);
	HTTPS_BAD("\0\1\0" MANDATORY("\4", "\0\1\0\3") ALPN);
	HTTPS_BAD("\0\1\0" MANDATORY("\2", "\0\2") ALPN PORT);
	HTTPS_BAD("\0\1\0" MANDATORY("\4", "\0\1\0\1") ALPN PORT);
	HTTPS_BAD("\0\1\0" MANDATORY("\4", "\0\3\0\1") ALPN PORT);
	HTTPS_BAD("\0\1\0" MANDATORY("\2", "\0\4") ALPN);
	HTTPS_BAD("\0\1\0" MANDATORY("\2", "\0\1"));
}

Test(record, https_at_fault)
{
	HTTPS_BAD("");
	HTTPS_BAD("\0");
	HTTPS_BAD("\0\1");
	HTTPS_BAD("\0\1\1a");
	/* The name may not be compressed. */
	HTTPS_BAD("\0\1" WWW_EXAMPLE_COM);
	HTTPS_BAD("\0\1\1a" EXAMPLE_COM ALPN);
	/* Keys twice, out of order, cut off. */
	HTTPS_BAD("\0\1\0" ALPN ALPN);
	HTTPS_BAD("\0\1\0" PORT ALPN);
	HTTPS_BAD("\0\1\0" IPV6HINT IPV4HINT);
	HTTPS_BAD("\0\1\0" ALPN MANDATORY("\2", "\0\1"));
	HTTPS_BAD("\0\1\0"
		  "\0\1\0");
	HTTPS_BAD("\0\1\0"
		  "\0\1\0\4\2h2");
	HTTPS_BAD("\0\1\0" ALPN "\0");
}
