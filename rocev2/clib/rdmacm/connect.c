/* SPDX-License-Identifier: Apache-2.0 */
/* Connections: requests, answers and ends, and what the states of a queue pair need. */
#define _GNU_SOURCE
#include <string.h>

#include "rdmacm.h"

#define MIN_RNR_TIMER 1 /* 0.01 ms */
#define RETRIES 7       /* of connections without parameters; 7 of RNR NAKs is without end */
#define REMOTE_ACCESS (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)

/* private_of copies private data; NULL: none. */
void private_of(struct softroce_cm_private *p, const void *data, uint8_t bytes)
{
	p->len = data != NULL ? bytes : 0;
	if (p->len > 0)
		memcpy(p->bytes, data, p->len);
}

static uint8_t least(uint8_t a, uint8_t b) { return a < b ? a : b; }

/* step moves the queue pair of an id to a state with the attributes of its path. It returns 0 or errno. */
static int step(struct id *id, enum ibv_qp_state state)
{
	struct ibv_qp_attr a = {.qp_state = state};
	int mask;
	if (rdma_init_qp_attr(&id->rdma, &a, &mask) != 0)
		return errno;
	return ibv_modify_qp(id->rdma.qp, &a, mask);
}

/* to_rts connects the queue pair of an id. It returns 0 or errno. */
int to_rts(struct id *id)
{
	int error = step(id, IBV_QPS_RTR);
	return error != 0 ? error : step(id, IBV_QPS_RTS);
}

/* to_error ends the queue pair of an id: what was posted is flushed. */
void to_error(struct id *id)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_ERR};
	ibv_modify_qp(id->rdma.qp, &a, IBV_QP_STATE);
}

/* rdma_init_qp_attr: the attributes of a connection are known from its request or response on. */
EXPORT int rdma_init_qp_attr(struct rdma_cm_id *rdma, struct ibv_qp_attr *a, int *mask)
{
	struct id *id = to_id(rdma);
	const struct softroce_cm_path *p = &id->path;
	enum ibv_qp_state state = a->qp_state;
	bool rc = rdma->qp_type == IBV_QPT_RC, ud = rdma->qp_type == IBV_QPT_UD;
	if (id->device == NULL || state < IBV_QPS_INIT || state > IBV_QPS_RTS || (!ud && state != IBV_QPS_INIT && p->remote.qpn == 0))
		return failed(EINVAL);
	*a = (struct ibv_qp_attr){
		.qp_state = state, .port_num = 1, .qp_access_flags = REMOTE_ACCESS, .qkey = RDMA_UDP_QKEY, .path_mtu = (enum ibv_mtu)p->attr.pmtu,
		.dest_qp_num = p->remote.qpn, .rq_psn = p->remote.psn, .sq_psn = p->local.psn, .max_rd_atomic = p->attr.max_rd_atomic,
		.max_dest_rd_atomic = p->attr.max_dest_rd_atomic, .min_rnr_timer = MIN_RNR_TIMER, .timeout = p->attr.timeout,
		.retry_cnt = p->attr.retry_cnt, .rnr_retry = p->attr.rnr_retry,
	};
	*mask = IBV_QP_STATE;
	switch (state) {
	case IBV_QPS_INIT:
		*mask |= IBV_QP_PKEY_INDEX | IBV_QP_PORT | (ud ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS);
		return 0;
	case IBV_QPS_RTS:
		*mask |= IBV_QP_SQ_PSN;
		if (rc)
			*mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
		return 0;
	default:
		break;
	}
	if (ud)
		return 0;
	int index = gid_index(rdma->verbs, p->local.addr);
	if (index < 0)
		return failed(EADDRNOTAVAIL); /* the interface has lost it */
	a->ah_attr = (struct ibv_ah_attr){.is_global = 1, .port_num = 1};
	a->ah_attr.grh = (struct ibv_global_route){.sgid_index = (uint8_t)index, .hop_limit = 64, .traffic_class = id->tos};
	memcpy(a->ah_attr.grh.dgid.raw, p->remote.addr, 16);
	*mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	if (rc)
		*mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	return 0;
}

