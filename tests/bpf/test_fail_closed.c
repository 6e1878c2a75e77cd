// SPDX-License-Identifier: Apache-2.0
/*
 * The production programs themselves: their cgroup storage is zero in a test run, the state of a
 * fresh attach, so they must deny everything, loopback too, and write no flow.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include <phasegate/abi/flow.h>

#include "check.h"
#include "lab.h"
#include "phasegate.skel.h"

static int run(const struct bpf_program *program, const uint8_t *ip, unsigned int ethertype)
{
	uint8_t frame[14 + 80] = {};
	LIBBPF_OPTS(bpf_test_run_opts, options, .data_in = frame, .data_size_in = sizeof(frame),
		    .repeat = 1);

	frame[12] = (uint8_t)(ethertype >> 8);
	frame[13] = (uint8_t)ethertype;
	memcpy(frame + 14, ip, 80);
	if (bpf_prog_test_run_opts(bpf_program__fd(program), &options))
		return -errno;
	return (int)options.retval;
}

int main(void)
{
	/* UDP over lo, a TCP SYN, and neighbour discovery, which the kernel may need. */
	static const struct {
		const char *name;
		unsigned int ethertype;
		uint8_t ip[80];
	} packets[] = {
		{"UDP", 0x0800, {0x45, [9] = 17, [12] = 127, 0, 0, 1, 127, 0, 0, 1}},
		{"TCP", 0x0800, {0x45, [9] = 6, [12] = 10, 0, 0, 1, 10, 0, 0, 2, [33] = 0x02}},
		{"UDP, v6", 0x86dd, {0x60, [6] = 17, [23] = 1, [39] = 1}},
		{"ND", 0x86dd, {0x60, [6] = 58, [8] = 0xfe, 0x80, [24] = 0xff, 0x02, [40] = 135}},
		{"version 0", 0x0800, {0}},
	};
	struct check check = {};
	struct phasegate_bpf *skeleton;
	struct pg_flow_key key;
	struct lab lab;

	lab_open(&lab); /* for its namespace, and to skip without root */
	skeleton = phasegate_bpf__open_and_load();
	if (!CHECK(&check, skeleton, "the programs do not load: %s", strerror(errno)))
		return EXIT_FAILURE;
	for (size_t i = 0; i < sizeof(packets) / sizeof(packets[0]); i++) {
		const int egress =
			run(skeleton->progs.pg_egress, packets[i].ip, packets[i].ethertype);
		const int ingress =
			run(skeleton->progs.pg_ingress, packets[i].ip, packets[i].ethertype);

		CHECK(&check, egress == 0, "%s leaves: %d", packets[i].name, egress);
		CHECK(&check, ingress == 0, "%s comes in: %d", packets[i].name, ingress);
	}
	CHECK(&check, bpf_map_get_next_key(bpf_map__fd(skeleton->maps.pg_flows), NULL, &key),
	      "a flow was recorded");
	check_group(&check, "a zero header denies");
	phasegate_bpf__destroy(skeleton);
	lab_close(&lab);
	return check_end(&check);
}
