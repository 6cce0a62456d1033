/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program of verbs for what those of Debian do not do: fork, threads that share a completion queue, events of a shared
 * receive queue, and an address handle from a completion. Usage: program register|fork|threads|events|speed|unsupported.
 * All queue pairs are connected to themselves. It prints the first check that fails, and exits with status 1 then.
 */
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "loopback.h"

#define THREADS 8
#define MESSAGES 200
#define BYTES 5000 /* five packets */

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_mr *mr;
static struct ibv_comp_channel *channel;
static struct ibv_cq *cq;
static char memory[THREADS][2][BYTES];

static void open_device(void)
{
	context = opened();
	CHECK((pd = ibv_alloc_pd(context)) != NULL);
}

static void make_objects(void)
{
	CHECK((mr = ibv_reg_mr(pd, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE)) != NULL);
	CHECK((channel = ibv_create_comp_channel(context)) != NULL);
	CHECK((cq = ibv_create_cq(context, 2 * THREADS * MESSAGES, NULL, channel, 0)) != NULL);
}

static struct ibv_sge element(void *at, uint32_t n) { return (struct ibv_sge){(uintptr_t)at, n, mr->lkey}; }

/* completions waits for that many completions, by events, and returns the last one. */
static struct ibv_wc completions(int n)
{
	struct ibv_wc wc;
	while (n > 0) {
		CHECK(ibv_req_notify_cq(cq, 0) == 0);
		int found;
		while (n > 0 && (found = ibv_poll_cq(cq, 1, &wc)) != 0) {
			CHECK(found == 1 && wc.status == IBV_WC_SUCCESS);
			n--;
		}
		if (n == 0)
			break;
		struct ibv_cq *from;
		void *user;
		CHECK(ibv_get_cq_event(channel, &from, &user) == 0 && from == cq);
		ibv_ack_cq_events(cq, 1);
	}
	return wc;
}

static void *exchange(void *arg)
{
	char(*mine)[BYTES] = arg;
	struct ibv_qp *qp = connected(pd, cq, IBV_QPT_RC, NULL, MESSAGES);
	for (int i = 0; i < MESSAGES; i++) {
		post_recv(qp, mr, mine[1], BYTES, 0);
		post_send(qp, mr, mine[0], BYTES, 0);
	}
	return qp;
}

static pthread_barrier_t barrier;

static void *reg(void *arg)
{
	pthread_barrier_wait(&barrier);
	struct ibv_mr *m = ibv_reg_mr(pd, arg, BYTES, IBV_ACCESS_LOCAL_WRITE);
	CHECK(m != NULL && ibv_dereg_mr(m) == 0);
	return NULL;
}

/* The first regions of a context are registered by several threads at once. */
static void registers(void)
{
	pthread_t thread[THREADS];
	CHECK(pthread_barrier_init(&barrier, NULL, THREADS) == 0);
	for (int i = 0; i < THREADS; i++)
		CHECK(pthread_create(&thread[i], NULL, reg, memory[i]) == 0);
	for (int i = 0; i < THREADS; i++)
		CHECK(pthread_join(thread[i], NULL) == 0);
}

/* Threads post to queue pairs of their own, and one takes all completions. */
static void threads(void)
{
	pthread_t thread[THREADS];
	for (int i = 0; i < THREADS; i++) {
		memset(memory[i][0], 'a' + i, BYTES);
		CHECK(pthread_create(&thread[i], NULL, exchange, memory[i]) == 0);
	}
	completions(2 * THREADS * MESSAGES);
	for (int i = 0; i < THREADS; i++) {
		void *qp;
		CHECK(pthread_join(thread[i], &qp) == 0);
		CHECK(memcmp(memory[i][0], memory[i][1], BYTES) == 0);
		CHECK(ibv_destroy_cq(cq) == EBUSY);
		CHECK(ibv_destroy_qp(qp) == 0);
	}
	CHECK(ibv_destroy_comp_channel(channel) == EBUSY);
	CHECK(ibv_destroy_cq(cq) == 0);
	CHECK(ibv_destroy_comp_channel(channel) == 0);
}