/* resolve asks for the queue pair of datagrams of a service. It returns 0 or errno. */
static int resolve(struct id *id, const struct rdma_conn_param *p)
{
	const struct rdma_addr *a = &id->rdma.route.addr;
	struct softroce_cm_resolve m = {.service = service_of(id, &a->dst_addr), .src_port = address_port(&a->src_addr)};
	memcpy(m.local, a->addr.ibaddr.sgid.raw, 16);
	memcpy(m.peer, a->addr.ibaddr.dgid.raw, 16);
	if (p != NULL)
		private_of(&m.private, p->private_data, p->private_data_len);
	return device_start(id, SOFTROCE_MSG_CM_RESOLVE, &m, sizeof m);
}

/* request asks for a connection. It returns 0 or errno. */
static int request(struct id *id, const struct rdma_conn_param *p)
{
	static const struct rdma_conn_param most = {
		.responder_resources = RDMA_MAX_RESP_RES, .initiator_depth = RDMA_MAX_INIT_DEPTH, .retry_count = RETRIES, .rnr_retry_count = RETRIES,
	};
	const struct rdma_addr *a = &id->rdma.route.addr;
	const struct ibv_qp *qp = id->rdma.qp;
	struct ibv_device_attr limits;
	struct ibv_port_attr port;
	if (p == NULL)
		p = &most;
	int error = ibv_query_device(id->rdma.verbs, &limits);
	if (error == 0)
		error = ibv_query_port(id->rdma.verbs, 1, &port);
	if (error != 0)
		return error;
	struct softroce_cm_connect m = {
		.service = service_of(id, &a->dst_addr), .src_port = address_port(&a->src_addr),
		.type = id->rdma.qp_type == IBV_QPT_UC ? SOFTROCE_QPT_UC : SOFTROCE_QPT_RC, .srq = qp != NULL ? qp->srq != NULL : p->srq,
		.qpn = qp != NULL ? qp->qp_num : p->qp_num, .psn = random_psn(),
	};
	memcpy(m.local, a->addr.ibaddr.sgid.raw, 16);
	memcpy(m.peer, a->addr.ibaddr.dgid.raw, 16);
	m.attr = (struct softroce_attr){
		.pmtu = (uint8_t)port.active_mtu, .access = REMOTE_ACCESS, .min_rnr_timer = MIN_RNR_TIMER, .timeout = id->timeout,
		.max_rd_atomic = least(p->initiator_depth, (uint8_t)limits.max_qp_init_rd_atom),
		.max_dest_rd_atomic = least(p->responder_resources, (uint8_t)limits.max_qp_rd_atom),
		.retry_cnt = least(p->retry_count, 7), .rnr_retry = least(p->rnr_retry_count, 7), .av = {.tclass = id->tos},
	};
	private_of(&m.private, p->private_data, p->private_data_len);
	return device_start(id, SOFTROCE_MSG_CM_CONNECT, &m, sizeof m);
}

EXPORT int rdma_connect(struct rdma_cm_id *rdma, struct rdma_conn_param *param)
{
	struct id *id = to_id(rdma);
	if (ours(id) != 0)
		return -1;
	if (id->device == NULL || cm_of(id) != 0 || !address_usable(&rdma->route.addr.dst_addr))
		return failed(EINVAL);
	int error = rdma->qp_type == IBV_QPT_UD ? resolve(id, param) : request(id, param);
	return error != 0 ? failed(error) : finish(id);
}

/* ready tells the peer that its reply has arrived: both ends are connected. It returns 0 or errno. */
int ready(struct id *id)
{
	struct softroce_cm_call m = {.id = cm_of(id)};
	int error = device_call(id->device, SOFTROCE_MSG_CM_READY, &m, sizeof m);
	pthread_mutex_lock(&lock);
	id->connected = id->connected || error == 0;
	pthread_mutex_unlock(&lock);
	return error;
}

EXPORT int rdma_establish(struct rdma_cm_id *rdma)
{
	struct id *id = to_id(rdma);
	if (id->device == NULL || rdma->qp != NULL) /* the library does it for its own queue pairs */
		return failed(EINVAL);
	return failed(ready(id));
}

/* answer names the queue pair of datagrams that a peer has asked for. It returns 0 or errno. */
static int answer(struct id *id, const struct rdma_conn_param *p)
{
	const struct ibv_qp *qp = id->rdma.qp;
	struct softroce_cm_answer m = {.id = cm_of(id), .qkey = RDMA_UDP_QKEY};
	if (qp == NULL && p == NULL)
		return EINVAL;
	m.qpn = qp != NULL ? qp->qp_num : p->qp_num;
	if (p != NULL)
		private_of(&m.private, p->private_data, p->private_data_len);
	return device_call(id->device, SOFTROCE_MSG_CM_ANSWER, &m, sizeof m);
}

