/* SPDX-License-Identifier: Apache-2.0 */
/* AF_XDP (CAP_NET_RAW): frames from the application's memory to the device's driver. */
#include "../adversary.h"

#include <errno.h>
#include <linux/if_xdp.h>
#include <net/ethernet.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>

#ifndef AF_XDP
#define AF_XDP 44
#endif
#ifndef SOL_XDP
#define SOL_XDP 283
#endif
#define FRAMES	   16
#define FRAME_SIZE 4096

/* Memory for frames, and the rings that the kernel wants. */
static int prepare(int fd, uint8_t **ret_frames)
{
	struct rlimit all = {RLIM_INFINITY, RLIM_INFINITY};
	struct xdp_umem_reg umem = {.len = FRAMES * FRAME_SIZE, .chunk_size = FRAME_SIZE};
	static const int rings[] = {XDP_UMEM_FILL_RING, XDP_UMEM_COMPLETION_RING, XDP_TX_RING};
	void *frames =
		mmap(NULL, umem.len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	setrlimit(RLIMIT_MEMLOCK, &all);
	umem.addr = (uintptr_t)frames;
	if (setsockopt(fd, SOL_XDP, XDP_UMEM_REG, &umem, sizeof(umem)))
		return -errno;
	for (size_t i = 0; i < ARRAY_SIZE(rings); i++) {
		int result = set_option(fd, SOL_XDP, rings[i], FRAMES);

		if (result)
			return result;
	}
	*ret_frames = frames;
	return 0;
}

VECTOR(af_xdp)
{
	struct sockaddr_xdp where = {.sxdp_family = AF_XDP,
				     .sxdp_flags = XDP_COPY,
				     .sxdp_ifindex = (unsigned)index_of(DEVICE)};
	bool v6 = is_v6(&attempt->target);
	int fd = socket(AF_XDP, SOCK_RAW, 0), result;
	struct xdp_mmap_offsets offsets;
	socklen_t size = sizeof(offsets);
	struct xdp_desc *slot;
	uint8_t *frames = NULL, *ring;
	size_t head;

	if (fd < 0)
		return -errno;
	result = prepare(fd, &frames);
	if (result)
		return result;
	if (getsockopt(fd, SOL_XDP, XDP_MMAP_OFFSETS, &offsets, &size))
		return -errno;
	ring = mmap(NULL, offsets.tx.desc + FRAMES * sizeof(*slot), PROT_READ | PROT_WRITE,
		    MAP_SHARED | MAP_POPULATE, fd, XDP_PGOFF_TX_RING);
	if (ring == MAP_FAILED)
		return -errno;
	/* The queue of an earlier attempt is freed in the background. */
	for (int tries = 0; bind(fd, (struct sockaddr *)&where, sizeof(where)); tries++) {
		if (errno != EBUSY || tries == PATIENCE_MS)
			return -errno;
		poll(NULL, 0, 1);
	}
	head = put_ethernet(frames, attempt, v6 ? ETHERTYPE_IPV6 : ETHERTYPE_IP);
	slot = (struct xdp_desc *)(ring + offsets.tx.desc);
	slot->addr = 0;
	slot->len = (uint32_t)(head + put_udp(frames + head, &attempt->own, &attempt->target, PORT,
					      attempt->token));
	__atomic_store_n((uint32_t *)(ring + offsets.tx.producer), 1, __ATOMIC_RELEASE);
	return sent(sendto(fd, NULL, 0, MSG_DONTWAIT, NULL, 0));
}
