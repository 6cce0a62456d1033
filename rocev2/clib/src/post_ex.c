/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ibv_wr_*: work requests that are built by calls. wr_start takes the lock of the send queue, wr_complete and
 * wr_abort give it back. Each operation ends the entry before it; the first error is the result of wr_complete,
 * and nothing is posted then (man ibv_wr_post).
 * Windows have their first keys again then.
 */
#define _GNU_SOURCE
#include <endian.h>

#include "softroce.h"

static struct qp *of(struct ibv_qp_ex *ex) { return (struct qp *)ex; }

static void keep(struct qp *q, int error)
{
	if (q->error == 0)
		q->error = error;
}

/* remember keeps the key of a window that a bind is about to change. */
static void remember(struct qp *q, struct mw *w)
{
	if (w->changed)
		return;
	w->changed = true;
	w->key_before = w->ibv.rkey;
	w->next = q->changed;
	q->changed = w;
}

/* forget ends the list of windows. If nothing is posted, they have their first keys again. */
static void forget(struct qp *q, bool posted)
{
	for (struct mw *w = q->changed; w != NULL; w = w->next) {
		if (!posted)
			w->ibv.rkey = w->key_before;
		w->changed = false;
	}
	q->changed = NULL;
}

/* commit ends the entry that is open. */
static void commit(struct qp *q)
{
	if (q->error != 0 || !q->entry.open)
		return;
	if (q->entry.mw != NULL)
		remember(q, (struct mw *)q->entry.mw);
	keep(q, entry_commit(q));
}

/* begin begins an entry and returns its bytes. After an error they are not used. */
static uint8_t *begin(struct ibv_qp_ex *ex, unsigned op)
{
	struct qp *q = of(ex);
	commit(q);
	if (q->error == 0)
		keep(q, entry_begin(q, op, ex->wr_id, ex->wr_flags));
	return q->entry.bytes;
}

static void begin_remote(struct ibv_qp_ex *ex, unsigned op, uint32_t rkey, uint64_t addr)
{
	uint8_t *b = begin(ex, op);
	softroce_wqe_rdma_set_remote_addr(b, addr);
	softroce_wqe_rdma_set_rkey(b, rkey);
}

static void begin_immediate(struct ibv_qp_ex *ex, unsigned op, uint32_t immediate)
{
	softroce_wqe_set_immediate(begin(ex, op), immediate);
}

static void wr_atomic_cmp_swp(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr, uint64_t compare, uint64_t swap)
{
	begin_remote(ex, SOFTROCE_OP_COMPARE_SWAP, rkey, addr);
	softroce_wqe_rdma_set_compare(of(ex)->entry.bytes, compare);
	softroce_wqe_rdma_set_swap_add(of(ex)->entry.bytes, swap);
}

static void wr_atomic_fetch_add(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr, uint64_t add)
{
	begin_remote(ex, SOFTROCE_OP_FETCH_ADD, rkey, addr);
	softroce_wqe_rdma_set_swap_add(of(ex)->entry.bytes, add);
}

static void wr_bind_mw(struct ibv_qp_ex *ex, struct ibv_mw *mw, uint32_t rkey, const struct ibv_mw_bind_info *info)
{
	begin(ex, SOFTROCE_OP_BIND_WINDOW);
	if (of(ex)->error == 0)
		keep(of(ex), entry_bind(of(ex), mw, rkey, info));
}

static void wr_local_inv(struct ibv_qp_ex *ex, uint32_t rkey) { begin_immediate(ex, SOFTROCE_OP_LOCAL_INV, rkey); }
static void wr_rdma_read(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr) { begin_remote(ex, SOFTROCE_OP_READ, rkey, addr); }
static void wr_rdma_write(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr) { begin_remote(ex, SOFTROCE_OP_WRITE, rkey, addr); }

static void wr_rdma_write_imm(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr, __be32 imm)
{
	begin_remote(ex, SOFTROCE_OP_WRITE_IMM, rkey, addr);
	softroce_wqe_set_immediate(of(ex)->entry.bytes, be32toh(imm));
}

static void wr_send(struct ibv_qp_ex *ex) { begin(ex, SOFTROCE_OP_SEND); }
static void wr_send_imm(struct ibv_qp_ex *ex, __be32 imm) { begin_immediate(ex, SOFTROCE_OP_SEND_IMM, be32toh(imm)); }
static void wr_send_inv(struct ibv_qp_ex *ex, uint32_t rkey) { begin_immediate(ex, SOFTROCE_OP_SEND_INV, rkey); }

