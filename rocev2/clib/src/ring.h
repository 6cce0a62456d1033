/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rings with one producer and one consumer, in memory that the agent shares (rocev2/ring).
 *
 * The agent is not trusted: sizes are checked before memory is mapped, indexes of the other side are
 * checked at each use, and an entry is copied before it is read.
 */
#ifndef RING_H
#define RING_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "softroce_proto.h"

/* Memory of rings that this process has mapped. */
struct mapping {
	uint8_t *at;
	size_t bytes;
};

int map_shared(int fd, uint64_t offset, size_t bytes, int protection, struct mapping *m); /* 0 or errno */
int map_rings(int fd, uint64_t offset, size_t bytes, struct mapping *m); /* 0 or errno */
void unmap_rings(struct mapping *m);

struct ring {
	uint8_t *at;
	uint32_t mask;  /* entries - 1 */
	uint32_t entry; /* bytes of an entry */
	uint32_t next;  /* entries written, or read, modulo 2^32 */
	uint32_t free;  /* producer: index of the consumer, as read last */
	uint32_t depth; /* producer: entries in use at most */
	uint32_t queue; /* producer: number of the ring in the doorbell */
};

/* shape_bytes is the memory of a ring, or 0 if the shape is not possible, or has fewer entries than depth or shorter ones than least. */
static inline size_t shape_bytes(struct softroce_shape s, uint32_t depth, uint32_t least)
{
	return softroce_shape_valid(s) && s.entries >= depth && s.entry_bytes >= least ? softroce_ring_bytes(s) : 0;
}

static inline void ring_init(struct ring *r, uint8_t *at, struct softroce_shape s, uint32_t depth, uint32_t queue)
{
	*r = (struct ring){.at = at, .mask = s.entries - 1, .entry = s.entry_bytes, .depth = depth, .queue = queue};
}

static inline uint32_t *ring_word(const struct ring *r, unsigned at) { return (uint32_t *)(void *)(r->at + at); }

static inline uint8_t *ring_entry(const struct ring *r, uint32_t i)
{
	return r->at + SOFTROCE_RING_ENTRIES_AT + (size_t)(i & r->mask) * r->entry;
}

/* ring_room returns 0 if there is room for an entry, ENOMEM if the ring is full, EIO if the index of the agent is not possible. */
static inline int ring_room(struct ring *r)
{
	if (r->next - r->free < r->depth)
		return 0;
	uint32_t free = __atomic_load_n(ring_word(r, SOFTROCE_RING_CONSUMER_AT), __ATOMIC_ACQUIRE);
	if (free - r->free > r->next - r->free)
		return EIO;
	r->free = free;
	return r->next - free < r->depth ? 0 : ENOMEM;
}

/* The doorbell of a context, and the eventfd that ends the sleep of the agent. */
struct doorbell {
	uint8_t *at;
	int wake;
};

void ring_doorbell(const struct doorbell *d, const uint8_t *status_page, struct ring *r);

#endif