/* accept_request accepts a connection. Its queue pair is in RTS before the peer knows of it. It returns 0 or errno. */
static int accept_request(struct id *id, const struct rdma_conn_param *p)
{
	const struct ibv_qp *qp = id->rdma.qp;
	struct softroce_cm_accept m = {.id = cm_of(id)};
	struct softroce_attr *a = &id->path.attr;
	if (qp == NULL && p == NULL)
		return EINVAL;
	if (p != NULL) {
		a->max_rd_atomic = least(a->max_rd_atomic, p->initiator_depth);
		a->max_dest_rd_atomic = least(a->max_dest_rd_atomic, p->responder_resources);
	}
	id->path.local.qpn = qp != NULL ? qp->qp_num : p->qp_num;
	m.path = id->path;
	if (p != NULL)
		private_of(&m.private, p->private_data, p->private_data_len);
	int error = qp != NULL ? to_rts(id) : 0;
	if (error == 0)
		error = device_call(id->device, SOFTROCE_MSG_CM_ACCEPT, &m, sizeof m);
	if (error != 0 && qp != NULL)
		to_error(id);
	return error;
}

EXPORT int rdma_accept(struct rdma_cm_id *rdma, struct rdma_conn_param *param)
{
	struct id *id = to_id(rdma);
	bool ud = rdma->qp_type == IBV_QPT_UD;
	if (ours(id) != 0)
		return -1;
	pthread_mutex_lock(&lock);
	bool possible = id->cm != 0 && !id->active && !id->accepted;
	id->accepted = id->accepted || possible; /* its events are the program's from now on */
	pthread_mutex_unlock(&lock);
	if (!possible)
		return failed(EINVAL);
	int error = ud ? answer(id, param) : accept_request(id, param);
	if (error == 0)
		return ud ? 0 : finish(id);
	pthread_mutex_lock(&lock);
	id->accepted = false;
	pthread_mutex_unlock(&lock);
	return failed(error);
}

/* about is a call with the number of a connection and private data. It returns 0 or errno. */
static int about(struct id *id, uint16_t type, const void *data, uint8_t bytes)
{
	struct softroce_cm_call m = {.id = cm_of(id)};
	if (id->device == NULL || m.id == 0)
		return EINVAL;
	private_of(&m.private, data, bytes);
	return device_call(id->device, type, &m, sizeof m);
}

EXPORT int rdma_reject(struct rdma_cm_id *id, const void *data, uint8_t bytes)
{
	return failed(about(to_id(id), SOFTROCE_MSG_CM_REJECT, data, bytes));
}

EXPORT int rdma_reject_ece(struct rdma_cm_id *id, const void *data, uint8_t bytes) { return rdma_reject(id, data, bytes); }

EXPORT int rdma_notify(struct rdma_cm_id *rdma, enum ibv_event_type event)
{
	struct id *id = to_id(rdma);
	struct softroce_handle m = {cm_of(id)};
	if (event != IBV_EVENT_COMM_EST || id->device == NULL)
		return failed(EINVAL);
	return failed(device_call(id->device, SOFTROCE_MSG_CM_ARRIVED, &m, sizeof m));
}

/* rdma_disconnect also answers the disconnect of the peer: a connection or an attempt that has ended leaves nothing to wait for. */
EXPORT int rdma_disconnect(struct rdma_cm_id *rdma)
{
	struct id *id = to_id(rdma);
	if (rdma->qp_type == IBV_QPT_UD || id->device == NULL)
		return failed(EINVAL);
	if (rdma->qp != NULL)
		to_error(id);
	pthread_mutex_lock(&lock);
	bool over = id->over;
	pthread_mutex_unlock(&lock);
	if (over)
		return 0;
	int error = about(id, SOFTROCE_MSG_CM_DISCONNECT, NULL, 0);
	if (error == 0)
		return finish(id);
	pthread_mutex_lock(&lock);
	over = id->over || (id->connected && error == EINVAL); /* the end came meanwhile */
	pthread_mutex_unlock(&lock);
	return over ? 0 : failed(error);
}
