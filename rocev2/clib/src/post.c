/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Posting of work requests. A send entry is written to qp.entry, checked as a whole, and then copied to the ring;
 * ibv_post_send and ibv_wr_* (post_ex.c) use the same functions. The caller has the lock of the queue.
 */
#define _GNU_SOURCE
#include <endian.h>
#include <string.h>

#include "softroce.h"

#define MAX_MESSAGE ((uint64_t)1 << 31) /* bytes (IBTA 9.7.4.1) */
#define MAX_DATAGRAM 4096               /* bytes: the largest PMTU */

/* has reports whether a service has an operation (IBTA 9.1). */
static bool has(uint8_t service, unsigned op)
{
	switch (op) {
	case SOFTROCE_OP_SEND:
	case SOFTROCE_OP_SEND_IMM:
		return true;
	case SOFTROCE_OP_WRITE:
	case SOFTROCE_OP_WRITE_IMM:
	case SOFTROCE_OP_LOCAL_INV:
	case SOFTROCE_OP_BIND_WINDOW:
		return service != SOFTROCE_QPT_UD;
	}
	return service == SOFTROCE_QPT_RC;
}

/* entry_begin begins an entry without data. flags are those of ibv_send_flags. */
int entry_begin(struct qp *q, unsigned op, uint64_t wr_id, unsigned flags)
{
	struct entry *e = &q->entry;
	e->open = e->has_ah = false;
	if (!has(q->service, op) || (flags & ~(unsigned)(IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED | IBV_SEND_INLINE)) != 0)
		return EINVAL;
	memset(e->bytes, 0, SOFTROCE_WQE_BYTES);
	e->open = true;
	e->length = 0;
	e->mw = NULL;
	e->size = SOFTROCE_WQE_BYTES;
	softroce_wqe_set_opcode(e->bytes, op);
	softroce_wqe_set_wr_id(e->bytes, wr_id);
	softroce_wqe_set_signaled(e->bytes, q->signal_all || (flags & IBV_SEND_SIGNALED) != 0);
	softroce_wqe_set_solicited(e->bytes, (flags & IBV_SEND_SOLICITED) != 0);
	softroce_wqe_set_fence(e->bytes, (flags & IBV_SEND_FENCE) != 0);
	return 0;
}

static void set_elements(uint8_t *to, const struct ibv_sge *sge, size_t n)
{
	for (size_t i = 0; i < n; i++, to += SOFTROCE_SGE_BYTES) {
		softroce_sge_set_addr(to, sge[i].addr);
		softroce_sge_set_length(to, sge[i].length);
		softroce_sge_set_lkey(to, sge[i].lkey);
	}
}

/* entry_elements sets the list of an entry. */
int entry_elements(struct qp *q, const struct ibv_sge *sge, size_t n)
{
	struct entry *e = &q->entry;
	if (n > q->cap.max_send_sge)
		return EINVAL;
	e->length = 0;
	for (size_t i = 0; i < n; i++)
		e->length += sge[i].length;
	set_elements(e->bytes + SOFTROCE_WQE_BYTES, sge, n);
	softroce_wqe_set_inline(e->bytes, 0);
	e->size = SOFTROCE_WQE_BYTES + (uint32_t)n * SOFTROCE_SGE_BYTES;
	softroce_wqe_set_count(e->bytes, n);
	return 0;
}

/* entry_inline appends inline data. */
int entry_inline(struct qp *q, const void *data, size_t n)
{
	struct entry *e = &q->entry;
	if (!softroce_wqe_inline(e->bytes)) { /* instead of a list */
		e->length = 0;
		e->size = SOFTROCE_WQE_BYTES;
	}
	if (n > q->cap.max_inline_data - e->length)
		return EINVAL;
	if (n > 0)
		memcpy(e->bytes + e->size, data, n);
	e->size += (uint32_t)n;
	e->length += n;
	softroce_wqe_set_inline(e->bytes, 1);
	softroce_wqe_set_count(e->bytes, e->length);
	return 0;
}

/* entry_address sets the destination of a datagram. */
int entry_address(struct qp *q, struct ibv_ah *ah, uint32_t qpn, uint32_t qkey)
{
	struct entry *e = &q->entry;
	if (ah == NULL || !same_pd(ah->pd, q->ibv.pd) || qpn >> 24 != 0)
		return EINVAL;
	e->has_ah = true;
	e->ah_pmtu = ((struct ah *)ah)->pmtu;
	softroce_wqe_ud_set_ah(e->bytes, ah->handle);
	softroce_wqe_ud_set_dest_qpn(e->bytes, qpn);
	softroce_wqe_ud_set_dest_qkey(e->bytes, qkey);
	return 0;
}

