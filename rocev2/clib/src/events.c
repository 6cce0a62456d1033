/* SPDX-License-Identifier: Apache-2.0 */
/* What the thread of a context does with events and signals of the agent, and asynchronous events of a program. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <unistd.h>

#include "softroce.h"

#define MAX_EVENTS 1024 /* events that a program has not received; the oldest are lost */

/* async_event keeps an event for ibv_get_async_event. The caller has the lock of the context. */
void async_event(struct context *c, struct ibv_async_event e)
{
	struct async *a = calloc(1, sizeof *a);
	unsigned n = 0;
	if (a == NULL)
		return;
	for (struct async *k = c->events; k != NULL; k = k->next)
		n++;
	if (n >= MAX_EVENTS) { /* the counter of the eventfd stays as it is */
		struct async *oldest = c->events;
		c->events = oldest->next;
		free(oldest);
	}
	a->event = e;
	*c->events_end = a;
	c->events_end = &a->next;
	if (n < MAX_EVENTS)
		eventfd_one(c->verbs.context.async_fd);
}

/*
 * async_forget removes the events of an object that is destroyed, which the program has not received. They need no
 * ibv_ack_async_event. The caller has the lock of the context.
 */
void async_forget(struct context *c, void *element)
{
	for (struct async **at = &c->events; *at != NULL;) {
		struct async *a = *at;
		bool port = a->event.event_type == IBV_EVENT_DEVICE_FATAL || a->event.event_type == IBV_EVENT_PORT_ACTIVE ||
			    a->event.event_type == IBV_EVENT_PORT_ERR || a->event.event_type == IBV_EVENT_GID_CHANGE;
		if (port || a->event.element.qp != element) {
			at = &a->next;
			continue;
		}
		*at = a->next;
		free(a);
		eventfd_take(c->verbs.context.async_fd);
	}
	c->events_end = &c->events;
	while (*c->events_end != NULL)
		c->events_end = &(*c->events_end)->next;
}

/* count_received counts an event of an object as received by the program. The caller has the lock of the context. */
static void count_received(struct ibv_async_event *e)
{
	switch (e->event_type) {
	case IBV_EVENT_CQ_ERR:
		to_cq(e->element.cq)->async_delivered++;
		break;
	case IBV_EVENT_SRQ_LIMIT_REACHED:
	case IBV_EVENT_SRQ_ERR:
		to_srq(e->element.srq)->async_delivered++;
		break;
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_COMM_EST:
	case IBV_EVENT_SQ_DRAINED:
	case IBV_EVENT_QP_LAST_WQE_REACHED:
		to_qp(e->element.qp)->async_delivered++;
		break;
	default:
		break;
	}
}

EXPORT int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
	struct context *c = to_context(context);
	for (;;) {
		uint64_t n;
		if (gone(c) == FORKED) { /* the eventfd is that of the parent */
			errno = EIO;
			return -1;
		}
		if (read(context->async_fd, &n, sizeof n) != sizeof n)
			return -1;
		pthread_mutex_lock(&c->lock);
		struct async *a = c->events;
		if (a != NULL) {
			c->events = a->next;
			if (c->events == NULL)
				c->events_end = &c->events;
			*event = a->event;
			count_received(event);
		}
		pthread_mutex_unlock(&c->lock);
		free(a);
		if (a != NULL)
			return 0; /* otherwise the event was one of an object that is destroyed, or the device has ended */
		if (gone(c) != ALIVE) {
			errno = EIO;
			return -1;
		}
	}
}

static void acknowledge(pthread_mutex_t *mutex, pthread_cond_t *cond, uint32_t *completed)
{
	pthread_mutex_lock(mutex);
	++*completed;
	pthread_cond_broadcast(cond);
	pthread_mutex_unlock(mutex);
}

/* forked is for an object of an event: another thread of the parent may have had its lock. */
static bool forked(struct ibv_context *context) { return gone(to_context(context)) == FORKED; }

EXPORT void ibv_ack_async_event(struct ibv_async_event *e)
{
	switch (e->event_type) {
	case IBV_EVENT_CQ_ERR:
		if (forked(e->element.cq->context))
			return;
		acknowledge(&e->element.cq->mutex, &e->element.cq->cond, &e->element.cq->async_events_completed);
		break;
	case IBV_EVENT_SRQ_LIMIT_REACHED:
	case IBV_EVENT_SRQ_ERR:
		if (forked(e->element.srq->context))
			return;
		acknowledge(&e->element.srq->mutex, &e->element.srq->cond, &e->element.srq->events_completed);
		break;
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_COMM_EST:
	case IBV_EVENT_SQ_DRAINED:
	case IBV_EVENT_QP_LAST_WQE_REACHED:
		if (forked(e->element.qp->context))
			return;
		acknowledge(&e->element.qp->mutex, &e->element.qp->cond, &e->element.qp->events_completed);
		break;
	default:
		break;
	}
}

