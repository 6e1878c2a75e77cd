/* SPDX-License-Identifier: Apache-2.0 */
/* What the test of the veth guard sends from within, to one address each; 0 or an errno. */
#pragma once

#include <netinet/in.h>
#include <stddef.h>
#include <stdint.h>

#define OWN  "10.9.0.2"
#define PORT 7000

struct sockaddr_in endpoint(const char *address, uint16_t port);
uint16_t checksum(const void *data, size_t size);

int send_datagram(const char *address);
/* More than a frame takes: the kernel makes fragments of it. */
int send_fragments(const char *address);
/* From an address that is not its own. */
int send_forged(const char *address);
/* The same datagram by a packet socket. */
int send_frame(const char *address);