/* entry_bind sets the window of a bind. The lower 8 bits of rkey are those of the new key. */
int entry_bind(struct qp *q, struct ibv_mw *mw, uint32_t rkey, const struct ibv_mw_bind_info *info)
{
	uint8_t *b = q->entry.bytes;
	if (mw == NULL || !same_pd(mw->pd, q->ibv.pd) || (info->mr == NULL && info->length != 0))
		return EINVAL;
	softroce_wqe_bind_set_bind_addr(b, info->addr);
	softroce_wqe_bind_set_bind_bytes(b, info->length);
	softroce_wqe_bind_set_window_key(b, mw->rkey);
	softroce_wqe_bind_set_region_key(b, info->mr != NULL ? info->mr->lkey : 0);
	softroce_wqe_bind_set_new_key(b, rkey & 0xff);
	softroce_wqe_bind_set_allow_write(b, (info->mw_access_flags & IBV_ACCESS_REMOTE_WRITE) != 0);
	softroce_wqe_bind_set_allow_read(b, (info->mw_access_flags & IBV_ACCESS_REMOTE_READ) != 0);
	softroce_wqe_bind_set_allow_atomic(b, (info->mw_access_flags & IBV_ACCESS_REMOTE_ATOMIC) != 0);
	softroce_wqe_bind_set_zero_based(b, (info->mw_access_flags & IBV_ACCESS_ZERO_BASED) != 0);
	q->entry.mw = mw;
	q->entry.new_key = rkey & 0xff;
	return 0;
}

/* check_length checks the length of a message against its operation and the path. */
static int check_length(struct qp *q, unsigned op)
{
	struct entry *e = &q->entry;
	uint64_t limit = MAX_MESSAGE;
	if (q->service == SOFTROCE_QPT_UD) {
		if (!e->has_ah || softroce_wqe_fence(e->bytes))
			return EINVAL;
		limit = q->pmtu != 0 ? q->pmtu : MAX_DATAGRAM;
		if (e->ah_pmtu != 0 && e->ah_pmtu < limit)
			limit = e->ah_pmtu;
	}
	if (e->length > limit)
		return EINVAL;
	if (op == SOFTROCE_OP_COMPARE_SWAP || op == SOFTROCE_OP_FETCH_ADD || op == SOFTROCE_OP_READ) {
		if (softroce_wqe_inline(e->bytes) || (op != SOFTROCE_OP_READ && e->length != 8))
			return EINVAL;
		if (q->max_rd_atomic == 0 && qp_state(q) != SOFTROCE_STATE_ERR) /* in ERR it is only flushed */
			return EINVAL;
	}
	return 0;
}

/* entry_commit copies the entry to the ring. The agent does not see it before ring_doorbell. */
int entry_commit(struct qp *q)
{
	struct entry *e = &q->entry;
	unsigned state = qp_state(q);
	if (!e->open)
		return EINVAL;
	e->open = false;
	if (state < SOFTROCE_STATE_RTS)
		return EINVAL;
	int error = check_length(q, (unsigned)softroce_wqe_opcode(e->bytes));
	if (error == 0)
		error = ring_room(&q->send);
	if (error != 0)
		return error;
	memcpy(ring_entry(&q->send, q->send.next), e->bytes, e->size);
	q->send.next++;
	if (e->mw != NULL)
		e->mw->rkey = (e->mw->rkey & ~0xffu) | e->new_key;
	return 0;
}

static void set_remote(uint8_t *b, uint64_t addr, uint32_t rkey)
{
	softroce_wqe_rdma_set_remote_addr(b, addr);
	softroce_wqe_rdma_set_rkey(b, rkey);
}

/* write_data sets the list or the inline data of a work request. */
static int write_data(struct qp *q, const struct ibv_send_wr *wr)
{
	size_t n = (size_t)wr->num_sge;
	int error = 0;
	if (wr->num_sge < 0)
		return EINVAL;
	if ((wr->send_flags & IBV_SEND_INLINE) == 0)
		return entry_elements(q, wr->sg_list, n);
	if (n == 0)
		return entry_inline(q, NULL, 0);
	for (size_t i = 0; i < n && error == 0; i++)
		error = entry_inline(q, (void *)(uintptr_t)wr->sg_list[i].addr, wr->sg_list[i].length);
	return error;
}

