/* SPDX-License-Identifier: Apache-2.0 */
/* Endpoints: addresses by name, ids with all that a connection needs, and requests as the result of a call. */
#define _GNU_SOURCE
#include <netdb.h>
#include <stdlib.h>
#include <string.h>

#include "rdmacm.h"

#define RESOLVE_MS 2000

/* copy_address copies an address into new memory; NULL: none, or no memory. */
static struct sockaddr *copy_address(const struct sockaddr *a, socklen_t bytes)
{
	struct sockaddr *copy = a != NULL && bytes > 0 ? malloc(bytes) : NULL;
	if (copy != NULL)
		memcpy(copy, a, bytes);
	return copy;
}

EXPORT void rdma_freeaddrinfo(struct rdma_addrinfo *a)
{
	while (a != NULL) {
		struct rdma_addrinfo *next = a->ai_next;
		free(a->ai_src_addr);
		free(a->ai_dst_addr);
		free(a->ai_src_canonname);
		free(a->ai_dst_canonname);
		free(a->ai_route);
		free(a->ai_connect);
		free(a);
		a = next;
	}
}

/* convert makes an address of rdma_getaddrinfo of one of getaddrinfo. NULL: no memory. */
static struct rdma_addrinfo *convert(const struct addrinfo *a, const struct rdma_addrinfo *hints)
{
	struct rdma_addrinfo *r = calloc(1, sizeof *r);
	if (r == NULL)
		return NULL;
	r->ai_flags = hints->ai_flags;
	r->ai_family = a->ai_family;
	r->ai_port_space = hints->ai_port_space != 0 ? hints->ai_port_space : hints->ai_qp_type == IBV_QPT_UD ? RDMA_PS_UDP : RDMA_PS_TCP;
	r->ai_qp_type = hints->ai_qp_type != 0 ? hints->ai_qp_type : r->ai_port_space == RDMA_PS_UDP ? IBV_QPT_UD : IBV_QPT_RC;
	bool passive = (hints->ai_flags & RAI_PASSIVE) != 0;
	char *name = a->ai_canonname != NULL ? strdup(a->ai_canonname) : NULL;
	struct sockaddr *copy = copy_address(a->ai_addr, a->ai_addrlen);
	if (passive) {
		r->ai_src_addr = copy;
		r->ai_src_len = a->ai_addrlen;
		r->ai_src_canonname = name;
	} else {
		r->ai_dst_addr = copy;
		r->ai_dst_len = a->ai_addrlen;
		r->ai_dst_canonname = name;
		r->ai_src_addr = copy_address(hints->ai_src_addr, hints->ai_src_len);
		r->ai_src_len = r->ai_src_addr != NULL ? hints->ai_src_len : 0;
	}
	if (copy != NULL)
		return r;
	rdma_freeaddrinfo(r);
	return NULL;
}

/* rdma_getaddrinfo returns 0, or an error of getaddrinfo. */
EXPORT int rdma_getaddrinfo(const char *node, const char *service, const struct rdma_addrinfo *hints, struct rdma_addrinfo **result)
{
	static const struct rdma_addrinfo none;
	struct addrinfo want = {0}, *found = NULL;
	struct rdma_addrinfo **end = result;
	if (hints == NULL)
		hints = &none;
	*result = NULL;
	want.ai_socktype = hints->ai_port_space == RDMA_PS_UDP || hints->ai_qp_type == IBV_QPT_UD ? SOCK_DGRAM : SOCK_STREAM;
	want.ai_family = (hints->ai_flags & RAI_FAMILY) != 0 ? hints->ai_family : AF_UNSPEC;
	want.ai_flags = ((hints->ai_flags & RAI_PASSIVE) != 0 ? AI_PASSIVE : 0) | ((hints->ai_flags & RAI_NUMERICHOST) != 0 ? AI_NUMERICHOST : 0);
	int error = getaddrinfo(node, service, &want, &found);
	for (struct addrinfo *a = found; error == 0 && a != NULL; a = a->ai_next) {
		if (!address_usable(a->ai_addr))
			continue;
		if ((*end = convert(a, hints)) == NULL) {
			error = EAI_MEMORY;
			break;
		}
		end = &(*end)->ai_next;
	}
	if (found != NULL)
		freeaddrinfo(found);
	if (error != 0) {
		rdma_freeaddrinfo(*result);
		*result = NULL;
	}
	return error;
}

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
