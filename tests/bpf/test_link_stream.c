// SPDX-License-Identifier: Apache-2.0
/*
 * A reply at the veth whose socket was found as one that was accepted a moment ago, and has neither
 * mark nor place any more when it is asked whether a guard saw it being opened: another CPU has
 * closed or connected it meanwhile.
 */

#include <netinet/in.h>

#include "check.h"
#include "judge.h"
#include "judge.skel.h"
#include "lab.h"

static const struct {
	const char *what;
	__u16 bits;
} rows[] = {
	{"accepted, and gone", PG_FACT_ACCEPTED},
};

int main(void)
{
	static const uint8_t nothing[40] = {0x45};
	const struct lab_frame frame = {.ethertype = 0x0800,
					.octets = nothing,
					.size = sizeof(nothing)};
	const size_t count = sizeof(rows) / sizeof(rows[0]);
	struct check check = {};
	struct lab lab;

	lab_open(&lab);
	for (size_t i = 0; i < count; i++)
		lab.cases[i] = (struct judge_case){
			.header.state = LAB_STATE,
			.facts.protocol = IPPROTO_TCP,
			.facts.bits = rows[i].bits,
		};
	CHECK(&check, lab_run(&lab, lab.skeleton->progs.judge_stream, &frame, count) == PG_ALLOW,
	      "the program does not run");
	for (size_t i = 0; i < count; i++)
		CHECK(&check, !lab.cases[i].facts.bits, "%s: %x is left", rows[i].what,
		      lab.cases[i].facts.bits);
	check_group(&check, "replies of sockets that have changed meanwhile");
	lab_close(&lab);
	return check_end(&check);
}
