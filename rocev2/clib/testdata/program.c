/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program of verbs for what those of Debian do not do: fork, threads that share a completion queue, events of a shared
 * receive queue, and an address handle from a completion. Usage: program register|fork|threads|events|domains|buffers|speed|unsupported.
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

/* Objects of a parent domain are those of its protection domain. Both stay as long as they are used. */
static void domains(void)
{
	struct ibv_td_init_attr none = {0}, unknown = {.comp_mask = 1};
	struct ibv_td *td = ibv_alloc_td(context, &none);
	CHECK(td != NULL && ibv_alloc_td(context, &unknown) == NULL && errno == EINVAL);
	struct ibv_parent_domain_init_attr a = {.pd = pd, .td = td};
	struct ibv_pd *parent = ibv_alloc_parent_domain(context, &a);
	CHECK(parent != NULL && parent != pd && parent->context == context);
	a.comp_mask = 1U << 31;
	CHECK(ibv_alloc_parent_domain(context, &a) == NULL && errno == EINVAL);
	a = (struct ibv_parent_domain_init_attr){.pd = NULL};
	CHECK(ibv_alloc_parent_domain(context, &a) == NULL && errno == EINVAL);
	a.pd = parent;
	CHECK(ibv_alloc_parent_domain(context, &a) == NULL && errno == EINVAL);

	struct ibv_mr *region = ibv_reg_mr(parent, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE);
	CHECK(region != NULL && region->pd == parent);
	struct ibv_qp *qp = connected(parent, cq, IBV_QPT_RC, NULL, MESSAGES);
	memset(memory[0][0], 'p', BYTES);
	post_recv(qp, mr, memory[0][1], BYTES, 0); /* a region of the protection domain */
	post_send(qp, region, memory[0][0], BYTES, 0);
	completions(2);
	CHECK(memcmp(memory[0][0], memory[0][1], BYTES) == 0);
	CHECK(ibv_dealloc_pd(pd) == EBUSY && ibv_dealloc_td(td) == EBUSY);

	/* An address handle of the protection domain, and a queue pair of the parent domain. */
	struct ibv_qp *ud = connected(parent, cq, IBV_QPT_UD, NULL, MESSAGES);
	struct ibv_ah_attr address = own_address(context);
	struct ibv_ah *ah = ibv_create_ah(pd, &address);
	CHECK(ah != NULL);
	struct ibv_sge from = element(memory[1], 8);
	struct ibv_send_wr send = {.sg_list = &from, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED, .wr.ud = {ah, ud->qp_num, 17}}, *bad;
	CHECK(ibv_post_send(ud, &send, &bad) == 0);
	completions(1);
	CHECK(ibv_destroy_ah(ah) == 0 && ibv_destroy_qp(ud) == 0);
	CHECK(ibv_destroy_qp(qp) == 0 && ibv_dereg_mr(region) == 0);
	CHECK(ibv_dealloc_pd(parent) == 0 && ibv_dealloc_td(td) == 0);
}

/* Functions and structs that the headers of this machine may not have (rdma-core 59 and 64). */
struct buffer;
struct attributes {
	size_t length;
	int access;
	uint64_t mask, iova;
	void *addr;
	int fd;
	uint64_t fd_offset;
	void *dmah;
	struct buffer *buf;
};
void *alloc_buf(struct ibv_pd *pd, size_t size, struct buffer **buf) __asm__("ibv_alloc_buf");
void free_buf(struct buffer *buf) __asm__("ibv_free_buf");
struct ibv_mr *reg_buf_mr(struct ibv_pd *pd, struct buffer *buf, void *addr, size_t length, int access) __asm__("ibv_reg_buf_mr");
int export_buf(struct buffer *buf) __asm__("ibv_export_buf_dmabuf_fd");
struct ibv_mr *reg_mr_ex(struct ibv_pd *pd, struct attributes *a) __asm__("ibv_reg_mr_ex");

static void refused(struct ibv_mr *made, int error) { CHECK(made == NULL && errno == error); }
static void made(struct ibv_mr *m) { CHECK(m != NULL && ibv_dereg_mr(m) == 0); }

