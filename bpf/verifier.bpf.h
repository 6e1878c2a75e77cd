/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What is said to the verifier, and does nothing. */
#pragma once

#include <vmlinux.h>

#include <bpf/bpf_helpers.h>

/*
 * 0, which the verifier takes for any number: of two numbers that follow each other one is even.
 * any: something that it does not know, of a packet or a map. Where several ways have left several
 * constants it follows each of them to the end of the program; when this is added to what they have
 * left, or XORed, they are one way. It must not be what a bound follows from.
 */
static __always_inline __u64 pg_unknown_zero(__u64 any)
{
	barrier_var(any);
	any = -(any * (any + 1) & 1);
	barrier_var(any);
	return any;
}
