/* SPDX-License-Identifier: Apache-2.0 */
/* Mapping of rings, and the doorbell by which the agent learns of new entries. */
#define _GNU_SOURCE
#include "ring.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/*
 * map_shared maps bytes of a file of the agent, with a protection of mmap. An access behind the end of a file is a SIGBUS,
 * so its size is checked, and that the agent cannot shrink it.
 */
int map_shared(int fd, uint64_t offset, size_t bytes, int protection, struct mapping *m)
{
	struct stat st;
	int seals = fcntl(fd, F_GET_SEALS);
	if (seals < 0 || (seals & F_SEAL_SHRINK) == 0)
		return EPROTO;
	if (fstat(fd, &st) != 0)
		return errno;
	if (bytes == 0 || st.st_size < 0 || offset > (uint64_t)st.st_size || bytes > (uint64_t)st.st_size - offset)
		return EPROTO;
	void *at = mmap(NULL, bytes, protection, MAP_SHARED, fd, (off_t)offset);
	if (at == MAP_FAILED)
		return errno;
	madvise(at, bytes, MADV_DONTFORK); /* a child has no use for the queues of its parent */
	*m = (struct mapping){at, bytes};
	return 0;
}

/* map_rings maps rings, which both sides write to. */
int map_rings(int fd, uint64_t offset, size_t bytes, struct mapping *m)
{
	return map_shared(fd, offset, bytes, PROT_READ | PROT_WRITE, m);
}

void unmap_rings(struct mapping *m)
{
	if (m->at != NULL)
		munmap(m->at, m->bytes);
	m->at = NULL;
}

/* set_bit sets a bit of the doorbell, with a store only if it is not set. */
static void set_bit(uint8_t *at, unsigned bit)
{
	uint64_t *word = (uint64_t *)(void *)at;
	uint64_t mask = (uint64_t)1 << bit;
	if ((__atomic_load_n(word, __ATOMIC_SEQ_CST) & mask) == 0)
		__atomic_fetch_or(word, mask, __ATOMIC_SEQ_CST);
}

/*
 * ring_doorbell shows the agent the entries of a ring up to r->next. The order of the accesses is that of
 * docs/run/device.md: producer, watched, bit of the ring, bit of the group, asleep.
 */
void ring_doorbell(const struct doorbell *d, const uint8_t *status_page, struct ring *r)
{
	__atomic_store_n(ring_word(r, SOFTROCE_RING_PRODUCER_AT), r->next, __ATOMIC_SEQ_CST);
	if (__atomic_load_n(ring_word(r, SOFTROCE_RING_WATCHED_AT), __ATOMIC_SEQ_CST) == 0) {
		unsigned queue = r->queue % SOFTROCE_QUEUES;
		set_bit(d->at + SOFTROCE_DOORBELL_RINGS_AT + queue / 64 * 8, queue % 64);
		set_bit(d->at + SOFTROCE_DOORBELL_GROUPS_AT, queue / 64);
	}
	const uint64_t *asleep = (const uint64_t *)(const void *)(status_page + SOFTROCE_STATUS_PAGE_ASLEEP_AT);
	if ((__atomic_load_n(asleep, __ATOMIC_SEQ_CST) >> (r->queue / 64 % 64) & 1) == 0) /* a bit for each group */
		return;
	uint64_t one = 1;
	int state;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state); /* the caller has a lock */
	ssize_t written = write(d->wake, &one, sizeof one);
	(void)written; /* it fails if the counter is at its end: then the agent wakes up in any case */
	pthread_setcancelstate(state, NULL);
}
