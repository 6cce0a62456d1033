/* SPDX-License-Identifier: Apache-2.0 */
/* Completion queues. */
#define _GNU_SOURCE
#include <endian.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "softroce.h"

#define POLLS_BEFORE_YIELD 64 /* a few microseconds */

static void link_cq(struct context *c, struct cq *cq)
{
	pthread_mutex_lock(&c->lock);
	cq->next = c->cqs;
	c->cqs = cq;
	pthread_mutex_unlock(&c->lock);
}

/*
 * The least number of entries, as drivers of NICs have one: with one entry, ib_send_lat -e posts its next send while the
 * completion of the last one may be in the queue, and one ACK may complete both.
 */
#define LEAST_CQES 16

/* cq_create makes a completion queue. After an error it returns NULL with errno. */
struct cq *cq_create(struct ibv_context *context, uint32_t cqe, void *user, struct ibv_comp_channel *channel, uint32_t vector)
{
	struct context *c = to_context(context);
	struct softroce_create_cq_reply r;
	int fd;
	if (channel != NULL && channel->context != context)
		return fail(EINVAL);
	if (cqe == 0 || cqe > c->limits.cq || vector >= (uint32_t)context->num_comp_vectors)
		return fail(EINVAL);
	if (cqe < LEAST_CQES && c->limits.cq >= LEAST_CQES)
		cqe = LEAST_CQES;
	struct softroce_create_cq m = {.depth = cqe};
	struct cq *cq = calloc(1, sizeof *cq);
	if (cq == NULL)
		return NULL;
	int error = call(c, (struct message){.type = SOFTROCE_MSG_CREATE_CQ, BODY(m)}, (struct answer){BODY(r), .fd = &fd});
	if (error != 0) {
		free(cq);
		return fail(error);
	}
	size_t bytes = shape_bytes(r.ring, cqe, SOFTROCE_CQE_BYTES);
	error = bytes == 0 ? EPROTO : map_rings(fd, r.offset, bytes, &cq->map);
	close(fd);
	if (error != 0) {
		call_handle(c, SOFTROCE_MSG_DESTROY_CQ, r.handle);
		free(cq);
		return fail(error);
	}
	ring_init(&cq->ring, cq->map.at, r.ring, cqe, 0);
	cq->ibv.context = context;
	cq->ibv.channel = channel;
	cq->ibv.cq_context = user;
	cq->ibv.handle = r.handle;
	cq->ibv.cqe = (int)cqe;
	pthread_mutex_init(&cq->ibv.mutex, NULL);
	pthread_cond_init(&cq->ibv.cond, NULL);
	pthread_mutex_init(&cq->lock, NULL);
	pthread_mutex_init(&cq->arm_lock, NULL);
	if (channel != NULL) {
		pthread_mutex_lock(&c->lock);
		channel->refcnt++;
		pthread_mutex_unlock(&c->lock);
	}
	link_cq(c, cq);
	return cq;
}

EXPORT struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe, void *user, struct ibv_comp_channel *channel, int vector)
{
	if (cqe < 1 || vector < 0)
		return fail(EINVAL);
	struct cq *cq = cq_create(context, (uint32_t)cqe, user, channel, (uint32_t)vector);
	return cq != NULL ? &cq->ibv : NULL;
}

/* set_stale says whether the agent may have freed the ring: on_signals does not read it then. */
static void set_stale(struct context *c, struct cq *cq, bool stale)
{
	pthread_mutex_lock(&c->lock);
	cq->stale = stale;
	pthread_mutex_unlock(&c->lock);
}

/*
 * forget_ring is for a queue whose ring the agent has moved to where the library cannot map it. The context ends. Other
 * queues may have the memory of the ring, so empty memory of this process takes its place.
 */