/* A shared receive queue has one event when fewer receives than the limit are left. UD data is behind the header of its sender. */
static void events(void)
{
	struct ibv_srq_init_attr init = {.attr = {.max_wr = 4, .max_sge = 1}};
	struct ibv_srq *srq = ibv_create_srq(pd, &init);
	CHECK(srq != NULL);
	struct ibv_qp *qp = connected(pd, cq, IBV_QPT_UD, srq, MESSAGES);
	char *buffer = memory[0][0]; /* GRH and data */
	struct ibv_sge to = element(buffer, 40 + 8), from = element(memory[1], 8);
	memcpy(memory[1], "datagram", 8);
	struct ibv_recv_wr recv = {.sg_list = &to, .num_sge = 1}, *bad_recv;
	CHECK(ibv_post_srq_recv(srq, &recv, &bad_recv) == 0 && ibv_post_srq_recv(srq, &recv, &bad_recv) == 0);
	struct ibv_srq_attr limit = {.srq_limit = 2}, now;
	CHECK(ibv_modify_srq(srq, &limit, IBV_SRQ_LIMIT) == 0);
	CHECK(ibv_query_srq(srq, &now) == 0 && now.srq_limit == 2 && now.max_wr == 4);

	struct ibv_ah_attr address = own_address(context);
	struct ibv_ah *ah = ibv_create_ah(pd, &address);
	CHECK(ah != NULL);
	struct ibv_send_wr send = {.sg_list = &from, .num_sge = 1, .opcode = IBV_WR_SEND, .wr.ud = {ah, qp->qp_num, 17}}, *bad_send;
	CHECK(ibv_post_send(qp, &send, &bad_send) == 0);
	struct ibv_async_event event;
	CHECK(ibv_get_async_event(context, &event) == 0);
	CHECK(event.event_type == IBV_EVENT_SRQ_LIMIT_REACHED && event.element.srq == srq);
	ibv_ack_async_event(&event);
	CHECK(ibv_query_srq(srq, &now) == 0 && now.srq_limit == 0);

	struct ibv_wc wc = completions(1);
	if (wc.opcode != IBV_WC_RECV)
		wc = completions(1);
	else
		completions(1);
	CHECK(wc.opcode == IBV_WC_RECV && wc.byte_len == 48 && wc.src_qp == qp->qp_num && (wc.wc_flags & IBV_WC_GRH) != 0);
	CHECK(memcmp(buffer + 40, "datagram", 8) == 0);
	struct ibv_ah_attr sender;
	CHECK(ibv_init_ah_from_wc(context, 1, &wc, (struct ibv_grh *)buffer, &sender) == 0);
	CHECK(memcmp(&sender.grh.dgid, &address.grh.dgid, 16) == 0 && sender.grh.sgid_index == 0);
	struct ibv_ah *reply = ibv_create_ah_from_wc(pd, &wc, (struct ibv_grh *)buffer, 1);
	CHECK(reply != NULL && ibv_destroy_ah(reply) == 0);
	CHECK(ibv_destroy_ah(ah) == 0 && ibv_destroy_qp(qp) == 0 && ibv_destroy_srq(srq) == 0);
}

/* In the child of a fork, the objects of the parent give errors. The parent goes on. Its queue keeps what was not polled. */
static void forks(void)
{
	struct ibv_qp *qp = exchange(memory[0]);
	completions(MESSAGES); /* half of them */
	CHECK(ibv_resize_cq(cq, MESSAGES) == 0 && cq->cqe == MESSAGES);
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		struct ibv_wc wc;
		struct ibv_sge from = element(memory, BYTES);
		struct ibv_send_wr send = {.sg_list = &from, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad;
		CHECK(ibv_poll_cq(cq, 1, &wc) < 0);
		CHECK(ibv_req_notify_cq(cq, 0) == EIO);
		CHECK(ibv_post_send(qp, &send, &bad) == EIO && bad == &send);
		errno = 0;
		CHECK(ibv_alloc_pd(context) == NULL && errno == EIO);
		CHECK(ibv_destroy_qp(qp) == EIO && ibv_destroy_cq(cq) == EIO && ibv_destroy_comp_channel(channel) == EIO);
		struct ibv_async_event event;
		struct ibv_qp_attr attr = {.cur_qp_state = IBV_QPS_RTS};
		CHECK(ibv_get_async_event(context, &event) == -1);
		CHECK(ibv_modify_qp(qp, &attr, IBV_QP_CUR_STATE) == EIO);
		memset(memory[0][1], 'c', BYTES); /* the memory of the child is its own */
		open_device();
		make_objects();
		exchange(memory[1]);
		completions(2 * MESSAGES);
		_exit(0);
	}
	int status;
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	completions(MESSAGES);
	CHECK(memcmp(memory[0][0], memory[0][1], BYTES) == 0);
	CHECK(ibv_destroy_qp(qp) == 0);
}

/* Verbs that the library does not have return or set EOPNOTSUPP, exported functions and operations of a context alike. */
static void unsupported(void)
{
	struct ibv_qp *qp = connected(pd, cq, IBV_QPT_UD, NULL, MESSAGES);
	union ibv_gid group = {.raw = {0xff}};
	struct ibv_alloc_dm_attr dm = {.length = 4096};
	for (int i = 0; i < 2; i++) {
		CHECK(ibv_attach_mcast(qp, &group, 0) == EOPNOTSUPP);
		errno = 0;
		CHECK(ibv_alloc_dm(context, &dm) == NULL && errno == EOPNOTSUPP);
	}
	CHECK(ibv_destroy_qp(qp) == 0);
}

int ibv_query_port_speed(struct ibv_context *context, uint32_t port, uint64_t *speed); /* rdma-core 62 */

/* The agent is attached with a rate of 10 Gbit/s. */
static void speed(void)
{
	uint64_t s = 0;
	CHECK(ibv_query_port_speed(context, 1, &s) == 0 && s == 100);
	CHECK(ibv_query_port_speed(context, 2, &s) == EINVAL);
}

int main(int argc, char **argv)
{
	CHECK(argc == 2);
	open_device();
	if (strcmp(argv[1], "register") == 0)
		registers();
	make_objects();
	if (strcmp(argv[1], "threads") == 0) {
		threads();
	} else if (strcmp(argv[1], "events") == 0) {
		events();
	} else if (strcmp(argv[1], "fork") == 0) {
		forks();
	} else if (strcmp(argv[1], "speed") == 0) {
		speed();
	} else if (strcmp(argv[1], "unsupported") == 0) {
		unsupported();
	} else {
		CHECK(strcmp(argv[1], "register") == 0);
	}
	CHECK(ibv_dealloc_pd(pd) == EBUSY);
	CHECK(ibv_dereg_mr(mr) == 0 && ibv_dealloc_pd(pd) == 0 && ibv_close_device(context) == 0);
	puts("ok");
	return 0;
}
