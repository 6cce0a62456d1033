/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program of verbs for the agents of fakeagent_test.go, which does what a program should not, or at a moment that is rare.
 * Usage: edges CASE, one of cases. It prints the first check that fails, and exits with status 1 then.
 */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "loopback.h"

static struct ibv_context *context;

static char memory[64];

static struct ibv_pd *new_pd(void)
{
	struct ibv_pd *pd = ibv_alloc_pd(context);
	CHECK(pd != NULL);
	return pd;
}

static struct ibv_cq *new_cq(struct ibv_comp_channel *channel)
{
	struct ibv_cq *cq = ibv_create_cq(context, 10, NULL, channel, 0);
	CHECK(cq != NULL);
	return cq;
}

static struct ibv_qp *new_qp(struct ibv_pd *pd, struct ibv_cq *cq)
{
	struct ibv_qp_init_attr_ex init = {
		.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .cap = {1, 1, 1, 1, 0}, .pd = pd,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_SEND,
	};
	struct ibv_qp *qp = ibv_create_qp_ex(context, &init);
	CHECK(qp != NULL);
	return qp;
}

/* BUSY checks that a domain stays as long as the only object of it does, and ends that. */
#define BUSY(pd, object, end) \
	do { \
		__typeof__(object) made = (object); \
		CHECK(made != NULL && ibv_dealloc_pd(pd) == EBUSY && end(made) == 0); \
	} while (0)

/* A parent domain stays as long as an object of it does: objects point to it. */
static void parents(void)
{
	struct ibv_pd *pd = new_pd();
	struct ibv_td_init_attr none = {0};
	struct ibv_parent_domain_init_attr a = {.pd = pd, .td = ibv_alloc_td(context, &none)};
	struct ibv_pd *parent = ibv_alloc_parent_domain(context, &a);
	struct ibv_cq *cq = new_cq(NULL);
	struct ibv_ah_attr address = own_address(context);
	struct ibv_srq_init_attr shared = {.attr = {.max_wr = 1, .max_sge = 1}};
	CHECK(a.td != NULL && parent != NULL);
	BUSY(parent, new_qp(parent, cq), ibv_destroy_qp);
	BUSY(parent, ibv_create_srq(parent, &shared), ibv_destroy_srq);
	BUSY(parent, ibv_create_ah(parent, &address), ibv_destroy_ah);
	BUSY(parent, ibv_alloc_mw(parent, IBV_MW_TYPE_2), ibv_dealloc_mw);
	BUSY(parent, ibv_reg_mr(parent, memory, sizeof memory, 0), ibv_dereg_mr);
	struct ibv_mr *mr = ibv_reg_mr(parent, memory, sizeof memory, 0);
	CHECK(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, pd, NULL, 0, 0) == 0 && mr->pd == pd);
	CHECK(ibv_dealloc_pd(pd) == EBUSY && ibv_dealloc_td(a.td) == EBUSY);
	CHECK(ibv_dealloc_pd(parent) == 0 && ibv_dealloc_td(a.td) == 0);
	BUSY(pd, mr, ibv_dereg_mr);
	CHECK(ibv_dealloc_pd(pd) == 0 && ibv_destroy_cq(cq) == 0);
}

static void modify(struct ibv_qp *qp)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_RTS};
	CHECK(ibv_modify_qp(qp, &a, IBV_QP_STATE) == 0);
}

/* begin_bind begins a list of work requests with a bind, by which the key of the window would be another one. */
static void begin_bind(struct ibv_qp_ex *ex, struct ibv_mw *mw)
{
	struct ibv_mw_bind_info info = {0};
	ibv_wr_start(ex);
	ibv_wr_bind_mw(ex, mw, ibv_inc_rkey(mw->rkey), &info);
}

/* A window has another key only if its bind was posted. The send queue has one entry. */
static void aborted(void)
{
	struct ibv_pd *pd = new_pd();
	struct ibv_cq *cq = new_cq(NULL);
	struct ibv_qp *qp = new_qp(pd, cq);
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(qp);
	struct ibv_mw *mw = ibv_alloc_mw(pd, IBV_MW_TYPE_2);
	CHECK(ex != NULL && mw != NULL);
	uint32_t key = mw->rkey;
	modify(qp);
	begin_bind(ex, mw);
	ibv_wr_send(ex);
	CHECK(mw->rkey == ibv_inc_rkey(key)); /* for work requests after the bind */
	ibv_wr_abort(ex);
	CHECK(mw->rkey == key);
	begin_bind(ex, mw);
	ibv_wr_send(ex);
	CHECK(ibv_wr_complete(ex) == ENOMEM && mw->rkey == key);
	begin_bind(ex, mw);
	CHECK(ibv_wr_complete(ex) == 0 && mw->rkey == ibv_inc_rkey(key));
	begin_bind(ex, mw);
	ibv_wr_abort(ex);
	CHECK(mw->rkey == ibv_inc_rkey(key));
	CHECK(ibv_dealloc_mw(mw) == 0 && ibv_destroy_qp(qp) == 0 && ibv_destroy_cq(cq) == 0 && ibv_dealloc_pd(pd) == 0);
}

