/* SPDX-License-Identifier: Apache-2.0 */
/* Queue pairs: creation, states and attributes. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "softroce.h"

/* Remote rights, which the attributes of a queue pair have. Programs set IBV_ACCESS_LOCAL_WRITE too, which means nothing there. */
#define REMOTE_ACCESS (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)

/* Operations of a service that ibv_wr_* has (IBTA 9.1). */
#define UD_OPERATIONS (IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM)
#define UC_OPERATIONS \
	(UD_OPERATIONS | IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_BIND_MW)
#define RC_OPERATIONS \
	(UC_OPERATIONS | IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | \
	 IBV_QP_EX_WITH_SEND_WITH_INV)

static void link_qp(struct context *c, struct qp *q)
{
	pthread_mutex_lock(&c->lock);
	q->next = c->qps;
	c->qps = q;
	pthread_mutex_unlock(&c->lock);
}

/* use counts a queue pair at its completion queues and its domain, which cannot be destroyed before it. */
static void use(struct context *c, struct qp *q, int by)
{
	pthread_mutex_lock(&c->lock);
	to_cq(q->ibv.send_cq)->users += (unsigned)by;
	to_cq(q->ibv.recv_cq)->users += (unsigned)by;
	pthread_mutex_unlock(&c->lock);
	pd_use(q->ibv.pd, by);
}

static uint32_t at_least_one(uint32_t n) { return n > 0 ? n : 1; }

/* service_of is the service of a type, or 0. */
static uint8_t service_of(enum ibv_qp_type type)
{
	return type == IBV_QPT_RC ? SOFTROCE_QPT_RC : type == IBV_QPT_UC ? SOFTROCE_QPT_UC : type == IBV_QPT_UD ? SOFTROCE_QPT_UD : 0;
}

/*
 * inline_room is how much inline data an entry has room for: also where the list of elements is otherwise. Programs that ask for
 * none and post inline data as long as one element run on rxe, which does the same.
 */
static uint32_t inline_room(const struct softroce_hello_reply *l, const struct ibv_qp_cap *cap)
{
	uint32_t list = at_least_one(cap->max_send_sge) * SOFTROCE_SGE_BYTES;
	uint32_t n = cap->max_inline_data > list ? cap->max_inline_data : list;
	return n < l->max_inline ? n : l->max_inline;
}

/* request_of checks what a program wants, and makes the request. It returns 0 or errno. */
static int request_of(struct context *c, struct ibv_pd *pd, const struct ibv_qp_init_attr *a, struct softroce_create_qp *m)
{
	const struct ibv_qp_cap *cap = &a->cap;
	const struct softroce_hello_reply *l = &c->limits;
	if (service_of(a->qp_type) == 0)
		return unsupported("ibv_create_qp of a type other than RC, UC and UD");
	if (pd == NULL || a->send_cq == NULL || a->recv_cq == NULL || (a->srq != NULL && a->qp_type == IBV_QPT_UC))
		return EINVAL;
	if (a->send_cq->context != pd->context || a->recv_cq->context != pd->context || (a->srq != NULL && a->srq->context != pd->context))
		return EINVAL;
	if (cap->max_send_wr > l->wr || cap->max_send_sge > l->sge || cap->max_inline_data > l->max_inline)
		return EINVAL;
	if (a->srq == NULL && (cap->max_recv_wr > l->wr || cap->max_recv_sge > l->sge))
		return EINVAL;
	*m = (struct softroce_create_qp){
		.pd = pd->handle,
		.send_cq = a->send_cq->handle,
		.recv_cq = a->recv_cq->handle,
		.srq = a->srq != NULL ? a->srq->handle : 0,
		.max_send = at_least_one(cap->max_send_wr),
		.max_recv = a->srq != NULL ? 1 : at_least_one(cap->max_recv_wr),
		.max_send_sge = at_least_one(cap->max_send_sge),
		.max_recv_sge = a->srq != NULL ? 1 : at_least_one(cap->max_recv_sge),
		.max_inline = inline_room(l, cap),
		.type = service_of(a->qp_type),
		.signal_all = a->sq_sig_all != 0,
	};
	return 0;
}

