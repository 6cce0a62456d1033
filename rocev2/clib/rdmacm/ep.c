/* SPDX-License-Identifier: Apache-2.0 */
/* Endpoints: ids with all that a connection needs, and requests as the result of a call. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "rdmacm.h"

#define RESOLVE_MS 2000

/* passive binds the id of a listener, and keeps what the queue pairs of its requests need. */
static int passive(struct id *id, const struct rdma_addrinfo *res, struct ibv_pd *pd, const struct ibv_qp_init_attr *attr)
{
	if (rdma_bind_addr(&id->rdma, res->ai_src_addr) != 0)
		return -1;
	if (attr == NULL)
		return 0;
	id->request_attr = malloc(sizeof *attr);
	if (id->request_attr == NULL)
		return failed(ENOMEM);
	*id->request_attr = *attr;
	id->request_pd = pd;
	if (pd != NULL)
		id->rdma.pd = pd;
	return 0;
}

/* active finds the way to a peer, and makes the queue pair. */
static int active(struct id *id, const struct rdma_addrinfo *res, struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	if (rdma_resolve_addr(&id->rdma, res->ai_src_addr, res->ai_dst_addr, RESOLVE_MS) != 0 || rdma_resolve_route(&id->rdma, RESOLVE_MS) != 0)
		return -1;
	if (attr == NULL)
		return 0;
	attr->qp_type = (enum ibv_qp_type)res->ai_qp_type;
	return rdma_create_qp(&id->rdma, pd, attr);
}

EXPORT int rdma_create_ep(struct rdma_cm_id **result, struct rdma_addrinfo *res, struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct rdma_cm_id *id;
	if (rdma_create_id(NULL, &id, NULL, (enum rdma_port_space)res->ai_port_space) != 0)
		return -1;
	id->qp_type = (enum ibv_qp_type)res->ai_qp_type;
	bool wait = (res->ai_flags & RAI_PASSIVE) != 0;
	if ((wait ? passive(to_id(id), res, pd, attr) : active(to_id(id), res, pd, attr)) != 0) {
		int error = errno;
		rdma_destroy_id(id);
		return failed(error);
	}
	*result = id;
	return 0;
}

EXPORT void rdma_destroy_ep(struct rdma_cm_id *id)
{
	rdma_destroy_qp(id);
	rdma_destroy_srq(id);
	rdma_destroy_id(id);
}

/* take makes the queue pair of a request as rdma_create_ep was told. */
static int take(const struct id *listener, struct rdma_cm_id *id)
{
	if (listener->request_attr == NULL)
		return 0;
	struct ibv_qp_init_attr attr = *listener->request_attr;
	attr.qp_type = id->qp_type;
	return rdma_create_qp(id, listener->request_pd, &attr);
}

/* give makes the event of a request that of the new id: programs read its private data there until they accept or reject. */
static void give(struct id *listener, struct event *e)
{
	struct id *id = to_id(e->rdma.id);
	pthread_mutex_lock(&lock);
	listener->acknowledged++;
	id->delivered++;
	e->owner = id;
	id->rdma.event = &e->rdma;
	pthread_mutex_unlock(&lock);
}

EXPORT int rdma_get_request(struct rdma_cm_id *listen, struct rdma_cm_id **result)
{
	struct id *listener = to_id(listen);
	struct rdma_cm_event *event;
	if (!listener->sync)
		return failed(EINVAL);
	if (listen->event != NULL)
		rdma_ack_cm_event(listen->event);
	listen->event = NULL;
	if (rdma_get_cm_event(listen->channel, &event) != 0)
		return -1;
	if (event->status != 0 || event->event != RDMA_CM_EVENT_CONNECT_REQUEST) {
		int error = event->status < 0 ? -event->status : EINVAL;
		rdma_ack_cm_event(event);
		return failed(error);
	}
	struct rdma_cm_id *id = event->id;
	give(listener, (struct event *)event);
	if (take(listener, id) != 0) {
		int error = errno;
		rdma_destroy_id(id);
		return failed(error);
	}
	*result = id;
	return 0;
}