/* A program may request a signal while it reads a completion. The ring has one. */
static void arms(void)
{
	struct ibv_cq_init_attr_ex init = {.cqe = 10, .wc_flags = IBV_WC_STANDARD_FLAGS};
	struct ibv_cq_ex *cq = ibv_create_cq_ex(context, &init);
	struct ibv_poll_cq_attr none = {0};
	CHECK(cq != NULL && ibv_start_poll(cq, &none) == 0);
	CHECK(ibv_req_notify_cq(ibv_cq_ex_to_cq(cq), 0) == 0);
	CHECK(ibv_next_poll(cq) == ENOENT);
	ibv_end_poll(cq);
	CHECK(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)) == 0);
}

static void *waits(void *arg)
{
	struct ibv_async_event e;
	return ibv_get_async_event(context, &e) == 0 ? arg : NULL;
}

/* After the end of the device, all threads that wait for an asynchronous event return, one of them with the end. */
static void ended(void)
{
	pthread_t thread[3];
	struct ibv_async_event e;
	void *result;
	int got = 0;
	for (int i = 0; i < 3; i++)
		CHECK(pthread_create(&thread[i], NULL, waits, context) == 0);
	CHECK(ibv_alloc_pd(context) == NULL && errno == EIO);
	for (int i = 0; i < 3; i++) {
		CHECK(pthread_join(thread[i], &result) == 0);
		got += result != NULL;
	}
	CHECK(got == 1);
	errno = 0;
	CHECK(ibv_get_async_event(context, &e) == -1 && errno == EIO);
}

/* An event of a completion that came last, when the end of the device was known already, is not lost. */
static void last(void)
{
	struct ibv_comp_channel *channel = ibv_create_comp_channel(context);
	struct ibv_cq *from, *cq = new_cq(channel);
	void *user;
	CHECK(ibv_alloc_pd(context) == NULL && errno == EIO);
	CHECK(ibv_get_cq_event(channel, &from, &user) == 0 && from == cq);
	ibv_ack_cq_events(cq, 1);
	CHECK(ibv_get_cq_event(channel, &from, &user) == -1 && errno == EIO);
	CHECK(ibv_destroy_cq(cq) == 0 && ibv_destroy_comp_channel(channel) == 0);
}

/* A completion queue has no channel of another context. */
static void foreign(void)
{
	struct ibv_context *other = opened();
	struct ibv_comp_channel *channel = ibv_create_comp_channel(other);
	CHECK(channel != NULL && ibv_create_cq(context, 10, NULL, channel, 0) == NULL && errno == EINVAL);
	CHECK(ibv_destroy_comp_channel(channel) == 0 && ibv_close_device(other) == 0);
}

/* An index without a GID is no source of a path. */
static void addresses(void)
{
	struct ibv_pd *pd = new_pd();
	struct ibv_ah_attr a = own_address(context);
	a.grh.sgid_index = 1;
	CHECK(ibv_create_ah(pd, &a) == NULL && errno == EINVAL);
	a.grh.sgid_index = 2;
	struct ibv_ah *ah = ibv_create_ah(pd, &a);
	CHECK(ah != NULL && ibv_destroy_ah(ah) == 0 && ibv_dealloc_pd(pd) == 0);
}

/* The child of a fork does not use the locks of its parent's objects: a thread of the parent may have them. */
static void acknowledges(void)
{
	struct ibv_cq *cq = new_cq(NULL);
	struct ibv_pd *pd = new_pd(); /* the agent sends the event */
	struct ibv_async_event e;
	int status;
	CHECK(ibv_get_async_event(context, &e) == 0 && e.event_type == IBV_EVENT_CQ_ERR && e.element.cq == cq);
	CHECK(pthread_mutex_lock(&cq->mutex) == 0);
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL); /* if it waits for ever, the test ends its parent */
		ibv_ack_async_event(&e);
		_exit(cq->async_events_completed == 0 ? 0 : 1);
	}
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	CHECK(pthread_mutex_unlock(&cq->mutex) == 0);
	ibv_ack_async_event(&e);
	CHECK(ibv_destroy_cq(cq) == 0 && ibv_dealloc_pd(pd) == 0);
}

