// SPDX-License-Identifier: Apache-2.0

// Queue pairs and their states.
#include "judge.h"

#include <string.h>

static const char *const type_names[] = {"rc", "uc", "ud", NULL};
static const uint64_t types[] = {IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD};

static const char *const state_names[] = {"reset", "init", "rtr", "rts", "sqd", "sqe", "err", NULL};
static const uint64_t states[] = {
	IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS, IBV_QPS_SQD, IBV_QPS_SQE, IBV_QPS_ERR,
};

static const char *const mtu_names[] = {"256", "512", "1024", "2048", "4096", NULL};
static const uint64_t mtus[] = {IBV_MTU_256, IBV_MTU_512, IBV_MTU_1024, IBV_MTU_2048, IBV_MTU_4096};

void do_qp(struct call *c)
{
	struct ibv_pd *pd = object(c, "pd", PD);
	struct cq *send = object(c, "send_cq", CQ), *recv = object(c, "recv_cq", CQ);
	struct ibv_qp_init_attr init = {
		.qp_type = choice(c, "type", type_names, types),
		.srq = optional(c, "srq", SRQ),
		.sq_sig_all = number(c, "signal_all", 0),
		.cap = {
			.max_send_wr = need(c, "send_wr"),
			.max_recv_wr = need(c, "recv_wr"),
			.max_send_sge = number(c, "send_sge", 1),
			.max_recv_sge = number(c, "recv_sge", 1),
			.max_inline_data = number(c, "inline", 0),
		},
	};

	if (!parsed(c))
		return;
	init.send_cq = send->cq;
	init.recv_cq = recv->cq;
	struct ibv_qp *qp = ibv_create_qp(pd, &init);
	if (!qp) {
		fail(c, errno, "ibv_create_qp");
		return;
	}
	uint64_t h = add_object(QP, qp);
	qp->qp_context = (void *)(uintptr_t)h;
	say(c, " qp=%llu qpn=%u send_wr=%u recv_wr=%u inline=%u", (unsigned long long)h, qp->qp_num, init.cap.max_send_wr,
	    init.cap.max_recv_wr, init.cap.max_inline_data);
}

// Each attribute that is given sets its bit of the mask; libibverbs and the driver judge which
// are due.
void do_modify(struct call *c)
{
	struct ibv_qp *qp = object(c, "qp", QP);
	struct ibv_qp_attr a = {0};
	int mask = IBV_QP_STATE, err;

	a.qp_state = choice(c, "state", state_names, states);
#define FIELD(key, field, bit)              \
	if (has(c, key)) {                  \
		a.field = need(c, key);     \
		mask |= bit;                \
	}
	FIELD("pkey_index", pkey_index, IBV_QP_PKEY_INDEX)
	FIELD("port", port_num, IBV_QP_PORT)
	FIELD("access", qp_access_flags, IBV_QP_ACCESS_FLAGS)
	FIELD("qkey", qkey, IBV_QP_QKEY)
	FIELD("rq_psn", rq_psn, IBV_QP_RQ_PSN)
	FIELD("sq_psn", sq_psn, IBV_QP_SQ_PSN)
	FIELD("dest_qpn", dest_qp_num, IBV_QP_DEST_QPN)
	FIELD("timeout", timeout, IBV_QP_TIMEOUT)
	FIELD("retry_cnt", retry_cnt, IBV_QP_RETRY_CNT)
	FIELD("rnr_retry", rnr_retry, IBV_QP_RNR_RETRY)
	FIELD("min_rnr_timer", min_rnr_timer, IBV_QP_MIN_RNR_TIMER)
	FIELD("rd_atomic", max_rd_atomic, IBV_QP_MAX_QP_RD_ATOMIC)
	FIELD("dest_rd_atomic", max_dest_rd_atomic, IBV_QP_MAX_DEST_RD_ATOMIC)
#undef FIELD
	if (has(c, "mtu")) {
		a.path_mtu = choice(c, "mtu", mtu_names, mtus);
		mask |= IBV_QP_PATH_MTU;
	}
	if (gid_of(c, "dgid", &a.ah_attr.grh.dgid)) {
		a.ah_attr.is_global = 1;
		a.ah_attr.port_num = 1;
		a.ah_attr.grh.sgid_index = need(c, "sgid");
		a.ah_attr.grh.hop_limit = number(c, "hop", 64);
		a.ah_attr.grh.traffic_class = number(c, "tclass", 0);
		mask |= IBV_QP_AV;
	}
	if (!parsed(c))
		return;
	err = ibv_modify_qp(qp, &a, mask);
	if (err)
		fail(c, err, "ibv_modify_qp");
}

void do_query(struct call *c)
{
	struct ibv_qp *qp = object(c, "qp", QP);
	struct ibv_qp_attr a;
	struct ibv_qp_init_attr init;
	int err;

	if (!parsed(c))
		return;
	err = ibv_query_qp(qp, &a, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_RQ_PSN, &init);
	if (err) {
		fail(c, err, "ibv_query_qp");
		return;
	}
	const char *name = "unknown";
	for (int i = 0; state_names[i]; i++)
		if (states[i] == a.qp_state)
			name = state_names[i];
	say(c, " state=%s sq_psn=%u rq_psn=%u draining=%u", name, a.sq_psn, a.rq_psn, a.sq_draining);
}
