/* SPDX-License-Identifier: Apache-2.0 */
/* Events of the agent become those of programs. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "rdmacm.h"

static bool datagrams(const struct id *id) { return id->rdma.qp_type == IBV_QPT_UD; }

/* hidden reports whether an id is that of a request that the program has not accepted: it gets no event then. */
static bool hidden(const struct id *id) { return !id->active && !id->accepted; }

/* offer gives an event what a request or reply says about the peer. */
static void offer(struct event *e, const struct softroce_cm_path *p)
{
	struct rdma_conn_param *c = &e->rdma.param.conn;
	c->responder_resources = p->attr.max_dest_rd_atomic;
	c->initiator_depth = p->attr.max_rd_atomic;
	c->flow_control = 1;
	c->retry_count = p->attr.retry_cnt;
	c->rnr_retry_count = p->attr.rnr_retry;
	c->qp_num = p->remote.qpn;
}

/* refuse rejects a request that no id takes. */
static void refuse(struct device *d, uint32_t cm)
{
	struct softroce_cm_call m = {.id = cm};
	softroce_send(d->verbs, SOFTROCE_MSG_CM_REJECT, &m, sizeof m);
}

/* on_request gives a request to its listener, with an id of its own. */
static void on_request(struct device *d, const struct softroce_cm_event *m)
{
	struct id *listener = id_listener(d, m);
	if (listener != NULL && (listener->rdma.channel == NULL || datagrams(listener) != (m->kind == SOFTROCE_CM_RESOLVE_REQUEST)))
		listener = NULL;
	struct id *id = listener != NULL ? id_new(listener->rdma.context, listener->rdma.ps, listener->rdma.qp_type) : NULL;
	struct event *e = id != NULL ? event_new(id, RDMA_CM_EVENT_CONNECT_REQUEST, 0) : NULL;
	if (e == NULL) {
		if (id != NULL)
			id_forget(id);
		free(id);
		refuse(d, m->id);
		return;
	}
	id->rdma.channel = listener->rdma.channel;
	id->cm = m->id;
	id->path = m->path;
	id->path.remote.psn = random_psn(); /* from here on: a program may connect its queue pair before it accepts */
	id->tos = m->path.attr.av.tclass;
	if (m->kind == SOFTROCE_CM_REQUEST)
		id->rdma.qp_type = m->path.type == SOFTROCE_QPT_UC ? IBV_QPT_UC : IBV_QPT_RC;
	address_of_gid(m->path.local.addr, address_port(&listener->rdma.route.addr.src_addr), &id->rdma.route.addr.src_storage);
	address_of_gid(m->path.remote.addr, m->src_port, &id->rdma.route.addr.dst_storage);
	id_bind(id, d);
	id_route(id, m->path.attr.pmtu, m->path.attr.timeout);
	e->rdma.listen_id = &listener->rdma;
	e->owner = listener;
	event_private(e, &m->private);
	if (m->kind == SOFTROCE_CM_REQUEST)
		offer(e, &m->path);
	event_queue(e);
}

/* on_failed tells why there is no connection. */
static void on_failed(struct id *id, const struct softroce_cm_event *m)
{
	enum rdma_cm_event_type type = RDMA_CM_EVENT_CONNECT_ERROR;
	int status = -ECONNABORTED;
	switch (m->status) {
	case SOFTROCE_STATUS_REJECTED:
		type = RDMA_CM_EVENT_REJECTED;
		status = m->reason;
		break;
	case SOFTROCE_STATUS_UNRESOLVED:
		type = RDMA_CM_EVENT_UNREACHABLE;
		status = m->reason;
		break;
	case SOFTROCE_STATUS_CM_TIMEOUT:
		type = RDMA_CM_EVENT_UNREACHABLE;
		status = -ETIMEDOUT;
		break;
	case SOFTROCE_STATUS_CM_UNREACHABLE:
		type = RDMA_CM_EVENT_UNREACHABLE;
		status = -EHOSTUNREACH;
		break;
	}
	struct event *e = event_new(id, type, status);
	if (e != NULL)
		event_private(e, &m->err_private);
	event_queue(e);
}