/* event_type is the type of an event of verbs, or -1 for one that verbs does not have. */
static int event_type(uint32_t type)
{
	switch (type) {
	case SOFTROCE_EVENT_QP_ESTABLISHED:
		return IBV_EVENT_COMM_EST;
	case SOFTROCE_EVENT_QP_DRAINED:
		return IBV_EVENT_SQ_DRAINED;
	case SOFTROCE_EVENT_QP_FATAL:
		return IBV_EVENT_QP_FATAL;
	case SOFTROCE_EVENT_QP_ACCESS:
		return IBV_EVENT_QP_ACCESS_ERR;
	case SOFTROCE_EVENT_QP_REQUEST:
		return IBV_EVENT_QP_REQ_ERR;
	case SOFTROCE_EVENT_QP_LAST_WQE:
		return IBV_EVENT_QP_LAST_WQE_REACHED;
	case SOFTROCE_EVENT_SRQ_LIMIT:
		return IBV_EVENT_SRQ_LIMIT_REACHED;
	case SOFTROCE_EVENT_CQ_ERROR:
		return IBV_EVENT_CQ_ERR;
	case SOFTROCE_EVENT_PORT_ACTIVE:
		return IBV_EVENT_PORT_ACTIVE;
	case SOFTROCE_EVENT_PORT_DOWN:
		return IBV_EVENT_PORT_ERR;
	case SOFTROCE_EVENT_GID_CHANGE:
		return IBV_EVENT_GID_CHANGE;
	}
	return -1;
}

/* on_event takes an event of the agent. An object of it may have been destroyed meanwhile. */
void on_event(struct context *c, const struct softroce_event *m)
{
	int type = event_type(m->type);
	struct ibv_async_event e = {.event_type = (enum ibv_event_type)type};
	bool known = type >= 0;
	pthread_mutex_lock(&c->lock);
	if (m->type <= SOFTROCE_EVENT_QP_LAST_WQE) {
		struct qp *q = c->qps;
		while (q != NULL && q->ibv.handle != m->object)
			q = q->next;
		e.element.qp = q != NULL ? &q->ibv : NULL;
		known = known && q != NULL;
	} else if (m->type == SOFTROCE_EVENT_SRQ_LIMIT) {
		struct srq *s = c->srqs;
		while (s != NULL && s->ibv.handle != m->object)
			s = s->next;
		e.element.srq = s != NULL ? &s->ibv : NULL;
		known = known && s != NULL;
	} else if (m->type == SOFTROCE_EVENT_CQ_ERROR) {
		struct cq *q = c->cqs;
		while (q != NULL && q->ibv.handle != m->object)
			q = q->next;
		e.element.cq = q != NULL ? &q->ibv : NULL;
		known = known && q != NULL;
	} else {
		e.element.port_num = 1;
		c->port_known = false;
		c->port_changes++;
	}
	if (known)
		async_event(c, e);
	pthread_mutex_unlock(&c->lock);
}

/* on_signals gives the channels the completion queues that the agent has signalled. */
void on_signals(struct context *c)
{
	pthread_mutex_lock(&c->lock);
	for (struct cq *q = c->cqs; q != NULL; q = q->next) {
		if (q->stale)
			continue;
		uint32_t now = __atomic_load_n(ring_word(&q->ring, SOFTROCE_RING_STATE_AT), __ATOMIC_ACQUIRE);
		if (now == q->signals)
			continue;
		q->signals = now;
		channel_event(q);
	}
	pthread_mutex_unlock(&c->lock);
}

/* on_end ends a context whose agent has ended: calls return EIO, and threads that wait for events return. */
void on_end(struct context *c)
{
	complain("%s: the device server has ended: open the device again", c->device->ifname); /* first: a thread that wakes may exit */
	on_signals(c); /* those that came after the last look, which hang_up has received */
	pthread_mutex_lock(&c->lock);
	__atomic_store_n(&c->gone, ENDED, __ATOMIC_RELEASE);
	pthread_cond_broadcast(&c->changed);
	async_event(c, (struct ibv_async_event){.event_type = IBV_EVENT_DEVICE_FATAL});
	channels_end(c);
	eventfd_end(c->verbs.context.async_fd);
	pthread_mutex_unlock(&c->lock);
	on_cm_event(c, NULL);
}
