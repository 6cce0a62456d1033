/* SPDX-License-Identifier: Apache-2.0 */
/* Event channels: an eventfd that counts the events, and their list. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "rdmacm.h"

pthread_cond_t acknowledged = PTHREAD_COND_INITIALIZER; /* with lock: an event was acknowledged */

EXPORT struct rdma_event_channel *rdma_create_event_channel(void)
{
	struct channel *c = calloc(1, sizeof *c);
	if (c == NULL)
		return NULL;
	c->events_end = &c->events;
	c->process = process;
	c->rdma.fd = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
	if (c->rdma.fd >= 0)
		return &c->rdma;
	int error = errno;
	free(c);
	errno = error;
	return NULL;
}

/* The ids of the channel get no events any more, and its listeners take no requests. */
EXPORT void rdma_destroy_event_channel(struct rdma_event_channel *channel)
{
	struct channel *c = to_channel(channel);
	pthread_mutex_lock(&lock);
	ids_leave(c);
	struct event *e = c->events;
	pthread_mutex_unlock(&lock);
	events_discard(e);
	close(channel->fd);
	free(c);
}

/* count_up and count_down change the counter of a channel. Callers have the lock; system calls by number are no cancellation points. */
static void count_up(int fd)
{
	uint64_t one = 1;
	if (syscall(SYS_write, fd, &one, sizeof one) < 0)
		abort(); /* the counter has room for 2^64 */
}

static void count_down(int fd)
{
	uint64_t n;
	struct iovec part = {&n, sizeof n};
	syscall(SYS_preadv2, fd, &part, 1, -1L, -1L, RWF_NOWAIT); /* a thread that has taken the count finds no event */
}

/* wait_acknowledged waits until the program has acknowledged the events of an id. The caller has the lock. */
void wait_acknowledged(struct id *id)
{
	int state;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	while (id->delivered != id->acknowledged)
		pthread_cond_wait(&acknowledged, &lock);
	pthread_setcancelstate(state, NULL);
}

/* event_new makes an event of an id; NULL: no memory. */
struct event *event_new(struct id *id, enum rdma_cm_event_type type, int status)
{
	struct event *e = calloc(1, sizeof *e);
	if (e != NULL) {
		e->rdma = (struct rdma_cm_event){.id = &id->rdma, .event = type, .status = status};
		e->owner = id;
	}
	return e;
}

/* event_private gives an event private data. Datagrams and connections have it at the same place. */
void event_private(struct event *e, const struct softroce_cm_private *p)
{
	uint32_t n = p->len < sizeof e->private ? p->len : sizeof e->private;
	memcpy(e->private, p->bytes, n);
	e->rdma.param.conn.private_data = n > 0 ? e->private : NULL;
	e->rdma.param.conn.private_data_len = n < UINT8_MAX ? (uint8_t)n : UINT8_MAX;
}

/* event_queue gives an event to the channel of its id. The caller has the lock, and may not have memory for the event. */
void event_queue(struct event *e)
{
	if (e == NULL)
		return;
	struct channel *c = to_channel(e->owner->rdma.channel);
	if (c == NULL) { /* it was destroyed */
		free(e);
		return;
	}
	*c->events_end = e;
	c->events_end = &e->next;
	count_up(c->rdma.fd);
}

/* unlink_event takes an event from the list of a channel. The caller has the lock. */
static struct event *unlink_event(struct channel *c, struct event **at)
{
	struct event *e = *at;
	*at = e->next;
	if (c->events_end == &e->next)
		c->events_end = at;
	e->next = NULL;
	count_down(c->rdma.fd);
	return e;
}

/* request_take removes the event of a request that the program has not received. False: it has. The caller has the lock. */
bool request_take(struct id *id)
{
	struct channel *c = to_channel(id->rdma.channel);
	for (struct event **at = c != NULL ? &c->events : NULL; at != NULL && *at != NULL; at = &(*at)->next) {
		if ((*at)->rdma.id == &id->rdma && (*at)->rdma.event == RDMA_CM_EVENT_CONNECT_REQUEST) {
			free(unlink_event(c, at));
			return true;
		}
	}
	return false;
}

/* events_take removes the events of an id that the program has not received. The caller has the lock. */
struct event *events_take(struct id *id)
{
	struct channel *c = to_channel(id->rdma.channel);
	struct event *taken = NULL, **end = &taken;
	for (struct event **at = c != NULL ? &c->events : NULL; at != NULL && *at != NULL;) {
		if ((*at)->owner != id) {
			at = &(*at)->next;
			continue;
		}
		*end = unlink_event(c, at);
		end = &(*end)->next;
	}
	return taken;
}

/* prepare does what an event needs before the program gets it. It returns 0 or errno. */
static int prepare(struct event *e)
{
	struct id *id = to_id(e->rdma.id);
	switch (e->rdma.event) {
	case RDMA_CM_EVENT_CONNECT_RESPONSE:
		if (id->rdma.qp != NULL)
			complete_connection(e);
		return 0;
	case RDMA_CM_EVENT_REJECTED:
		if (id->rdma.qp != NULL)
			to_error(id);
		return 0;
	case RDMA_CM_EVENT_CONNECT_REQUEST: /* the id of a request is as synchronous as its listener */
		return e->owner->sync && rdma_migrate_id(&id->rdma, NULL) != 0 ? errno : 0;
	default:
		return 0;
	}
}

EXPORT int rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event)
{
	struct channel *c = to_channel(channel);
	if (c->process != process)
		return failed(EIO);
	for (;;) {
		uint64_t n;
		if (read(channel->fd, &n, sizeof n) != sizeof n) /* EAGAIN if the program has set O_NONBLOCK */
			return -1;
		pthread_mutex_lock(&lock);
		struct event *e = c->events;
		if (e != NULL) {
			c->events = e->next;
			if (c->events == NULL)
				c->events_end = &c->events;
			e->owner->delivered++;
		}
		pthread_mutex_unlock(&lock);
		if (e == NULL)
			continue; /* it was one of an id that is destroyed */
		int error = prepare(e);
		if (error != 0) {
			rdma_destroy_id(e->rdma.id);
			rdma_ack_cm_event(&e->rdma);
			return failed(error);
		}
		*event = &e->rdma;
		return 0;
	}
}

EXPORT int rdma_ack_cm_event(struct rdma_cm_event *event)
{
	struct event *e = (struct event *)event;
	if (event == NULL)
		return failed(EINVAL);
	pthread_mutex_lock(&lock);
	e->owner->acknowledged++;
	pthread_cond_broadcast(&acknowledged);
	pthread_mutex_unlock(&lock);
	free(e);
	return 0;
}
