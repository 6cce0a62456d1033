// SPDX-License-Identifier: Apache-2.0

// Completions and asynchronous events.
#include "judge.h"

#include <arpa/inet.h>
#include <poll.h>
#include <time.h>

#define POLL_MAX 1024

uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000ull + ts.tv_nsec;
}

static int readable(int fd, uint64_t deadline)
{
	uint64_t now = now_ns();
	struct pollfd p = {.fd = fd, .events = POLLIN};

	// Rounded up, so that the last millisecond is not spent spinning.
	return poll(&p, 1, now >= deadline ? 0 : (deadline - now + 999999) / 1000000);
}

// wait_cq returns at least one completion, at most max, or 0 at the deadline. It sleeps in between:
// the machine may have one CPU, and the driver wants it.
int wait_cq(struct cq *q, struct ibv_wc *wc, int max, uint64_t deadline)
{
	for (;;) {
		int n = ibv_poll_cq(q->cq, max, wc);

		if (n)
			return n;
		if (ibv_req_notify_cq(q->cq, 0))
			return -1;
		// What came between the two calls gives no event.
		n = ibv_poll_cq(q->cq, max, wc);
		if (n)
			return n;
		if (readable(q->channel->fd, deadline) <= 0)
			return ibv_poll_cq(q->cq, max, wc);
		struct ibv_cq *cq;
		void *ctx;
		if (ibv_get_cq_event(q->channel, &cq, &ctx))
			return -1;
		ibv_ack_cq_events(cq, 1);
	}
}

// do_poll waits for n completions, for some milliseconds at most, and gives those that came.
void do_poll(struct call *c)
{
	struct cq *q = object(c, "cq", CQ);
	uint64_t want = need(c, "n"), deadline = now_ns() + number(c, "wait_ms", 0) * 1000000;
	static struct ibv_wc wc[POLL_MAX];
	uint64_t got = 0;

	if (!want || want > POLL_MAX)
		fail(c, EINVAL, "n=%llu, want 1 to %d", (unsigned long long)want, POLL_MAX);
	if (!parsed(c))
		return;
	while (got < want) {
		int n = wait_cq(q, wc + got, want - got, deadline);

		if (n < 0) {
			fail(c, errno, "ibv_poll_cq");
			return;
		}
		if (!n)
			break;
		got += n;
	}
	say(c, " n=%llu", (unsigned long long)got);
	for (uint64_t i = 0; i < got; i++) {
		// What the other fields hold is undefined for a request that failed.
		bool ok = wc[i].status == IBV_WC_SUCCESS;
		uint32_t flags = ok ? wc[i].wc_flags : 0, imm = 0;

		// rxe hands out the kernel's bit for WITH_INV, which verbs know as IP_CSUM_OK (seen on
		// 6.12); checksums it never reports.
		if (flags & IBV_WC_IP_CSUM_OK)
			flags = (flags & ~IBV_WC_IP_CSUM_OK) | IBV_WC_WITH_INV;
		if (flags & IBV_WC_WITH_IMM)
			imm = ntohl(wc[i].imm_data);
		else if (flags & IBV_WC_WITH_INV)
			imm = wc[i].invalidated_rkey;
		say(c, " wc=%llu:%d:%d:%u:%u:%u:%u:%u:%u", (unsigned long long)wc[i].wr_id, wc[i].status,
		    ok ? (int)wc[i].opcode : 0, ok ? wc[i].byte_len : 0, flags, imm, wc[i].qp_num,
		    ok ? wc[i].src_qp : 0, wc[i].vendor_err);
	}
}

// do_async gives the next asynchronous event: its type, and the handle of a queue it concerns.
void do_async(struct call *c)
{
	uint64_t deadline = now_ns() + number(c, "wait_ms", 0) * 1000000;
	struct ibv_async_event e;
	uint64_t h = 0;

	if (!device(c) || !parsed(c))
		return;
	if (readable(context->async_fd, deadline) <= 0 || ibv_get_async_event(context, &e)) {
		say(c, " n=0");
		return;
	}
	switch (e.event_type) {
	case IBV_EVENT_SRQ_ERR:
	case IBV_EVENT_SRQ_LIMIT_REACHED:
		h = (uintptr_t)e.element.srq->srq_context;
		break;
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_COMM_EST:
	case IBV_EVENT_SQ_DRAINED:
	case IBV_EVENT_PATH_MIG:
	case IBV_EVENT_PATH_MIG_ERR:
	case IBV_EVENT_QP_LAST_WQE_REACHED:
		h = (uintptr_t)e.element.qp->qp_context;
		break;
	default:
		break;
	}
	say(c, " n=1 type=%d handle=%llu", e.event_type, (unsigned long long)h);
	ibv_ack_async_event(&e);
}
