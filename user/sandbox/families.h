/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which sockets a workload may have: those that the hooks of a cgroup judge, and AF_UNIX. One list
 * for the filter of `phasegate run` and for the profiles of containers.
 */
#pragma once

#include <stdint.h>
#include <sys/socket.h>

/* X(family): AF_NETLINK leaves no packet, and the C library asks it for addresses and routes. */
#define PG_FAMILIES(X) X(AF_UNIX) X(AF_INET) X(AF_INET6) X(AF_NETLINK)

/* The kernel takes an int, whatever is in the rest of the register. */
#define PG_FAMILY_MASK 0xffffffffULL

/* The kernel itself refuses families from AF_MAX on, which grows slowly. */
#define PG_FAMILY_BITS 8

/*
 * The kernel takes AF_INET with this type for AF_PACKET, whatever flags are in the type. All types
 * that there are but this one have no bit of PG_TYPE_HIGH.
 */
#define PG_TYPE_MASK 0xfULL
#define PG_TYPE_HIGH 0x8ULL

/* All other families as few blocks: those that have value in the bits of mask. */
struct pg_family_block {
	uint64_t mask, value;
};
#define PG_FAMILY_BLOCKS_MAX 32

/* Returns how many there are. */
unsigned int pg_family_blocks(struct pg_family_block blocks[PG_FAMILY_BLOCKS_MAX]);

/*
 * X(system call, why): of no use to a workload but to get around what judges it. request_key lets
 * the kernel start a program outside of the cgroup that asks nameservers for the name given.
 */
#define PG_DENIED_CALLS(X) \
	X(bpf, "programs and maps of its own") \
	X(io_uring_setup, "makes sockets that no filter of system calls sees") \
	X(io_uring_enter, "the same, by a ring that was handed in") \
	X(io_uring_register, "the same") \
	X(request_key, "the kernel asks nameservers for it, outside of the cgroup")