/* map_queues maps the rings of a reply. It returns 0 or errno. */
static int map_queues(struct qp *q, const struct softroce_create_qp *m, const struct softroce_create_qp_reply *r, int fd)
{
	uint32_t data = m->max_send_sge * SOFTROCE_SGE_BYTES;
	size_t send = shape_bytes(r->send, m->max_send, SOFTROCE_WQE_BYTES + (m->max_inline > data ? m->max_inline : data)), recv = 0;
	if (m->srq == 0) {
		recv = shape_bytes(r->recv, m->max_recv, SOFTROCE_WQE_RECV_BYTES + m->max_recv_sge * SOFTROCE_SGE_BYTES);
		if (recv == 0)
			return EPROTO;
	}
	int error = send == 0 ? EPROTO : map_rings(fd, r->offset, send + recv, &q->map);
	if (error != 0)
		return error;
	ring_init(&q->send, q->map.at, r->send, m->max_send, r->send_queue);
	if (recv != 0)
		ring_init(&q->recv, q->map.at + send, r->recv, m->max_recv, r->recv_queue);
	return 0;
}

static struct qp *qp_create(struct ibv_pd *pd, const struct ibv_qp_init_attr *a)
{
	struct context *c = to_context(pd->context);
	struct softroce_create_qp m;
	struct softroce_create_qp_reply r;
	int fd, error = request_of(c, pd, a, &m);
	if (error != 0)
		return fail(error);
	struct qp *q = calloc(1, sizeof *q);
	if (q == NULL)
		return NULL;
	error = call(c, (struct message){.type = SOFTROCE_MSG_CREATE_QP, BODY(m)}, (struct answer){BODY(r), .fd = &fd});
	if (error != 0) {
		free(q);
		return fail(error);
	}
	error = map_queues(q, &m, &r, fd);
	close(fd);
	if (error != 0) {
		call_handle(c, SOFTROCE_MSG_DESTROY_QP, r.handle);
		free(q);
		return fail(error);
	}
	q->service = m.type;
	q->signal_all = m.signal_all;
	q->port = 1;
	q->cap = (struct ibv_qp_cap){m.max_send, a->srq != NULL ? 0 : m.max_recv, m.max_send_sge, a->srq != NULL ? 0 : m.max_recv_sge, m.max_inline};
	q->init = *a;
	q->init.cap = q->cap;
	q->ibv = (struct ibv_qp){
		.context = pd->context, .qp_context = a->qp_context, .pd = pd, .send_cq = a->send_cq, .recv_cq = a->recv_cq, .srq = a->srq,
		.handle = r.handle, .qp_num = r.qpn, .state = IBV_QPS_RESET, .qp_type = a->qp_type,
	};
	pthread_mutex_init(&q->ibv.mutex, NULL);
	pthread_cond_init(&q->ibv.cond, NULL);
	pthread_mutex_init(&q->send_lock, NULL);
	pthread_mutex_init(&q->recv_lock, NULL);
	use(c, q, 1);
	link_qp(c, q);
	return q;
}

EXPORT struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *a)
{
	struct qp *q = qp_create(pd, a);
	if (q == NULL)
		return NULL;
	a->cap = q->cap;
	return &q->ibv;
}

struct ibv_qp *create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *a)
{
	const uint32_t known = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	const uint64_t operations[] = {[SOFTROCE_QPT_RC] = RC_OPERATIONS, [SOFTROCE_QPT_UC] = UC_OPERATIONS, [SOFTROCE_QPT_UD] = UD_OPERATIONS};
	bool extended = (a->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) != 0;
	if ((a->comp_mask & IBV_QP_INIT_ATTR_PD) == 0 || a->pd == NULL || a->pd->context != context)
		return fail(EINVAL);
	if ((a->comp_mask & ~known) != 0 || ((a->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS) != 0 && a->create_flags != 0))
		return fail(unsupported("ibv_create_qp_ex with create flags, TSO, RSS or XRC"));
	if (extended && (a->send_ops_flags & ~operations[service_of(a->qp_type)]) != 0)
		return fail(unsupported("ibv_create_qp_ex with an operation that the service does not have"));
	/* The first fields of both structures are the same (verbs.h casts them too). */
	struct qp *q = qp_create(a->pd, (struct ibv_qp_init_attr *)a);
	if (q == NULL)
		return NULL;
	a->cap = q->cap;
	if (extended)
		post_ex_init(q);
	return &q->ibv;
}

EXPORT struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *qp)
{
	return to_qp(qp)->extended ? &to_qp(qp)->ex : NULL;
}

/* qp_state is the state that the agent shows. A value that is no state is taken for ERR. */
unsigned qp_state(struct qp *q)
{
	uint32_t state = __atomic_load_n(ring_word(&q->send, SOFTROCE_RING_STATE_AT), __ATOMIC_ACQUIRE);
	return state <= SOFTROCE_STATE_ERR ? state : SOFTROCE_STATE_ERR;
}

