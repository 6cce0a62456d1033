/* SPDX-License-Identifier: Apache-2.0 */
/* Completion queues whose completions are read field by field (ibv_create_cq_ex). */
#define _GNU_SOURCE
#include <sched.h>

#include "softroce.h"

static struct cq *of(struct ibv_cq_ex *ex) { return (struct cq *)ex; }

/* read_next makes the next completion the present one. It returns ENOENT if there is none. The caller has the lock of the queue. */
static int read_next(struct ibv_cq_ex *ex)
{
	struct cq *cq = of(ex);
	int state = gone(to_context(ex->context));
	if (state == FORKED)
		return failed(EIO);
	if (!cq_next(cq, cq->cqe))
		return state == ALIVE ? ENOENT : failed(EIO);
	ex->wr_id = softroce_cqe_wr_id(cq->cqe);
	ex->status = wc_status(cq->cqe);
	return 0;
}

static int start_poll(struct ibv_cq_ex *ex, struct ibv_poll_cq_attr *attr)
{
	if (attr != NULL && attr->comp_mask != 0)
		return failed(EINVAL);
	if (gone(to_context(ex->context)) == FORKED)
		return failed(EIO);
	pthread_mutex_lock(&of(ex)->lock);
	int error = read_next(ex);
	bool yield = should_yield(of(ex), error == 0);
	if (error != 0)
		pthread_mutex_unlock(&of(ex)->lock); /* the program does not call end_poll then */
	if (yield)
		sched_yield();
	return error;
}

static void end_poll(struct ibv_cq_ex *ex)
{
	struct ring *r = &of(ex)->ring;
	if (gone(to_context(ex->context)) == FORKED)
		return;
	__atomic_store_n(ring_word(r, SOFTROCE_RING_CONSUMER_AT), r->next, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&of(ex)->lock);
}

static enum ibv_wc_opcode read_opcode(struct ibv_cq_ex *ex) { return wc_opcode(of(ex)->cqe); }
static uint32_t read_vendor_err(struct ibv_cq_ex *ex) { return (uint32_t)softroce_cqe_status(of(ex)->cqe); }
static uint32_t read_byte_len(struct ibv_cq_ex *ex) { return (uint32_t)softroce_cqe_length(of(ex)->cqe); }
static __be32 read_imm_data(struct ibv_cq_ex *ex) { return wc_imm(of(ex)->cqe); }
static uint32_t read_qp_num(struct ibv_cq_ex *ex) { return (uint32_t)softroce_cqe_qpn(of(ex)->cqe); }
static uint32_t read_src_qp(struct ibv_cq_ex *ex) { return (uint32_t)softroce_cqe_src_qp(of(ex)->cqe); }
static unsigned int read_wc_flags(struct ibv_cq_ex *ex) { return wc_flags(of(ex)->cqe); }
static uint32_t read_slid(struct ibv_cq_ex *ex) { (void)ex; return 0; }
static uint8_t read_sl(struct ibv_cq_ex *ex) { return wc_sl(of(ex)->cqe); }
static uint8_t read_dlid_path_bits(struct ibv_cq_ex *ex) { (void)ex; return 0; }

struct ibv_cq_ex *create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *a)
{
	uint32_t flags = (a->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) != 0 ? a->flags : 0;
	if ((a->comp_mask & ~(uint32_t)(IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD)) != 0)
		return fail(EINVAL);
	if ((a->wc_flags & ~(uint64_t)IBV_WC_STANDARD_FLAGS) != 0)
		return fail(unsupported("ibv_create_cq_ex with time stamps, VLAN, flow tag or tag matching"));
	if ((flags & ~(uint32_t)IBV_CREATE_CQ_ATTR_SINGLE_THREADED) != 0)
		return fail(unsupported("IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN"));
	struct cq *cq = cq_create(context, a->cqe, a->cq_context, a->channel, a->comp_vector);
	if (cq == NULL)
		return NULL;
	cq->ex.start_poll = start_poll;
	cq->ex.next_poll = read_next;
	cq->ex.end_poll = end_poll;
	cq->ex.read_opcode = read_opcode;
	cq->ex.read_vendor_err = read_vendor_err;
	cq->ex.read_byte_len = read_byte_len;
	cq->ex.read_imm_data = read_imm_data;
	cq->ex.read_qp_num = read_qp_num;
	cq->ex.read_src_qp = read_src_qp;
	cq->ex.read_wc_flags = read_wc_flags;
	cq->ex.read_slid = read_slid;
	cq->ex.read_sl = read_sl;
	cq->ex.read_dlid_path_bits = read_dlid_path_bits;
	return &cq->ex;
}