/* write_entry writes the entry of a work request. */
static int write_entry(struct qp *q, const struct ibv_send_wr *wr)
{
	static const uint8_t operations[] = {
		[IBV_WR_RDMA_WRITE] = SOFTROCE_OP_WRITE, [IBV_WR_RDMA_WRITE_WITH_IMM] = SOFTROCE_OP_WRITE_IMM,
		[IBV_WR_SEND] = SOFTROCE_OP_SEND, [IBV_WR_SEND_WITH_IMM] = SOFTROCE_OP_SEND_IMM, [IBV_WR_RDMA_READ] = SOFTROCE_OP_READ,
		[IBV_WR_ATOMIC_CMP_AND_SWP] = SOFTROCE_OP_COMPARE_SWAP, [IBV_WR_ATOMIC_FETCH_AND_ADD] = SOFTROCE_OP_FETCH_ADD,
		[IBV_WR_LOCAL_INV] = SOFTROCE_OP_LOCAL_INV, [IBV_WR_BIND_MW] = SOFTROCE_OP_BIND_WINDOW,
		[IBV_WR_SEND_WITH_INV] = SOFTROCE_OP_SEND_INV,
	};
	unsigned op = wr->opcode;
	if (op >= sizeof operations)
		return unsupported("ibv_post_send with TSO, ATOMIC WRITE or an operation of a vendor");
	uint8_t *b = q->entry.bytes;
	int error = entry_begin(q, operations[op], wr->wr_id, wr->send_flags);
	if (error == 0 && op != IBV_WR_BIND_MW && op != IBV_WR_LOCAL_INV)
		error = write_data(q, wr);
	if (error != 0)
		return error;
	switch (op) {
	case IBV_WR_SEND_WITH_IMM:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		softroce_wqe_set_immediate(b, be32toh(wr->imm_data));
		break;
	case IBV_WR_SEND_WITH_INV:
	case IBV_WR_LOCAL_INV:
		softroce_wqe_set_immediate(b, wr->invalidate_rkey);
		break;
	case IBV_WR_BIND_MW:
		return entry_bind(q, wr->bind_mw.mw, wr->bind_mw.rkey, &wr->bind_mw.bind_info);
	}
	if (q->service == SOFTROCE_QPT_UD)
		return entry_address(q, wr->wr.ud.ah, wr->wr.ud.remote_qpn, wr->wr.ud.remote_qkey);
	if (op == IBV_WR_RDMA_WRITE || op == IBV_WR_RDMA_WRITE_WITH_IMM || op == IBV_WR_RDMA_READ)
		set_remote(b, wr->wr.rdma.remote_addr, wr->wr.rdma.rkey);
	if (op == IBV_WR_ATOMIC_CMP_AND_SWP || op == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		set_remote(b, wr->wr.atomic.remote_addr, wr->wr.atomic.rkey);
		softroce_wqe_rdma_set_compare(b, op == IBV_WR_ATOMIC_CMP_AND_SWP ? wr->wr.atomic.compare_add : 0);
		softroce_wqe_rdma_set_swap_add(b, op == IBV_WR_ATOMIC_CMP_AND_SWP ? wr->wr.atomic.swap : wr->wr.atomic.compare_add);
	}
	return 0;
}

/* post_send posts a list of work requests, up to the first that is refused. */
int post_send(struct ibv_qp *ibv, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct qp *q = to_qp(ibv);
	struct context *c = to_context(ibv->context);
	int error = 0;
	if (gone(c) != ALIVE) {
		*bad = wr;
		return failed(EIO);
	}
	pthread_mutex_lock(&q->send_lock);
	uint32_t first = q->send.next;
	for (; wr != NULL && error == 0; wr = error == 0 ? wr->next : wr) {
		error = write_entry(q, wr);
		if (error == 0)
			error = entry_commit(q);
	}
	if (q->send.next != first)
		ring_doorbell(&c->doorbell, c->status_page, &q->send);
	pthread_mutex_unlock(&q->send_lock);
	if (error != 0) {
		*bad = wr;
		errno = error;
	}
	return error;
}

/* post_list writes a list of receives to a ring, up to the first that is refused. The caller has the lock of the ring. */
static int post_list(struct context *c, struct ring *r, uint32_t max_sge, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	uint8_t b[SOFTROCE_RING_MAX_ENTRY_BYTES];
	uint32_t first = r->next;
	int error = 0;
	for (; wr != NULL; wr = wr->next) {
		uint32_t n = (uint32_t)wr->num_sge;
		error = wr->num_sge < 0 || n > max_sge ? EINVAL : ring_room(r);
		if (error != 0) {
			*bad = wr;
			errno = error;
			break;
		}
		memset(b, 0, SOFTROCE_WQE_RECV_BYTES);
		softroce_wqe_recv_set_wr_id(b, wr->wr_id);
		softroce_wqe_recv_set_count(b, n);
		set_elements(b + SOFTROCE_WQE_RECV_BYTES, wr->sg_list, n);
		memcpy(ring_entry(r, r->next), b, SOFTROCE_WQE_RECV_BYTES + n * SOFTROCE_SGE_BYTES);
		r->next++;
	}
	if (r->next != first)
		ring_doorbell(&c->doorbell, c->status_page, r);
	return error;
}

int post_recv(struct ibv_qp *ibv, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct qp *q = to_qp(ibv);
	struct context *c = to_context(ibv->context);
	int error = gone(c) != ALIVE ? EIO : ibv->srq != NULL || qp_state(q) == SOFTROCE_STATE_RESET ? EINVAL : 0;
	if (error != 0) {
		*bad = wr;
		return failed(error);
	}
	pthread_mutex_lock(&q->recv_lock);
	error = post_list(c, &q->recv, q->cap.max_recv_sge, wr, bad);
	pthread_mutex_unlock(&q->recv_lock);
	return error;
}

int post_srq_recv(struct ibv_srq *ibv, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct srq *s = to_srq(ibv);
	struct context *c = to_context(ibv->context);
	if (gone(c) != ALIVE) {
		*bad = wr;
		return failed(EIO);
	}
	pthread_mutex_lock(&s->lock);
	int error = post_list(c, &s->ring, s->attr.max_sge, wr, bad);
	pthread_mutex_unlock(&s->lock);
	return error;
}