static void forget_ring(struct context *c, struct cq *cq)
{
	if (mmap(cq->map.at, cq->map.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED)
		cq->ring.next = 0;
	control_break(c);
}

/* resize changes the number of entries. The caller has both locks of the queue, and is not cancelled. */
static int resize(struct context *c, struct cq *cq, uint32_t cqe)
{
	struct softroce_resize_cq m = {.handle = cq->ibv.handle, .depth = cqe};
	struct softroce_create_cq_reply r;
	struct mapping map = {0};
	int fd, error = call(c, (struct message){.type = SOFTROCE_MSG_RESIZE_CQ, BODY(m)}, (struct answer){BODY(r), .fd = &fd});
	bool moved = error == 0 || error == EMFILE || error == EPROTO; /* EMFILE, EPROTO: the reply does not have the new ring */
	if (error == 0) {
		size_t bytes = shape_bytes(r.ring, cqe, SOFTROCE_CQE_BYTES);
		error = bytes == 0 ? EPROTO : map_rings(fd, r.offset, bytes, &map);
		close(fd);
	}
	if (error != 0) {
		if (moved)
			forget_ring(c, cq);
		return error;
	}
	pthread_mutex_lock(&c->lock); /* on_signals reads the ring */
	unmap_rings(&cq->map);
	cq->map = map;
	ring_init(&cq->ring, map.at, r.ring, cqe, 0);
	cq->ibv.cqe = (int)cqe;
	pthread_mutex_unlock(&c->lock);
	return 0;
}

/*
 * ibv_resize_cq changes the number of entries. The agent moves completions that were not polled to another ring, from its first
 * entry on, so nothing is read of the queue meanwhile. It refuses if more wait than the new ring has entries. The number of
 * signals is that of the first ring at that time, and signals may come before the library has the new ring.
 */
EXPORT int ibv_resize_cq(struct ibv_cq *ibv, int cqe)
{
	struct cq *cq = to_cq(ibv);
	struct context *c = to_context(ibv->context);
	if (gone(c) != ALIVE)
		return failed(EIO);
	if (cqe < 1 || (uint32_t)cqe > c->limits.cq)
		return failed(EINVAL);
	int state = cancel_off();
	pthread_mutex_lock(&cq->lock);
	pthread_mutex_lock(&cq->arm_lock);
	set_stale(c, cq, true);
	int error = resize(c, cq, (uint32_t)cqe);
	set_stale(c, cq, false);
	pthread_mutex_unlock(&cq->arm_lock);
	pthread_mutex_unlock(&cq->lock);
	on_signals(c); /* signals that came meanwhile */
	cancel_on(state);
	return failed(error);
}

/* modify_cq accepts moderation, which lets a channel have fewer events than there are completions, and has no effect. */
int modify_cq(struct ibv_cq *cq, struct ibv_modify_cq_attr *a)
{
	if (gone(to_context(cq->context)) != ALIVE)
		return failed(EIO);
	return failed(a->attr_mask == IBV_CQ_ATTR_MODERATE ? 0 : EINVAL);
}

EXPORT int ibv_destroy_cq(struct ibv_cq *ibv)
{
	struct cq *cq = to_cq(ibv);
	struct context *c = to_context(ibv->context);
	if (gone(c) == FORKED)
		return failed(EIO);
	pthread_mutex_lock(&c->lock);
	if (cq->users > 0) {
		pthread_mutex_unlock(&c->lock);
		return failed(EBUSY);
	}
	cq->stale = true; /* before the message: the agent may give the memory to another queue at once */
	pthread_mutex_unlock(&c->lock);
	int error = call_handle(c, SOFTROCE_MSG_DESTROY_CQ, ibv->handle);
	if (error != 0) {
		set_stale(c, cq, false);
		on_signals(c); /* signals that came meanwhile */
		return failed(error);
	}
	pthread_mutex_lock(&c->lock);
	struct cq **at = &c->cqs;
	while (*at != cq)
		at = &(*at)->next;
	*at = cq->next;
	channel_forget(cq);
	async_forget(c, ibv);
	if (ibv->channel != NULL)
		ibv->channel->refcnt--;
	unsigned comp = cq->comp_delivered, async = cq->async_delivered;
	pthread_mutex_unlock(&c->lock);
	pthread_mutex_lock(&ibv->mutex);
	while (ibv->comp_events_completed != comp || ibv->async_events_completed != async)
		pthread_cond_wait(&ibv->cond, &ibv->mutex); /* until the program has acknowledged the events (man ibv_get_cq_event) */
	pthread_mutex_unlock(&ibv->mutex);
	unmap_rings(&cq->map);
	free(cq);
	return 0;
}

/*
 * cq_next copies the next completion to cqe. It returns false if there is none. An entry is new if its bit owner
 * has the value of the pass through the ring.
 */
bool cq_next(struct cq *cq, uint8_t *cqe)
{
	struct ring *r = &cq->ring;
	uint8_t *entry = ring_entry(r, r->next);
	uint64_t *last = (uint64_t *)(void *)(entry + SOFTROCE_CQE_OWNER_AT);
	uint64_t word = __atomic_load_n(last, __ATOMIC_ACQUIRE);
	bool first_pass = (r->next & (r->mask + 1)) == 0;
	if (((word & SOFTROCE_CQE_OWNER_MASK) != 0) != first_pass)
		return false;
	memcpy(cqe, entry, SOFTROCE_CQE_BYTES);
	memcpy(cqe + SOFTROCE_CQE_OWNER_AT, &word, sizeof word);
	r->next++;
	return true;
}

/* show shows the agent which entries are free again. */
static void show(struct ring *r)
{
	__atomic_store_n(ring_word(r, SOFTROCE_RING_CONSUMER_AT), r->next, __ATOMIC_RELEASE);
}

enum ibv_wc_status wc_status(const uint8_t *cqe)
{
	static const enum ibv_wc_status of[] = {
		IBV_WC_SUCCESS, IBV_WC_LOC_LEN_ERR, IBV_WC_LOC_QP_OP_ERR, IBV_WC_LOC_PROT_ERR, IBV_WC_WR_FLUSH_ERR,
		IBV_WC_MW_BIND_ERR, IBV_WC_BAD_RESP_ERR, IBV_WC_LOC_ACCESS_ERR, IBV_WC_REM_INV_REQ_ERR, IBV_WC_REM_ACCESS_ERR,
		IBV_WC_REM_OP_ERR, IBV_WC_RETRY_EXC_ERR, IBV_WC_RNR_RETRY_EXC_ERR, IBV_WC_REM_ABORT_ERR, IBV_WC_FATAL_ERR,
	};
	uint64_t status = softroce_cqe_status(cqe);
	return status < sizeof of / sizeof *of ? of[status] : IBV_WC_GENERAL_ERR;
}

enum ibv_wc_opcode wc_opcode(const uint8_t *cqe)
{
	switch (softroce_cqe_opcode(cqe)) {
	case SOFTROCE_OP_WRITE:
	case SOFTROCE_OP_WRITE_IMM:
		return IBV_WC_RDMA_WRITE;
	case SOFTROCE_OP_READ:
		return IBV_WC_RDMA_READ;
	case SOFTROCE_OP_COMPARE_SWAP:
		return IBV_WC_COMP_SWAP;
	case SOFTROCE_OP_FETCH_ADD:
		return IBV_WC_FETCH_ADD;
	case SOFTROCE_OP_LOCAL_INV:
		return IBV_WC_LOCAL_INV;
	case SOFTROCE_OP_BIND_WINDOW:
		return IBV_WC_BIND_MW;
	case SOFTROCE_OP_RECV:
		return IBV_WC_RECV;
	case SOFTROCE_OP_RECV_WRITE_IMM:
		return IBV_WC_RECV_RDMA_WITH_IMM;
	}
	return IBV_WC_SEND;
}

unsigned int wc_flags(const uint8_t *cqe)
{
	return (softroce_cqe_has_imm(cqe) ? IBV_WC_WITH_IMM : 0) | (softroce_cqe_has_inv(cqe) ? IBV_WC_WITH_INV : 0) |
	       (softroce_cqe_has_grh(cqe) ? IBV_WC_GRH : 0);
}

/*
 * wc_sl is the service level, which RoCE does not have. For a datagram it says of which kind the network header is, as NICs
 * with the driver mlx5 do: 8 for UDP, and 1 for IPv6 or 2 for IPv4. UCX 1.13 needs it.
 */
uint8_t wc_sl(const uint8_t *cqe)
{
	return softroce_cqe_has_grh(cqe) ? 8 | (softroce_cqe_ipv4(cqe) ? 2 : 1) : 0;
}

/* wc_imm is the immediate data in network byte order, or the key that was invalidated in that of the machine. */
__be32 wc_imm(const uint8_t *cqe)
{
	uint32_t imm = (uint32_t)softroce_cqe_immediate(cqe);
	return softroce_cqe_has_inv(cqe) ? imm : htobe32(imm);
}

static void wc_of(const uint8_t *cqe, struct ibv_wc *wc)
{
	*wc = (struct ibv_wc){
		.wr_id = softroce_cqe_wr_id(cqe),
		.status = wc_status(cqe),
		.qp_num = (uint32_t)softroce_cqe_qpn(cqe),
		.vendor_err = (uint32_t)softroce_cqe_status(cqe),
	};
	if (wc->status != IBV_WC_SUCCESS)
		return;
	wc->opcode = wc_opcode(cqe);
	wc->byte_len = (uint32_t)softroce_cqe_length(cqe);
	wc->imm_data = wc_imm(cqe);
	wc->src_qp = (uint32_t)softroce_cqe_src_qp(cqe);
	wc->wc_flags = wc_flags(cqe);
	wc->sl = wc_sl(cqe);
}

/*
 * should_yield counts polls that found nothing. A program that polls in a loop may have the processor that the engine,
 * or the program of the other end, needs for the next completion, so it yields now and then. The caller has the lock.
 */
bool should_yield(struct cq *cq, bool found)
{
	cq->empty_polls = found ? 0 : cq->empty_polls + 1;
	return !found && cq->empty_polls % POLLS_BEFORE_YIELD == 0;
}

/* poll_cq returns completions. After the end of the device, -1 when none is left. */
int poll_cq(struct ibv_cq *ibv, int n, struct ibv_wc *wc)
{
	struct cq *cq = to_cq(ibv);
	struct context *c = to_context(ibv->context);
	uint8_t cqe[SOFTROCE_CQE_BYTES];
	int found = 0, state = gone(c); /* before the queue is read: the agent writes no completion after its end */
	if (state == FORKED) {
		errno = EIO;
		return -1;
	}
	pthread_mutex_lock(&cq->lock);
	while (found < n && cq_next(cq, cqe))
		wc_of(cqe, &wc[found++]);
	if (found > 0)
		show(&cq->ring);
	bool yield = should_yield(cq, found > 0);
	pthread_mutex_unlock(&cq->lock);
	if (found == 0 && n > 0 && state != ALIVE) {
		errno = EIO;
		return -1;
	}
	if (yield)
		sched_yield();
	return found;
}

/*
 * req_notify_cq requests a signal for the next completion, or the next that is solicited or an error. A program may call it
 * between ibv_start_poll and ibv_end_poll.
 */
int req_notify_cq(struct ibv_cq *ibv, int solicited_only)
{
	struct cq *cq = to_cq(ibv);
	uint32_t want = solicited_only ? SOFTROCE_ARMED_SOLICITED : SOFTROCE_ARMED_ANY;
	if (gone(to_context(ibv->context)) != ALIVE)
		return failed(EIO);
	pthread_mutex_lock(&cq->arm_lock); /* against ibv_resize_cq */
	uint32_t *armed = ring_word(&cq->ring, SOFTROCE_RING_ARMED_AT);
	uint32_t now = __atomic_load_n(armed, __ATOMIC_SEQ_CST);
	while (now < want && !__atomic_compare_exchange_n(armed, &now, want, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
		;
	pthread_mutex_unlock(&cq->arm_lock);
	return 0;
}
