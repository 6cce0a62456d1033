/* SPDX-License-Identifier: Apache-2.0 */
/* Shared receive queues. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <unistd.h>

#include "softroce.h"

static void link_srq(struct context *c, struct srq *s)
{
	pthread_mutex_lock(&c->lock);
	s->next = c->srqs;
	c->srqs = s;
	pthread_mutex_unlock(&c->lock);
}

EXPORT struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *a)
{
	struct context *c = to_context(pd->context);
	uint32_t sge = a->attr.max_sge > 0 ? a->attr.max_sge : 1;
	struct softroce_create_srq m = {.pd = pd->handle, .depth = a->attr.max_wr, .sge = sge};
	struct softroce_create_srq_reply r;
	int fd;
	if (m.depth == 0 || m.depth > c->limits.wr || sge > c->limits.sge)
		return fail(EINVAL);
	struct srq *s = calloc(1, sizeof *s);
	if (s == NULL)
		return NULL;
	int error = call(c, (struct message){.type = SOFTROCE_MSG_CREATE_SRQ, BODY(m)}, (struct answer){BODY(r), .fd = &fd});
	if (error != 0) {
		free(s);
		return fail(error);
	}
	size_t bytes = shape_bytes(r.ring, m.depth, SOFTROCE_WQE_RECV_BYTES + sge * SOFTROCE_SGE_BYTES);
	error = bytes == 0 ? EPROTO : map_rings(fd, r.offset, bytes, &s->map);
	close(fd);
	if (error != 0) {
		call_handle(c, SOFTROCE_MSG_DESTROY_SRQ, r.handle);
		free(s);
		return fail(error);
	}
	ring_init(&s->ring, s->map.at, r.ring, m.depth, r.queue);
	s->ibv.context = pd->context;
	s->ibv.srq_context = a->srq_context;
	s->ibv.pd = pd;
	s->ibv.handle = r.handle;
	s->attr = (struct ibv_srq_attr){.max_wr = m.depth, .max_sge = sge};
	a->attr.max_sge = sge;
	pthread_mutex_init(&s->ibv.mutex, NULL);
	pthread_cond_init(&s->ibv.cond, NULL);
	pthread_mutex_init(&s->lock, NULL);
	pd_use(pd, 1);
	link_srq(c, s);
	return &s->ibv;
}

EXPORT int ibv_modify_srq(struct ibv_srq *ibv, struct ibv_srq_attr *a, int mask)
{
	struct softroce_srq_limit m = {.handle = ibv->handle, .limit = (int32_t)a->srq_limit};
	if ((mask & IBV_SRQ_MAX_WR) != 0)
		return unsupported("ibv_modify_srq with another number of work requests");
	if ((mask & ~IBV_SRQ_LIMIT) != 0 || a->srq_limit > to_srq(ibv)->attr.max_wr)
		return failed(EINVAL);
	if (mask == 0)
		return 0;
	return call(to_context(ibv->context), (struct message){.type = SOFTROCE_MSG_SET_SRQ_LIMIT, BODY(m)}, (struct answer){0});
}

EXPORT int ibv_query_srq(struct ibv_srq *ibv, struct ibv_srq_attr *a)
{
	struct softroce_handle m = {ibv->handle};
	struct softroce_srq_limit r;
	int error = call(to_context(ibv->context), (struct message){.type = SOFTROCE_MSG_QUERY_SRQ, BODY(m)}, (struct answer){BODY(r)});
	if (error != 0)
		return error;
	*a = to_srq(ibv)->attr;
	a->srq_limit = r.limit > 0 ? (uint32_t)r.limit : 0;
	return 0;
}

EXPORT int ibv_destroy_srq(struct ibv_srq *ibv)
{
	struct srq *s = to_srq(ibv);
	struct context *c = to_context(ibv->context);
	if (gone(c) == FORKED)
		return failed(EIO);
	int error = call_handle(c, SOFTROCE_MSG_DESTROY_SRQ, ibv->handle);
	if (error != 0)
		return error;
	pd_use(ibv->pd, -1);
	pthread_mutex_lock(&c->lock);
	struct srq **at = &c->srqs;
	while (*at != s)
		at = &(*at)->next;
	*at = s->next;
	async_forget(c, ibv);
	unsigned async = s->async_delivered;
	pthread_mutex_unlock(&c->lock);
	pthread_mutex_lock(&ibv->mutex);
	while (ibv->events_completed != async)
		pthread_cond_wait(&ibv->cond, &ibv->mutex);
	pthread_mutex_unlock(&ibv->mutex);
	unmap_rings(&s->map);
	free(s);
	return 0;
}
