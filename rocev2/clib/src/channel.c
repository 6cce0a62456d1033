/* SPDX-License-Identifier: Apache-2.0 */
/* Completion channels: an eventfd that counts the completion queues with an event, and their list. */
#define _GNU_SOURCE
#include <poll.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include "softroce.h"

/* eventfd_one adds 1 to the counter of an eventfd. Callers have locks, and write is a cancellation point. */
bool eventfd_one(int fd)
{
	uint64_t one = 1;
	int state = cancel_off();
	bool done = write(fd, &one, sizeof one) == sizeof one;
	cancel_on(state);
	return done;
}

/* eventfd_end is for a device that has ended: no thread waits at the eventfd for long. */
void eventfd_end(int fd)
{
	uint64_t n = (uint64_t)1 << 62;
	if (write(fd, &n, sizeof n) < 0)
		eventfd_one(fd);
}

/* eventfd_take takes 1 from the counter of an event that is forgotten, unless a thread that will find no event has taken it. */
void eventfd_take(int fd)
{
	uint64_t n;
	struct iovec part = {&n, sizeof n};
	int state = cancel_off();
	(void)preadv2(fd, &part, 1, -1, RWF_NOWAIT); /* EAGAIN: the counter is 0 */
	cancel_on(state);
}

EXPORT struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
	struct context *c = to_context(context);
	if (gone(c) != ALIVE)
		return fail(EIO);
	struct channel *ch = calloc(1, sizeof *ch);
	if (ch == NULL)
		return NULL;
	ch->ibv.context = context;
	ch->pending_end = &ch->pending;
	ch->ibv.fd = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
	if (ch->ibv.fd < 0) {
		int error = errno;
		free(ch);
		return fail(error);
	}
	pthread_mutex_lock(&c->lock);
	bool alive = gone(c) == ALIVE; /* under the lock: on_end has not ended the channels */
	if (alive) {
		ch->next = c->channels;
		c->channels = ch;
	}
	pthread_mutex_unlock(&c->lock);
	if (alive)
		return &ch->ibv;
	close(ch->ibv.fd);
	free(ch);
	return fail(EIO);
}

EXPORT int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
	struct context *c = to_context(channel->context);
	struct channel *ch = to_channel(channel);
	if (gone(c) == FORKED)
		return failed(EIO);
	pthread_mutex_lock(&c->lock);
	bool busy = channel->refcnt > 0;
	struct channel **at = &c->channels;
	while (!busy && *at != NULL && *at != ch)
		at = &(*at)->next;
	if (!busy && *at == ch)
		*at = ch->next;
	pthread_mutex_unlock(&c->lock);
	if (busy)
		return failed(EBUSY);
	close(channel->fd);
	free(ch);
	return 0;
}

/* channel_event puts a queue on the list of its channel, unless it is there already. */
void channel_event(struct cq *cq)
{
	struct channel *ch = to_channel(cq->ibv.channel);
	if (ch == NULL || cq->pending)
		return;
	cq->pending = true;
	cq->next_pending = NULL;
	*ch->pending_end = cq;
	ch->pending_end = &cq->next_pending;
	eventfd_one(ch->ibv.fd);
}

/*
 * channel_forget takes the event of a queue that is destroyed from the list. A thread in ibv_get_cq_event may have taken its
 * count already: it finds no event and goes on waiting.
 */
void channel_forget(struct cq *cq)
{
	struct channel *ch = to_channel(cq->ibv.channel);
	if (ch == NULL || !cq->pending)
		return;
	struct cq **at = &ch->pending;
	while (*at != cq)
		at = &(*at)->next_pending;
	*at = cq->next_pending;
	if (ch->pending_end == &cq->next_pending)
		ch->pending_end = at;
	cq->pending = false;
	eventfd_take(ch->ibv.fd);
}

/* channels_end wakes all threads that wait for an event of a device that has ended. */
void channels_end(struct context *c)
{
	for (struct channel *ch = c->channels; ch != NULL; ch = ch->next)
		eventfd_end(ch->ibv.fd);
}

EXPORT int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context)
{
	struct context *c = to_context(channel->context);
	struct channel *ch = to_channel(channel);
	for (;;) {
		uint64_t n;
		if (gone(c) == FORKED) {
			errno = EIO;
			return -1;
		}
		if (read(channel->fd, &n, sizeof n) != sizeof n) /* EAGAIN if the program has set O_NONBLOCK */
			return -1;
		pthread_mutex_lock(&c->lock);
		struct cq *q = ch->pending;
		if (q != NULL) {
			ch->pending = q->next_pending;
			if (ch->pending == NULL)
				ch->pending_end = &ch->pending;
			q->pending = false;
			q->comp_delivered++;
			*cq = &q->ibv;
			*cq_context = q->ibv.cq_context;
		}
		pthread_mutex_unlock(&c->lock);
		if (q != NULL)
			return 0;
		if (gone(c) != ALIVE) {
			errno = EIO;
			return -1;
		}
	}
}

EXPORT void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int n)
{
	if (gone(to_context(cq->context)) == FORKED)
		return;
	pthread_mutex_lock(&cq->mutex);
	cq->comp_events_completed += n;
	pthread_cond_broadcast(&cq->cond);
	pthread_mutex_unlock(&cq->mutex);
}
