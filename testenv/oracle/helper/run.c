// SPDX-License-Identifier: Apache-2.0

// Many messages at a time, without a line of protocol for each.
#include "judge.h"

struct tally {
	uint64_t done, errors, bytes, started, took;
	int first_error;
};

static void count(struct tally *t, const struct ibv_wc *wc, int n)
{
	for (int i = 0; i < n; i++) {
		if (wc[i].status == IBV_WC_SUCCESS) {
			t->done++;
			t->bytes += wc[i].byte_len;
			continue;
		}
		if (!t->errors++)
			t->first_error = wc[i].status;
	}
}

static void report(struct call *c, struct tally *t, bool late)
{
	say(c, " done=%llu errors=%llu first_error=%d late=%d bytes=%llu ns=%llu", (unsigned long long)t->done,
	    (unsigned long long)t->errors, t->first_error, late, (unsigned long long)t->bytes,
	    (unsigned long long)(now_ns() - t->started));
}

// A limit is how many, how many at a time, and the distance of one buffer from the next: message i
// uses slot i modulo depth.
struct limits {
	uint64_t count, depth, stride, deadline;
};

static struct limits limits(struct call *c)
{
	struct limits l = {
		.count = need(c, "count"),
		.depth = need(c, "depth"),
		.stride = number(c, "stride", 0),
		.deadline = now_ns() + need(c, "wait_ms") * 1000000,
	};

	if (!l.depth)
		fail(c, EINVAL, "depth=0");
	return l;
}

#define BATCH 64

// do_run sends count messages like the work request that is given, depth of them at a time.
void do_run(struct call *c)
{
	struct ibv_qp *qp = object(c, "qp", QP);
	struct cq *q = object(c, "cq", CQ);
	struct limits l = limits(c);
	struct ibv_sge list[MAX_SGE], sge;
	struct ibv_send_wr wr, *bad;
	struct ibv_wc wc[BATCH];
	struct tally t = {.started = now_ns()};
	uint64_t posted = 0;

	send_request(c, &wr, list);
	if (!c->error && wr.num_sge > 1)
		fail(c, EINVAL, "run takes one sge");
	if (!parsed(c))
		return;
	struct ibv_send_wr first = wr;
	while (t.done + t.errors < l.count) {
		// An error has put the queue pair into its error state: collect what is outstanding.
		while (!t.errors && posted < l.count && posted - t.done < l.depth) {
			uint64_t shift = posted % l.depth * l.stride;

			wr = first;
			wr.wr_id = posted;
			wr.send_flags |= IBV_SEND_SIGNALED;
			if (wr.num_sge) {
				sge = list[0];
				sge.addr += shift;
				wr.sg_list = &sge;
			}
			if (wr.opcode == IBV_WR_RDMA_WRITE || wr.opcode == IBV_WR_RDMA_WRITE_WITH_IMM || wr.opcode == IBV_WR_RDMA_READ)
				wr.wr.rdma.remote_addr += shift;
			int err = ibv_post_send(qp, &wr, &bad);
			if (err) {
				fail(c, err, "ibv_post_send of message %llu", (unsigned long long)posted);
				return;
			}
			posted++;
		}
		if (t.errors && t.done + t.errors == posted)
			break;
		int n = wait_cq(q, wc, BATCH, l.deadline);
		if (n <= 0) {
			report(c, &t, true);
			return;
		}
		count(&t, wc, n);
	}
	report(c, &t, false);
}

// do_run_recv takes count messages into depth buffers. posted of them have been posted before by
// post_recv, which lets the sender start without meeting an empty queue.
void do_run_recv(struct call *c)
{
	struct ibv_qp *qp = optional(c, "qp", QP);
	struct ibv_srq *srq = optional(c, "srq", SRQ);
	struct cq *q = object(c, "cq", CQ);
	struct limits l = limits(c);
	uint64_t posted = number(c, "posted", 0);
	struct ibv_sge list[MAX_SGE], sge;
	struct ibv_recv_wr wr = {.sg_list = &sge}, *bad;
	struct ibv_wc wc[BATCH];
	struct tally t = {.started = now_ns()};

	wr.num_sge = sges(c, list);
	if (wr.num_sge > 1)
		fail(c, EINVAL, "run_recv takes one sge");
	if (!qp == !srq)
		fail(c, EINVAL, "give either qp= or srq=");
	if (!parsed(c))
		return;
	while (t.done + t.errors < l.count) {
		while (!t.errors && posted < l.count && posted - t.done < l.depth) {
			sge = list[0];
			sge.addr += posted % l.depth * l.stride;
			wr.wr_id = posted;
			int err = qp ? ibv_post_recv(qp, &wr, &bad) : ibv_post_srq_recv(srq, &wr, &bad);
			if (err) {
				fail(c, err, "post receive %llu", (unsigned long long)posted);
				return;
			}
			posted++;
		}
		int n = wait_cq(q, wc, BATCH, l.deadline);
		if (n <= 0) {
			report(c, &t, true);
			return;
		}
		count(&t, wc, n);
	}
	report(c, &t, false);
}
