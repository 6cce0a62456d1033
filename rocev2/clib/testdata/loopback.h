/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of the programs in this folder. */
#ifndef LOOPBACK_H
#define LOOPBACK_H

#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* CHECK prints a check that fails, and ends the program with status 1. */
#define CHECK(condition) \
	do { \
		if (!(condition)) { \
			dprintf(1, "line %d: %s: %s\n", __LINE__, #condition, strerror(errno)); \
			_exit(1); \
		} \
	} while (0)

/* only_device returns the device, of which there is one. */
static inline struct ibv_device *only_device(void)
{
	int n;
	struct ibv_device **list = ibv_get_device_list(&n);
	CHECK(list != NULL && n == 1);
	struct ibv_device *device = list[0];
	ibv_free_device_list(list);
	return device;
}

static inline struct ibv_context *opened(void)
{
	struct ibv_context *context = ibv_open_device(only_device());
	CHECK(context != NULL);
	return context;
}

static inline struct ibv_ah_attr own_address(struct ibv_context *context)
{
	struct ibv_ah_attr a = {.is_global = 1, .port_num = 1};
	CHECK(ibv_query_gid(context, 1, 0, &a.grh.dgid) == 0);
	return a;
}

/* connected returns a queue pair that is connected to itself. Each of its queues has depth entries. */
static inline struct ibv_qp *connected(struct ibv_pd *pd, struct ibv_cq *cq, enum ibv_qp_type type, struct ibv_srq *srq, uint32_t depth)
{
	struct ibv_qp_init_attr init = {
		.send_cq = cq, .recv_cq = cq, .srq = srq, .qp_type = type, .sq_sig_all = 1,
		.cap = {.max_send_wr = depth, .max_recv_wr = depth, .max_send_sge = 1, .max_recv_sge = 1},
	};
	struct ibv_qp *qp = ibv_create_qp(pd, &init);
	CHECK(qp != NULL);
	int ud = type == IBV_QPT_UD;
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = 17};
	CHECK(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | (ud ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS)) == 0);
	a = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = qp->qp_num, .max_dest_rd_atomic = 1,
				 .min_rnr_timer = 1, .ah_attr = own_address(pd->context)};
	CHECK(ibv_modify_qp(qp, &a, ud ? IBV_QP_STATE : IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
					 IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) == 0);
	a = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1};
	CHECK(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_SQ_PSN | (ud ? 0 : IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
								   IBV_QP_MAX_QP_RD_ATOMIC)) == 0);
	return qp;
}

static inline void post_recv(struct ibv_qp *qp, struct ibv_mr *mr, void *at, uint32_t bytes, uint64_t wr_id)
{
	struct ibv_sge to = {(uintptr_t)at, bytes, mr->lkey};
	struct ibv_recv_wr recv = {.wr_id = wr_id, .sg_list = &to, .num_sge = 1}, *bad;
	CHECK(ibv_post_recv(qp, &recv, &bad) == 0);
}

static inline void post_send(struct ibv_qp *qp, struct ibv_mr *mr, void *at, uint32_t bytes, uint64_t wr_id)
{
	struct ibv_sge from = {(uintptr_t)at, bytes, mr->lkey};
	struct ibv_send_wr send = {.wr_id = wr_id, .sg_list = &from, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad;
	CHECK(ibv_post_send(qp, &send, &bad) == 0);
}

#endif