/* Buffers are ordinary memory. A region of one lies inside it. */
static void buffers(void)
{
	struct buffer *b;
	char *at = alloc_buf(pd, BYTES, &b);
	CHECK(at != NULL && (uintptr_t)at % 4096 == 0 && at[0] == 0 && at[BYTES - 1] == 0);
	CHECK(alloc_buf(pd, 0, &b) == NULL && errno == EINVAL);
	struct ibv_pd *other = ibv_alloc_pd(context);
	CHECK(other != NULL);
	made(reg_buf_mr(pd, b, at, BYTES, IBV_ACCESS_LOCAL_WRITE));
	made(reg_buf_mr(pd, b, at + 100, BYTES - 100, 0));
	refused(reg_buf_mr(other, b, at, BYTES, 0), EINVAL);
	refused(reg_buf_mr(pd, b, at + 1, BYTES, 0), EINVAL);
	refused(reg_buf_mr(pd, b, at - 1, 1, 0), EINVAL);
	refused(reg_buf_mr(pd, b, at + BYTES + 1, 0, 0), EINVAL);
	CHECK(export_buf(b) == -1 && errno == ENODATA);

	struct attributes a = {.length = BYTES, .access = IBV_ACCESS_LOCAL_WRITE, .addr = at, .iova = 4096, .buf = b};
	for (uint64_t mask = 0; mask < 128; mask++) { /* IOVA, ADDR, FD, FD_OFFSET, DMAH, BUF, unknown */
		a.mask = mask;
		if ((mask & 2) != 0 && (mask & ~(uint64_t)(1 | 2 | 32)) == 0)
			made(reg_mr_ex(pd, &a));
		else if (mask >= 64 || ((mask & 32) != 0 && ((mask & (4 | 8)) != 0 || (mask & 2) == 0)) || (mask & (2 | 4 | 8 | 16)) == 0)
			refused(reg_mr_ex(pd, &a), EINVAL);
		else
			refused(reg_mr_ex(pd, &a), EOPNOTSUPP);
	}
	free_buf(b);
	CHECK(ibv_dealloc_pd(other) == 0);

	/* A region from 0 on, whichever function the header chooses. */
	unsigned int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ZERO_BASED;
	made((ibv_reg_mr)(pd, memory, sizeof memory, (int)access));
	made(ibv_reg_mr_iova2(pd, memory, sizeof memory, (uintptr_t)memory, access));
	made(ibv_reg_mr_iova2(pd, memory, sizeof memory, 0, access));

	/* It begins at 0 wherever it moves, and at its address without the flag. */
	struct ibv_mr *moved = ibv_reg_mr(pd, memory, BYTES, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ZERO_BASED);
	CHECK(moved != NULL && ibv_rereg_mr(moved, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, memory[1], BYTES, 0) == 0);
	CHECK(ibv_rereg_mr(moved, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, IBV_ACCESS_LOCAL_WRITE) == 0);
	CHECK(ibv_rereg_mr(moved, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, (int)access) == 0);
	made(moved);
}

/* Hints have no effect that a program can see. Wrong ones are refused. */
static void hints(void)
{
	struct ibv_modify_cq_attr moderate = {IBV_CQ_ATTR_MODERATE, {16, 100}}, none = {0};
	CHECK(ibv_modify_cq(cq, &moderate) == 0 && ibv_modify_cq(cq, &none) == EINVAL);
	struct ibv_sge all = element(memory, sizeof memory), nowhere = element((void *)4096, 4096);
	for (int advice = IBV_ADVISE_MR_ADVICE_PREFETCH; advice <= IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT; advice++)
		CHECK(ibv_advise_mr(pd, advice, IBV_ADVISE_MR_FLAG_FLUSH, &all, 1) == 0);
	CHECK(ibv_advise_mr(pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, 0, &nowhere, 1) == EFAULT);
	CHECK(ibv_advise_mr(pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 1U << 31, &all, 1) == EINVAL);
	CHECK(ibv_advise_mr(pd, 77, 0, &all, 1) == EOPNOTSUPP);
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
const char *wr_opcode_str(enum ibv_wr_opcode opcode) __asm__("ibv_wr_opcode_str");	 /* rdma-core 50 */

/* The agent is attached with a rate of 10 Gbit/s. */
static void speed(void)
{
	uint64_t s = 0;
	CHECK(ibv_query_port_speed(context, 1, &s) == 0 && s == 100);
	CHECK(ibv_query_port_speed(context, 2, &s) == EINVAL && errno == EINVAL);
	CHECK(strcmp(wr_opcode_str(IBV_WR_BIND_MW), "bind") == 0 && strcmp(wr_opcode_str(99), "unknown") == 0);
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
	} else if (strcmp(argv[1], "domains") == 0) {
		domains();
		hints();
	} else if (strcmp(argv[1], "buffers") == 0) {
		buffers();
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