/* The attributes of both sides that have one number each. */
static const struct {
	int ibv;
	uint32_t agent;
} masks[] = {
	{IBV_QP_STATE, SOFTROCE_MASK_STATE}, {IBV_QP_ACCESS_FLAGS, SOFTROCE_MASK_ACCESS}, {IBV_QP_QKEY, SOFTROCE_MASK_QKEY},
	{IBV_QP_AV, SOFTROCE_MASK_AV}, {IBV_QP_PATH_MTU, SOFTROCE_MASK_PMTU}, {IBV_QP_TIMEOUT, SOFTROCE_MASK_TIMEOUT},
	{IBV_QP_RETRY_CNT, SOFTROCE_MASK_RETRY_CNT}, {IBV_QP_RNR_RETRY, SOFTROCE_MASK_RNR_RETRY}, {IBV_QP_RQ_PSN, SOFTROCE_MASK_RQPSN},
	{IBV_QP_MAX_QP_RD_ATOMIC, SOFTROCE_MASK_MAX_RD_ATOMIC}, {IBV_QP_MIN_RNR_TIMER, SOFTROCE_MASK_MIN_RNR_TIMER},
	{IBV_QP_SQ_PSN, SOFTROCE_MASK_SQPSN}, {IBV_QP_MAX_DEST_RD_ATOMIC, SOFTROCE_MASK_MAX_DEST_RD_ATOMIC},
	{IBV_QP_DEST_QPN, SOFTROCE_MASK_DEST_QPN},
};

/* Attributes that the library itself checks: the device has one port, one P_Key and no alternate path. */
#define CHECKED \
	(IBV_QP_CUR_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_PATH_MIG_STATE)

/* check_attr checks the attributes that the agent does not get. */
static int check_attr(struct qp *q, const struct ibv_qp_attr *a, int mask)
{
	int rest = mask & ~CHECKED;
	for (size_t i = 0; i < sizeof masks / sizeof *masks; i++)
		rest &= ~masks[i].ibv;
	if ((mask & IBV_QP_ALT_PATH) != 0)
		return unsupported("ibv_modify_qp with an alternate path");
	if ((mask & IBV_QP_CAP) != 0)
		return unsupported("ibv_modify_qp with other capacities");
	if (rest != 0)
		return EINVAL;
	if ((mask & IBV_QP_STATE) != 0 && a->qp_state > IBV_QPS_ERR)
		return EINVAL;
	if ((mask & IBV_QP_CUR_STATE) != 0 && (unsigned)a->cur_qp_state != qp_state(q))
		return EINVAL;
	if ((mask & IBV_QP_PKEY_INDEX) != 0 && a->pkey_index != 0)
		return EINVAL;
	if ((mask & IBV_QP_PORT) != 0 && a->port_num != 1)
		return EINVAL;
	if ((mask & IBV_QP_PATH_MTU) != 0 && (a->path_mtu < IBV_MTU_256 || a->path_mtu > IBV_MTU_4096)) /* the agent gets 8 bits of it */
		return EINVAL;
	if ((mask & IBV_QP_PATH_MIG_STATE) != 0 && a->path_mig_state != IBV_MIG_MIGRATED)
		return unsupported("ibv_modify_qp with path migration");
	return 0;
}

EXPORT int ibv_modify_qp(struct ibv_qp *ibv, struct ibv_qp_attr *a, int mask)
{
	struct qp *q = to_qp(ibv);
	struct context *c = to_context(ibv->context);
	int error = gone(c) != ALIVE ? EIO : check_attr(q, a, mask);
	if (error != 0)
		return failed(error);
	struct softroce_modify_qp m = {.handle = ibv->handle};
	m.attr = (struct softroce_attr){
		.state = (uint8_t)a->qp_state, .pmtu = (uint8_t)a->path_mtu, .access = (uint8_t)(a->qp_access_flags & REMOTE_ACCESS),
		.max_rd_atomic = a->max_rd_atomic, .max_dest_rd_atomic = a->max_dest_rd_atomic, .min_rnr_timer = a->min_rnr_timer,
		.timeout = a->timeout, .retry_cnt = a->retry_cnt, .rnr_retry = a->rnr_retry, .dest_qpn = a->dest_qp_num, .qkey = a->qkey,
		.sqpsn = a->sq_psn & 0xffffff, .rqpsn = a->rq_psn & 0xffffff, /* programs set 32 bits, of which 24 count */
	};
	for (size_t i = 0; i < sizeof masks / sizeof *masks; i++) {
		if ((mask & masks[i].ibv) != 0)
			m.mask |= masks[i].agent;
	}
	if ((mask & IBV_QP_AV) != 0 && (error = address_vector(c, &a->ah_attr, &m.attr.av)) != 0)
		return failed(error);
	if (m.mask == 0)
		return 0;
	bool waits = (m.mask & SOFTROCE_MASK_AV) != 0;
	error = call(c, (struct message){.type = SOFTROCE_MSG_MODIFY_QP, BODY(m), .waits = waits}, (struct answer){0});
	if (error != 0)
		return error;
	pthread_mutex_lock(&q->send_lock);
	if ((mask & IBV_QP_STATE) != 0) {
		ibv->state = a->qp_state;
		if (a->qp_state == IBV_QPS_RESET)
			q->pmtu = q->max_rd_atomic = 0;
	}
	if ((mask & IBV_QP_PATH_MTU) != 0)
		q->pmtu = 128u << a->path_mtu;
	if ((mask & IBV_QP_MAX_QP_RD_ATOMIC) != 0)
		q->max_rd_atomic = a->max_rd_atomic;
	if ((mask & IBV_QP_AV) != 0)
		q->sgid_index = a->ah_attr.grh.sgid_index;
	pthread_mutex_unlock(&q->send_lock);
	return 0;
}