static void wr_send_tso(struct ibv_qp_ex *ex, void *header, uint16_t bytes, uint16_t mss)
{
	(void)header, (void)bytes, (void)mss;
	keep(of(ex), unsupported("ibv_wr_send_tso"));
}

static void wr_set_xrc_srqn(struct ibv_qp_ex *ex, uint32_t srqn)
{
	(void)srqn;
	keep(of(ex), unsupported("ibv_wr_set_xrc_srqn"));
}

static void wr_atomic_write(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr, const void *value)
{
	(void)rkey, (void)addr, (void)value;
	keep(of(ex), unsupported("ibv_wr_atomic_write"));
}

static void wr_set_ud_addr(struct ibv_qp_ex *ex, struct ibv_ah *ah, uint32_t qpn, uint32_t qkey)
{
	keep(of(ex), of(ex)->service == SOFTROCE_QPT_UD ? entry_address(of(ex), ah, qpn, qkey) : EINVAL);
}

static void wr_set_inline_data(struct ibv_qp_ex *ex, void *addr, size_t n)
{
	if (of(ex)->error == 0)
		keep(of(ex), entry_inline(of(ex), addr, n));
}

static void wr_set_inline_data_list(struct ibv_qp_ex *ex, size_t n, const struct ibv_data_buf *list)
{
	for (size_t i = 0; i < n; i++)
		wr_set_inline_data(ex, list[i].addr, list[i].length);
}

static void wr_set_sge_list(struct ibv_qp_ex *ex, size_t n, const struct ibv_sge *list)
{
	if (of(ex)->error == 0)
		keep(of(ex), entry_elements(of(ex), list, n));
}

static void wr_set_sge(struct ibv_qp_ex *ex, uint32_t lkey, uint64_t addr, uint32_t length)
{
	struct ibv_sge sge = {.addr = addr, .length = length, .lkey = lkey};
	wr_set_sge_list(ex, 1, &sge);
}

static void wr_start(struct ibv_qp_ex *ex)
{
	struct qp *q = of(ex);
	int state = gone(to_context(ex->qp_base.context));
	if (state != FORKED)
		pthread_mutex_lock(&q->send_lock);
	q->entry.open = false;
	q->first = q->send.next;
	q->error = state != ALIVE ? EIO : 0;
}

static int wr_complete(struct ibv_qp_ex *ex)
{
	struct qp *q = of(ex);
	struct context *c = to_context(ex->qp_base.context);
	if (gone(c) == FORKED)
		return failed(EIO);
	commit(q);
	int error = q->error;
	if (error != 0) {
		q->send.next = q->first;
		errno = error;
	} else if (q->send.next != q->first) {
		ring_doorbell(&c->doorbell, c->status_page, &q->send);
	}
	forget(q, error == 0);
	pthread_mutex_unlock(&q->send_lock);
	return error;
}

static void wr_abort(struct ibv_qp_ex *ex)
{
	struct qp *q = of(ex);
	if (gone(to_context(ex->qp_base.context)) == FORKED)
		return;
	q->send.next = q->first;
	q->entry.open = false;
	forget(q, false);
	pthread_mutex_unlock(&q->send_lock);
}

/* post_ex_init gives a queue pair the operations. */
void post_ex_init(struct qp *q)
{
	struct ibv_qp_ex *ex = &q->ex;
	q->extended = true;
	ex->wr_atomic_cmp_swp = wr_atomic_cmp_swp;
	ex->wr_atomic_fetch_add = wr_atomic_fetch_add;
	ex->wr_bind_mw = wr_bind_mw;
	ex->wr_local_inv = wr_local_inv;
	ex->wr_rdma_read = wr_rdma_read;
	ex->wr_rdma_write = wr_rdma_write;
	ex->wr_rdma_write_imm = wr_rdma_write_imm;
	ex->wr_send = wr_send;
	ex->wr_send_imm = wr_send_imm;
	ex->wr_send_inv = wr_send_inv;
	ex->wr_send_tso = wr_send_tso;
	ex->wr_set_ud_addr = wr_set_ud_addr;
	ex->wr_set_xrc_srqn = wr_set_xrc_srqn;
	ex->wr_set_inline_data = wr_set_inline_data;
	ex->wr_set_inline_data_list = wr_set_inline_data_list;
	ex->wr_set_sge = wr_set_sge;
	ex->wr_set_sge_list = wr_set_sge_list;
	ex->wr_start = wr_start;
	ex->wr_complete = wr_complete;
	ex->wr_abort = wr_abort;
	ex->wr_atomic_write = wr_atomic_write;
}