/* on_resolved tells the address of a queue pair of datagrams. */
static void on_resolved(struct id *id, const struct softroce_cm_event *m)
{
	struct event *e = event_new(id, RDMA_CM_EVENT_ESTABLISHED, 0);
	if (e == NULL)
		return;
	struct rdma_ud_param *ud = &e->rdma.param.ud;
	event_private(e, &m->private);
	ud->qp_num = m->path.remote.qpn;
	ud->qkey = m->path.remote.qkey;
	ud->ah_attr = (struct ibv_ah_attr){.is_global = 1, .port_num = 1};
	memcpy(ud->ah_attr.grh.dgid.raw, m->path.remote.addr, 16);
	ud->ah_attr.grh.sgid_index = id->sgid_index;
	ud->ah_attr.grh.traffic_class = id->tos;
	event_queue(e);
}

/* event_of is an event of an id. The caller has the lock. */
void event_of(struct device *d, const struct softroce_cm_event *m)
{
	struct id *id = id_find(d, m->id);
	struct event *e = NULL;
	if (id == NULL)
		return;
	if (hidden(id)) {
		id->over = id->over || m->kind == SOFTROCE_CM_FAILED || m->kind == SOFTROCE_CM_GONE;
		if (m->kind == SOFTROCE_CM_GONE) {
			id->cm = 0;
			if (request_take(id)) { /* so that peers that give up leave nothing behind */
				id_forget(id);
				free(id);
			}
		}
		return;
	}
	switch (m->kind) {
	case SOFTROCE_CM_REPLY:
		id->path = m->path;
		e = event_new(id, RDMA_CM_EVENT_CONNECT_RESPONSE, 0);
		if (e != NULL) {
			event_private(e, &m->private);
			offer(e, &m->path);
		}
		break;
	case SOFTROCE_CM_ESTABLISHED:
		id->connected = true;
		if (id->active) /* the program knows it from the response */
			break;
		e = event_new(id, RDMA_CM_EVENT_ESTABLISHED, 0);
		if (e != NULL) {
			event_private(e, &m->private);
			offer(e, &id->path);
		}
		break;
	case SOFTROCE_CM_FAILED:
		id->over = true;
		if (!id->failed)
			on_failed(id, m);
		break;
	case SOFTROCE_CM_DISCONNECTED:
		id->over = true;
		e = event_new(id, RDMA_CM_EVENT_DISCONNECTED, 0);
		if (e != NULL)
			event_private(e, &m->private);
		break;
	case SOFTROCE_CM_RESOLVED:
		on_resolved(id, m);
		break;
	case SOFTROCE_CM_GONE:
		id->cm = 0;
		if (id->connected && !datagrams(id))
			e = event_new(id, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
		break;
	}
	event_queue(e);
}

/* on_event takes an event of the agent, in the thread of the context. NULL: the agent has ended. */
void on_event(void *device, const struct softroce_cm_event *m)
{
	struct device *d = device;
	pthread_mutex_lock(&lock);
	if (m == NULL) {
		device_ended(d);
	} else if (m->kind == SOFTROCE_CM_REQUEST || m->kind == SOFTROCE_CM_RESOLVE_REQUEST) {
		on_request(d, m);
	} else if (d->starting > 0 && id_find(d, m->id) == NULL) {
		early_add(d, m);
	} else {
		event_of(d, m);
	}
	pthread_mutex_unlock(&lock);
}

/* complete_connection makes the event of a response the one of an established connection: the library has the queue pair. */
void complete_connection(struct event *e)
{
	struct id *id = to_id(e->rdma.id);
	struct softroce_cm_call m = {.id = cm_of(id)};
	int error = to_rts(id);
	if (error == 0)
		error = ready(id);
	else
		device_call(id->device, SOFTROCE_MSG_CM_REJECT, &m, sizeof m);
	pthread_mutex_lock(&lock);
	id->failed = error != 0;
	pthread_mutex_unlock(&lock);
	if (error != 0)
		to_error(id);
	e->rdma.event = error == 0 ? RDMA_CM_EVENT_ESTABLISHED : RDMA_CM_EVENT_CONNECT_ERROR;
	e->rdma.status = -error;
}
