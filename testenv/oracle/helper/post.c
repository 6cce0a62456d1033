// SPDX-License-Identifier: Apache-2.0

// Work requests.
#include "judge.h"

#include <arpa/inet.h>
#include <string.h>

static const char *const op_names[] = {
	"send", "send_imm", "send_inv", "write", "write_imm", "read", "cmp_swap", "fetch_add", "local_inv", "bind_mw", NULL,
};
static const uint64_t ops[] = {
	IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, IBV_WR_SEND_WITH_INV, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM,
	IBV_WR_RDMA_READ, IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_LOCAL_INV, IBV_WR_BIND_MW,
};

static int send_flags(struct call *c)
{
	int flags = 0;

	if (number(c, "signaled", 0))
		flags |= IBV_SEND_SIGNALED;
	if (number(c, "solicited", 0))
		flags |= IBV_SEND_SOLICITED;
	if (number(c, "fence", 0))
		flags |= IBV_SEND_FENCE;
	if (number(c, "inline", 0))
		flags |= IBV_SEND_INLINE;
	return flags;
}

// send_request reads a work request; list has room for MAX_SGE.
int send_request(struct call *c, struct ibv_send_wr *wr, struct ibv_sge *list)
{
	struct ibv_ah *ah;

	memset(wr, 0, sizeof(*wr));
	wr->wr_id = number(c, "id", 0);
	wr->opcode = choice(c, "op", op_names, ops);
	wr->sg_list = list;
	wr->num_sge = sges(c, list);
	wr->send_flags = send_flags(c);
	if (has(c, "imm"))
		wr->imm_data = htonl(need(c, "imm"));
	if (has(c, "inv"))
		wr->invalidate_rkey = need(c, "inv");
	ah = optional(c, "ah", AH);
	if (ah) {
		wr->wr.ud.ah = ah;
		wr->wr.ud.remote_qpn = need(c, "rqpn");
		wr->wr.ud.remote_qkey = need(c, "rqkey");
		return !c->error;
	}
	switch (wr->opcode) {
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
	case IBV_WR_RDMA_READ:
		wr->wr.rdma.remote_addr = need(c, "raddr");
		wr->wr.rdma.rkey = need(c, "rkey");
		break;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
		wr->wr.atomic.swap = need(c, "swap");
		/* fall through */
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		wr->wr.atomic.remote_addr = need(c, "raddr");
		wr->wr.atomic.rkey = need(c, "rkey");
		wr->wr.atomic.compare_add = need(c, "compare_add");
		break;
	case IBV_WR_BIND_MW: {
		struct mr *mr = object(c, "mr", MR);

		wr->bind_mw.mw = object(c, "mw", MW);
		wr->bind_mw.bind_info.addr = need(c, "addr");
		wr->bind_mw.bind_info.length = need(c, "len");
		wr->bind_mw.bind_info.mw_access_flags = need(c, "access");
		wr->bind_mw.rkey = need(c, "rkey");
		if (mr)
			wr->bind_mw.bind_info.mr = mr->mr;
		break;
	}
	default:
		break;
	}
	return !c->error;
}

void do_post_send(struct call *c)
{
	struct ibv_qp *qp = object(c, "qp", QP);
	struct ibv_sge list[MAX_SGE];
	struct ibv_send_wr wr, *bad;
	int err;

	send_request(c, &wr, list);
	if (!parsed(c))
		return;
	err = ibv_post_send(qp, &wr, &bad);
	if (err) {
		fail(c, err, "ibv_post_send");
		return;
	}
	// The key of a window of type 2 is for the application to keep; rxe refuses to bind it again
	// under another than the last.
	if (wr.opcode == IBV_WR_BIND_MW)
		wr.bind_mw.mw->rkey = wr.bind_mw.rkey;
}

void do_post_recv(struct call *c)
{
	struct ibv_qp *qp = optional(c, "qp", QP);
	struct ibv_srq *srq = optional(c, "srq", SRQ);
	struct ibv_sge list[MAX_SGE];
	struct ibv_recv_wr wr = {.wr_id = number(c, "id", 0), .sg_list = list}, *bad;
	int err;

	wr.num_sge = sges(c, list);
	if (!qp == !srq)
		fail(c, EINVAL, "give either qp= or srq=");
	if (!parsed(c))
		return;
	err = qp ? ibv_post_recv(qp, &wr, &bad) : ibv_post_srq_recv(srq, &wr, &bad);
	if (err)
		fail(c, err, qp ? "ibv_post_recv" : "ibv_post_srq_recv");
}