/* The number of a PMTU is refused as a whole: the agent would get its lower 8 bits. */
static void mtus(void)
{
	static const unsigned wrong[] = {0, IBV_MTU_4096 + 1, 256 + IBV_MTU_1024, UINT32_MAX};
	struct ibv_pd *pd = new_pd();
	struct ibv_cq *cq = new_cq(NULL);
	struct ibv_qp *qp = new_qp(pd, cq);
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		struct ibv_qp_attr a = {.path_mtu = (enum ibv_mtu)wrong[i]};
		CHECK(ibv_modify_qp(qp, &a, IBV_QP_PATH_MTU) == EINVAL);
	}
	CHECK(ibv_destroy_qp(qp) == 0 && ibv_destroy_cq(cq) == 0 && ibv_dealloc_pd(pd) == 0);
}

/* The end of the device reaches the program though nobody reads its stderr, a pipe that is full. */
static void full(void)
{
	int ends[2];
	char byte = 0;
	CHECK(pipe(ends) == 0 && fcntl(ends[1], F_SETFL, O_NONBLOCK) == 0);
	while (write(ends[1], &byte, 1) == 1)
		;
	CHECK(errno == EAGAIN && fcntl(ends[1], F_SETFL, 0) == 0 && dup2(ends[1], STDERR_FILENO) == STDERR_FILENO);
	CHECK(ibv_alloc_pd(context) == NULL && errno == EIO);
}

/* What the agent has made is ended if its reply has another length. This agent makes one of each at a time. */
static void lengths(void)
{
	for (int i = 0; i < 2; i++) {
		CHECK(ibv_alloc_pd(context) == NULL && errno == EPROTO);
		CHECK(ibv_create_cq(context, 10, NULL, NULL, 0) == NULL && errno == EPROTO);
	}
}

/* A device has no GUID of 0 because the agent refuses the request for the port once. */
static void guid(void)
{
	struct ibv_device_attr a;
	CHECK(ibv_query_device(context, &a) == EBUSY);
	CHECK(ibv_query_device(context, &a) == 0 && a.node_guid != 0 && a.sys_image_guid == a.node_guid);
}

/* The statuses of the communication manager have their numbers of errno. The agent replies one after the other. */
static void statuses(void)
{
	static const int want[] = {EADDRINUSE, ENOMEM, ETIMEDOUT, EHOSTUNREACH, EINVAL};
	for (size_t i = 0; i < sizeof want / sizeof *want; i++)
		CHECK(ibv_alloc_pd(context) == NULL && errno == want[i]);
}

/* SETS checks that a function returns an error and sets it too: some programs read errno. */
#define SETS(error, function) \
	do { \
		errno = 0; \
		CHECK((function) == (error) && errno == (error)); \
	} while (0)

static struct ibv_sge nowhere = {1, 8, 0};
static struct ibv_send_wr send_wr = {.sg_list = &nowhere, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad_send;
static struct ibv_recv_wr recv_wr = {.sg_list = &nowhere, .num_sge = -1}, *bad_recv;

static void errnos_of_qp(struct ibv_qp *qp)
{
	struct ibv_qp_attr a = {.port_num = 2};
	SETS(EINVAL, ibv_modify_qp(qp, &a, IBV_QP_PORT));
	SETS(EINVAL, ibv_modify_qp(qp, &a, IBV_QP_AV)); /* without a GRH */
	SETS(EINVAL, ibv_post_send(qp, &send_wr, &bad_send)); /* the state is RESET */
	SETS(EINVAL, ibv_post_recv(qp, &recv_wr, &bad_recv));
	modify(qp);
	SETS(EINVAL, ibv_post_recv(qp, &recv_wr, &bad_recv));
	ibv_wr_start(ibv_qp_to_qp_ex(qp));
	ibv_wr_local_inv(ibv_qp_to_qp_ex(qp), 0); /* in INIT */
	SETS(EINVAL, ibv_wr_complete(ibv_qp_to_qp_ex(qp)));
}

static void errnos_of_device(void)
{
	struct ibv_port_attr port;
	struct ibv_gid_entry entry;
	SETS(EINVAL, ibv_query_port(context, 2, &port));
	SETS(EINVAL, ibv_query_gid_ex(context, 2, 0, &entry, 0));
	SETS(ENODATA, ibv_query_gid_ex(context, 1, 1, &entry, 0));
	SETS(EOPNOTSUPP, ibv_query_gid_ex(context, 1, 0, &entry, 1));
}

/* errnos_without_device is for the child of a fork, and for the end of the device. */
static void errnos_without_device(struct ibv_cq *cq, struct ibv_qp *qp, struct ibv_srq *srq)
{
	struct ibv_device_attr device;
	struct ibv_port_attr port;
	struct ibv_qp_attr a = {.port_num = 1};
	struct ibv_modify_cq_attr moderate = {IBV_CQ_ATTR_MODERATE, {16, 100}};
	struct ibv_wc wc;
	errno = 0;
	CHECK(ibv_poll_cq(cq, 1, &wc) == -1 && errno == EIO);
	SETS(EIO, ibv_req_notify_cq(cq, 0));
	SETS(EIO, ibv_resize_cq(cq, 20));
	SETS(EIO, ibv_modify_cq(cq, &moderate));
	SETS(EIO, ibv_modify_qp(qp, &a, IBV_QP_PORT));
	SETS(EIO, ibv_post_send(qp, &send_wr, &bad_send));
	SETS(EIO, ibv_post_recv(qp, &recv_wr, &bad_recv));
	SETS(EIO, ibv_post_srq_recv(srq, &recv_wr, &bad_recv));
	ibv_wr_start(ibv_qp_to_qp_ex(qp));
	SETS(EIO, ibv_wr_complete(ibv_qp_to_qp_ex(qp)));
	SETS(EIO, ibv_query_device(context, &device));
	SETS(EIO, ibv_query_port(context, 1, &port));
	SETS(EIO, ibv_advise_mr(qp->pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &nowhere, 1));
}

static void errnos_of_child(struct ibv_cq *cq, struct ibv_qp *qp, struct ibv_srq *srq)
{
	int status;
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		errnos_without_device(cq, qp, srq);
		SETS(EIO, ibv_destroy_cq(cq));
		SETS(EIO, ibv_destroy_qp(qp));
		SETS(EIO, ibv_destroy_srq(srq));
		SETS(EIO, ibv_dealloc_pd(qp->pd));
		SETS(EIO, ibv_destroy_comp_channel(cq->channel));
		_exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child && status == 0);
}

