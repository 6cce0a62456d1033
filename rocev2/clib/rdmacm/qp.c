/* SPDX-License-Identifier: Apache-2.0 */
/* Queue pairs and shared receive queues of ids, with completion queues for programs that bring none. */
#include <string.h>

#include "rdmacm.h"

/* domain is the protection domain of an id: that of the program, or its own. NULL: errno is set. */
static struct ibv_pd *domain(struct rdma_cm_id *id, struct ibv_pd *pd)
{
	if (pd == NULL)
		pd = id->pd;
	if (id->verbs != NULL && pd != NULL && pd->context == id->verbs)
		return pd;
	errno = EINVAL;
	return NULL;
}

/* make_cq makes a completion queue with a channel. It returns 0 or errno. */
static int make_cq(struct rdma_cm_id *id, uint32_t entries, struct ibv_comp_channel **channel, struct ibv_cq **cq)
{
	*channel = ibv_create_comp_channel(id->verbs);
	if (*channel == NULL)
		return errno;
	*cq = ibv_create_cq(id->verbs, entries > 0 ? (int)entries : 1, id, *channel, 0);
	if (*cq != NULL)
		return 0;
	int error = errno;
	ibv_destroy_comp_channel(*channel);
	*channel = NULL;
	return error;
}

static void drop_cq(struct ibv_comp_channel **channel, struct ibv_cq **cq)
{
	if (*cq != NULL)
		ibv_destroy_cq(*cq);
	if (*channel != NULL)
		ibv_destroy_comp_channel(*channel);
	*cq = NULL;
	*channel = NULL;
}

static void drop_cqs(struct rdma_cm_id *id)
{
	drop_cq(&id->send_cq_channel, &id->send_cq);
	drop_cq(&id->recv_cq_channel, &id->recv_cq);
}

/* make_cqs makes the completion queues that the program has not given. It returns 0 or errno. */
static int make_cqs(struct rdma_cm_id *id, struct ibv_qp_init_attr_ex *a)
{
	int error = 0;
	if (a->send_cq == NULL)
		error = make_cq(id, a->cap.max_send_wr, &id->send_cq_channel, &id->send_cq);
	if (error == 0 && a->recv_cq == NULL)
		error = make_cq(id, a->cap.max_recv_wr, &id->recv_cq_channel, &id->recv_cq);
	if (error != 0) {
		drop_cqs(id);
		return error;
	}
	if (a->send_cq == NULL)
		a->send_cq = id->send_cq;
	if (a->recv_cq == NULL)
		a->recv_cq = id->recv_cq;
	return 0;
}

/* begin brings a new queue pair to the state in which receives are posted; that of datagrams to RTS. It returns 0 or errno. */
static int begin(struct rdma_cm_id *id, struct ibv_qp *qp)
{
	enum ibv_qp_state last = id->qp_type == IBV_QPT_UD ? IBV_QPS_RTS : IBV_QPS_INIT;
	for (enum ibv_qp_state s = IBV_QPS_INIT; s <= last; s++) {
		struct ibv_qp_attr a = {.qp_state = s};
		int mask;
		if (rdma_init_qp_attr(id, &a, &mask) != 0)
			return errno;
		int error = ibv_modify_qp(qp, &a, mask);
		if (error != 0)
			return error;
	}
	return 0;
}

EXPORT int rdma_create_qp_ex(struct rdma_cm_id *rdma, struct ibv_qp_init_attr_ex *a)
{
	struct ibv_pd *pd = domain(rdma, (a->comp_mask & IBV_QP_INIT_ATTR_PD) != 0 ? a->pd : NULL);
	if (pd == NULL)
		return -1;
	if (rdma->qp != NULL)
		return failed(EINVAL);
	a->comp_mask |= IBV_QP_INIT_ATTR_PD;
	a->pd = pd;
	if (rdma->srq != NULL && a->srq == NULL)
		a->srq = rdma->srq;
	int error = make_cqs(rdma, a);
	if (error != 0)
		return failed(error);
	struct ibv_qp *qp = ibv_create_qp_ex(rdma->verbs, a);
	if (qp == NULL) {
		error = errno;
		drop_cqs(rdma);
		return failed(error);
	}
	rdma->qp_type = a->qp_type;
	error = begin(rdma, qp);
	if (error != 0) {
		ibv_destroy_qp(qp);
		drop_cqs(rdma);
		return failed(error);
	}
	rdma->pd = pd;
	rdma->qp = qp;
	return 0;
}

EXPORT int rdma_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *a)
{
	struct ibv_qp_init_attr_ex x = {
		.qp_context = a->qp_context, .send_cq = a->send_cq, .recv_cq = a->recv_cq, .srq = a->srq, .cap = a->cap, .qp_type = a->qp_type,
		.sq_sig_all = a->sq_sig_all, .comp_mask = pd != NULL ? IBV_QP_INIT_ATTR_PD : 0, .pd = pd,
	};
	if (rdma_create_qp_ex(id, &x) != 0)
		return -1;
	a->send_cq = x.send_cq;
	a->recv_cq = x.recv_cq;
	a->srq = x.srq;
	a->cap = x.cap;
	return 0;
}

EXPORT void rdma_destroy_qp(struct rdma_cm_id *id)
{
	if (id->qp == NULL)
		return;
	ibv_destroy_qp(id->qp);
	drop_cqs(id);
	id->qp = NULL;
}

EXPORT int rdma_create_srq_ex(struct rdma_cm_id *id, struct ibv_srq_init_attr_ex *a)
{
	bool basic = (a->comp_mask & IBV_SRQ_INIT_ATTR_TYPE) == 0 || a->srq_type == IBV_SRQT_BASIC;
	struct ibv_pd *pd = domain(id, (a->comp_mask & IBV_SRQ_INIT_ATTR_PD) != 0 ? a->pd : NULL);
	if (pd == NULL)
		return -1;
	if (!basic)
		return unsupported("rdma_create_srq_ex of a type other than IBV_SRQT_BASIC");
	if (id->srq != NULL)
		return failed(EINVAL);
	struct ibv_srq_init_attr plain = {.srq_context = a->srq_context, .attr = a->attr};
	id->srq = ibv_create_srq(pd, &plain);
	if (id->srq == NULL)
		return -1;
	a->attr = plain.attr;
	id->pd = pd;
	return 0;
}

EXPORT int rdma_create_srq(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_srq_init_attr *a)
{
	struct ibv_srq_init_attr_ex x = {.srq_context = a->srq_context, .attr = a->attr, .comp_mask = pd != NULL ? IBV_SRQ_INIT_ATTR_PD : 0, .pd = pd};
	if (rdma_create_srq_ex(id, &x) != 0)
		return -1;
	a->attr = x.attr;
	return 0;
}

EXPORT void rdma_destroy_srq(struct rdma_cm_id *id)
{
	if (id->srq != NULL)
		ibv_destroy_srq(id->srq);
	id->srq = NULL;
}