/* ibv_query_qp returns all attributes, also those that mask does not name. */
EXPORT int ibv_query_qp(struct ibv_qp *ibv, struct ibv_qp_attr *a, int mask, struct ibv_qp_init_attr *init)
{
	struct qp *q = to_qp(ibv);
	struct context *c = to_context(ibv->context);
	struct softroce_handle m = {ibv->handle};
	struct softroce_attr r;
	(void)mask;
	int error = call(c, (struct message){.type = SOFTROCE_MSG_QUERY_QP, BODY(m)}, (struct answer){BODY(r)});
	if (error != 0)
		return error;
	*a = (struct ibv_qp_attr){
		.qp_state = r.state <= SOFTROCE_STATE_ERR ? (enum ibv_qp_state)r.state : IBV_QPS_ERR,
		.path_mtu = (enum ibv_mtu)r.pmtu, .path_mig_state = IBV_MIG_MIGRATED, .qkey = r.qkey, .rq_psn = r.rqpsn, .sq_psn = r.sqpsn,
		.dest_qp_num = r.dest_qpn, .qp_access_flags = r.access, .cap = q->cap, .max_rd_atomic = r.max_rd_atomic,
		.max_dest_rd_atomic = r.max_dest_rd_atomic, .min_rnr_timer = r.min_rnr_timer, .port_num = q->port, .timeout = r.timeout,
		.retry_cnt = r.retry_cnt, .rnr_retry = r.rnr_retry,
		.sq_draining = r.draining != 0,
	};
	a->cur_qp_state = a->qp_state;
	if (q->service != SOFTROCE_QPT_UD && a->qp_state != IBV_QPS_RESET && a->qp_state != IBV_QPS_INIT) {
		ah_attr_of(c, &r.av, &a->ah_attr);
		a->ah_attr.grh.sgid_index = q->sgid_index;
	}
	ibv->state = a->qp_state;
	*init = q->init;
	return 0;
}

EXPORT int ibv_destroy_qp(struct ibv_qp *ibv)
{
	struct qp *q = to_qp(ibv);
	struct context *c = to_context(ibv->context);
	if (gone(c) == FORKED)
		return failed(EIO);
	int error = call_handle(c, SOFTROCE_MSG_DESTROY_QP, ibv->handle);
	if (error != 0)
		return error;
	use(c, q, -1);
	pthread_mutex_lock(&c->lock);
	struct qp **at = &c->qps;
	while (*at != q)
		at = &(*at)->next;
	*at = q->next;
	async_forget(c, ibv);
	unsigned async = q->async_delivered;
	pthread_mutex_unlock(&c->lock);
	pthread_mutex_lock(&ibv->mutex);
	while (ibv->events_completed != async)
		pthread_cond_wait(&ibv->cond, &ibv->mutex);
	pthread_mutex_unlock(&ibv->mutex);
	unmap_rings(&q->map);
	free(q);
	return 0;
}

EXPORT int ibv_query_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t flags)
{
	(void)qp, (void)op, (void)flags;
	return 0; /* not guaranteed */
}

EXPORT int ibv_query_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	(void)qp;
	*ece = (struct ibv_ece){0}; /* no options */
	return 0;
}

EXPORT int ibv_set_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	(void)qp;
	return ece->vendor_id == 0 && ece->options == 0 && ece->comp_mask == 0 ? 0 : unsupported("ibv_set_ece");
}