/* Functions that return an error set errno too, also those that do not ask the agent. */
static void errnos(void)
{
	struct ibv_pd *pd = new_pd();
	struct ibv_td_init_attr none = {0};
	struct ibv_parent_domain_init_attr a = {.pd = pd, .td = ibv_alloc_td(context, &none)};
	struct ibv_pd *parent = ibv_alloc_parent_domain(context, &a);
	struct ibv_comp_channel *channel = ibv_create_comp_channel(context);
	struct ibv_cq *cq = new_cq(channel);
	struct ibv_qp *qp = new_qp(pd, cq);
	struct ibv_srq_init_attr shared = {.attr = {.max_wr = 1, .max_sge = 1}};
	struct ibv_srq *srq = ibv_create_srq(pd, &shared);
	struct ibv_srq_attr limit = {.srq_limit = 2};
	struct ibv_modify_cq_attr unknown = {0};
	CHECK(a.td != NULL && parent != NULL && channel != NULL && srq != NULL);
	SETS(EBUSY, ibv_dealloc_pd(pd));
	SETS(EBUSY, ibv_dealloc_td(a.td));
	SETS(EBUSY, ibv_destroy_cq(cq));
	SETS(EBUSY, ibv_destroy_comp_channel(channel));
	SETS(EINVAL, ibv_resize_cq(cq, 0));
	SETS(EINVAL, ibv_modify_cq(cq, &unknown));
	SETS(EINVAL, ibv_modify_srq(srq, &limit, IBV_SRQ_LIMIT));
	SETS(EINVAL, ibv_post_srq_recv(srq, &recv_wr, &bad_recv));
	SETS(EINVAL, ibv_advise_mr(pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 1U << 31, &nowhere, 1));
	errnos_of_device();
	errnos_of_qp(qp);
	errnos_of_child(cq, qp, srq);
	SETS(EPROTO, ibv_resize_cq(cq, 1000)); /* the agent's ring has fewer entries, and the device ends */
	CHECK(ibv_alloc_pd(context) == NULL && errno == EIO);
	errnos_without_device(cq, qp, srq);
	CHECK(ibv_destroy_qp(qp) == 0 && ibv_destroy_srq(srq) == 0 && ibv_destroy_cq(cq) == 0 && ibv_destroy_comp_channel(channel) == 0);
	CHECK(ibv_dealloc_pd(parent) == 0 && ibv_dealloc_td(a.td) == 0 && ibv_dealloc_pd(pd) == 0);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} cases[] = {
		{"parents", parents}, {"aborted", aborted},
		{"arms", arms},
		{"ended", ended},
		{"last", last},
		{"foreign", foreign},
		{"addresses", addresses},
		{"acknowledges", acknowledges},
		{"mtus", mtus},
		{"full", full},
		{"lengths", lengths},
		{"guid", guid},
		{"statuses", statuses},
		{"errnos", errnos},
	};
	size_t i = 0;
	CHECK(argc == 2);
	while (i < sizeof cases / sizeof *cases && strcmp(argv[1], cases[i].name) != 0)
		i++;
	CHECK(i < sizeof cases / sizeof *cases);
	context = opened();
	cases[i].run();
	CHECK(ibv_close_device(context) == 0);
	puts("ok");
	return 0;
}
