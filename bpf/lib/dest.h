/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The destination table: finding, creating, and what each packet writes into
 * its entry.
 */
#ifndef SOFTROCE_DEST_H
#define SOFTROCE_DEST_H

#define NO_SAMPLE ((__s64)0x7fffffffffffffff)

/* RoCEv2 opcodes of the reliable connection that we look at (IBTA 9.2.1). */
#define OP_RC_READ_REQUEST 0x0c
#define OP_RC_READ_RESPONSE_FIRST 0x0d
#define OP_RC_READ_RESPONSE_ONLY 0x10
#define OP_RC_ACK 0x11
#define OP_RC_ATOMIC_ACK 0x12
#define OP_RC_CMP_SWAP 0x13
#define OP_RC_FETCH_ADD 0x14
#define OP_RC_LAST 0x1f
#define OP_CNP 0x81

/* Our own (docs/wire-format.md). */
#define OP_HELLO 0xc0
#define OP_HELLO_ACK 0xc1
#define OP_CREDIT_GRANT 0xc2
#define OP_CREDIT_RETURN 0xc3
#define OP_SACK 0xc4
#define OP_ECHO 0xc6

#define PROBE_TIMEOUT_NS 1000000000ull

/*
 * A stamp that nothing answered for this long is not echoed any more: S1.4's
 * receive time would be the time that this host was idle.
 */
#define ECHO_MAX_AGE_NS 1000000000ll

/* An echo that says the round trip took longer than this, or less than nothing, lies. */
#define ECHO_MAX_RTT_NS 10000000000ll

/* The clock of the stamps: one of two, chosen when the program is loaded. */
const volatile __u8 clock_tai = 0;

/*
 * For tests, a clock that stands still. The verifier knows the value of these
 * constants and takes the branches out, so they cost nothing.
 */
const volatile __u8 clock_fixed = 0;
const volatile __u64 clock_fixed_ns = 0;

static __always_inline __u64 mono_now(void)
{
	return clock_fixed ? clock_fixed_ns : bpf_ktime_get_ns();
}

static __always_inline __u64 clock_now(void)
{
	return clock_tai ? bpf_ktime_get_tai_ns() : mono_now();
}

/* Puts the destination on the agent's list, once per evaluation. */
static __always_inline void mark_active(struct dest_regs *d, const struct dest_key *key)
{
	if (d->queued)
		return;
	d->queued = 1;
	if (bpf_map_push_elem(&active, key, 0)) {
		d->queued = 0;
		count(SR_STAT_active_lost);
	}
}

/*
 * A new entry for a destination that this host sends to. Returns NULL if the
 * table is full. The agent hears of it and sends a HELLO.
 */
static __noinline struct dest_regs *dest_create(const struct dest_key *key, __u64 now)
{
	const struct sr_config *cfg = get_config();
	struct dest_regs *d;
	struct sr_event *e;
	__u32 zero = 0;
	int err;

	if (!key || !cfg)
		return NULL;
	d = bpf_map_lookup_elem(&scratch, &zero);
	if (!d)
		return NULL;
	__builtin_memset(d, 0, sizeof(*d));
	d->last_tx_ns = now;
	d->rate_bps = cfg->initial_rate_bps;
	d->stack_rate_bps = cfg->initial_rate_bps;
	d->engine_rate_bps = cfg->initial_rate_bps;
	d->policy.rate_bps = cfg->initial_rate_bps;
	d->win_tx_ns = NO_SAMPLE;
	d->win_rx_ns = NO_SAMPLE;
	d->win_rtt_ns = NO_SAMPLE;
	d->rx_token = secret_of(key, SECRET_TOKEN);

	err = bpf_map_update_elem(&dest_table, key, d, BPF_NOEXIST);
	if (!err) {
		e = event_begin(SR_EVENT_NEW_DEST, key, now);
		if (e)
			bpf_ringbuf_submit(e, 0);
	} else if (err == -7 /* E2BIG */ || err == -12 /* ENOMEM */) {
		count(SR_STAT_tx_table_full);
		return NULL;
	}
	/* EEXIST: another CPU was first. */
	return bpf_map_lookup_elem(&dest_table, key);
}

/*
 * Whether a packet acknowledges: it leaves because mine arrived, so that the time
 * between the two is the receiver's turnaround.
 */
static __always_inline int is_feedback(__u8 opcode)
{
	return opcode == OP_RC_ACK || opcode == OP_RC_ATOMIC_ACK || opcode == OP_SACK ||
	       opcode == OP_HELLO_ACK;
}

/*
 * S1.4: the peer gave back our stamp. T1, T2 from the echo, T3 is now. T1 and T3 are of
 * our clock, so the round trip is exact; T2 - T1 is the value modulo 2^48 that is closest
 * to the one before, and goes on steadily where the clocks' difference passes 2^47.
 *
 * Every packet of the peer echoes the latest stamp that it has, so that each ACK
 * carries one; the first echo of a stamp is news, later ones would only tell how
 * long we had nothing to send.
 *
 * The receive time of an acknowledgement contains the turnaround. Any other packet
 * (request, data, READ response, ECHO) leaves when its sender has something to send and
 * its pacer allows it. How long that took is no receive time: it is taken off, by the
 * peer's own clock.
 */
static __always_inline void note_echo(struct dest_regs *d, const struct stamp *s, __u64 t3,
				      __u8 opcode)
{
	int feedback = is_feedback(opcode), control = opcode == OP_HELLO_ACK;
	__s64 turn = time_diff(s->t1_ns, s->echo_t2_ns);
	__s64 rtt = time_diff(t3, s->echo_t1_ns), tx, rx;
	__u64 t1 = t3 - rtt;
	__s64 newer = t1 - d->echo_seen_ns;

	if (d->echo_seen_ns && newer <= 0 && newer > -ECHO_MAX_AGE_NS)
		return;
	if (!feedback) {
		if (!(s->flags & STAMP_T1))
			return;
		rtt -= turn;
		turn = 0;
	}
	if (rtt < 0 || rtt > ECHO_MAX_RTT_NS) {
		count(SR_STAT_rx_echo_absurd);
		return;
	}
	tx = d->tx_ns + time_diff(s->echo_t2_ns - s->echo_t1_ns, d->tx_ns);
	rx = rtt - tx;
	d->echo_seen_ns = t1;
	d->tx_ns = tx;
	d->rx_ns = rx;
	if (s->flags & STAMP_T1)
		d->turn_ns = turn;
	/*
	 * A packet that left under an earlier rate says nothing of this one. The
	 * agent's own HELLO does: it does not wait in the pacer, and the agent sends
	 * one into the pause that it makes to find the baseline.
	 */
	if (!control && (__s64)(t1 - d->settle_ns) < 0) {
		count(SR_STAT_rx_echo_stale);
		return;
	}
	if (tx < d->win_tx_ns)
		d->win_tx_ns = tx;
	if (rx < d->win_rx_ns)
		d->win_rx_ns = rx;
	if (rtt < d->win_rtt_ns)
		d->win_rtt_ns = rtt;
	d->win_samples++;
}

/* S1.3: the peer's stamp, which is proven to be its. What else the option says. */
static __always_inline void note_stamp(struct dest_regs *d, const struct stamp *s, __u64 t2,
				       __u8 opcode)
{
	if (s->flags & STAMP_T1 && opcode != OP_ECHO) { /* which is no data: S1.3 */
		__s64 in_tx = time_diff(t2, s->t1_ns);

		WRITE_ONCE(d->peer_t1_ns, s->t1_ns);
		WRITE_ONCE(d->in_tx_ns, in_tx);
		WRITE_ONCE(d->echo_check, ~(s->t1_ns ^ (__u64)in_tx));
	}
	if (s->flags & STAMP_ECHO)
		note_echo(d, s, t2, opcode);
	if (s->flags & STAMP_CREDIT) {
		d->credit = s->credit;
		d->credit_seq = s->credit_seq;
	}
	if (s->flags & STAMP_CE)
		add32(&d->win_ce, 1);
}

/* The echo for a packet to this destination, with the reader's end of echo_check. */
static __always_inline void take_echo(struct dest_regs *d, struct stamp *s, __u64 now)
{
	__u64 t1 = READ_ONCE(d->peer_t1_ns), in_tx = READ_ONCE(d->in_tx_ns);
	__s64 age = time_diff(now, t1 + in_tx);

	/* One of 39 to 78 hours looks young; who gets it finds the round trip absurd. */
	if (READ_ONCE(d->echo_check) == ~(t1 ^ in_tx) && age < ECHO_MAX_AGE_NS) {
		s->flags |= STAMP_ECHO;
		s->echo_t1_ns = t1;
		s->echo_t2_ns = t1 + in_tx;
	}
	if (READ_ONCE(d->ce_pending)) {
		WRITE_ONCE(d->ce_pending, 0);
		s->flags |= STAMP_CE;
	}
}

/*
 * Signs that n packets of ours were lost. Like a delay, they count once packets that left
 * under the rate in force are known to have arrived: a go-back-N sender goes on losing and
 * repeating for a while after the cut that answers it. Only stamped packets are known to.
 */
static __always_inline void note_loss(struct dest_regs *d, __u32 n, int stamped)
{
	if (!stamped || (__s64)(d->echo_seen_ns - d->settle_ns) >= 0)
		add32(&d->win_loss, n);
}

/*
 * How far behind the last packet of a flow one can be that is not acknowledged yet: what
 * a plain peer says of others is not believed.
 */
#define PSN_UNDER_WAY 4096

/*
 * Whether this host has sent something lately that a packet with this PSN can be the
 * answer to. A plain peer proves nothing; who forges its NAKs must at least guess this.
 */
static __always_inline int answers_us(const struct dest_regs *d, __u32 psn)
{
	int found = 0;

#pragma unroll
	for (int i = 0; i < SR_PSN_SLOTS; i++)
		found |= d->flows[i].qpn && !(d->flows[i].psn >> 31) &&
			 ((d->flows[i].psn - psn) & 0xffffff) < PSN_UNDER_WAY;
	return found;
}

/* The AETH's syndrome of an acknowledgement, 0 = there is none or it says ACK. */
static __always_inline __u8 nak_syndrome(const struct roce *r, void *end)
{
	__u8 syndrome;

	if (r->opcode != OP_RC_ACK || r->bth + BTH_LEN + 1 > end)
		return 0;
	syndrome = *(__u8 *)(r->bth + BTH_LEN);
	return syndrome >> 5 == 1 || syndrome >> 5 == 3 ? syndrome : 0;
}

static __always_inline void note_nak(struct dest_regs *d, __u8 syndrome)
{
	if (syndrome >> 5 == 1) {
		add(&d->rnrs, 1);
		d->win_rnr = 1;
		return;
	}
	add(&d->naks, 1);
	if (syndrome == 0x60)
		note_loss(d, 1, d->caps & SR_CAP_STAMP);
}

/*
 * The round trip of the probed packet, from the response to it. Returns whether the
 * probe has ended.
 */
static __always_inline int note_probe(struct dest_regs *d, const struct roce *r, __u64 now)
{
	__u8 op = r->opcode;
	__s64 rtt;

	if (!d->probe_ns || bth_psn(r->bth) != d->probe_psn ||
	    (op != OP_RC_ACK && op != OP_RC_ATOMIC_ACK && op != OP_RC_READ_RESPONSE_FIRST &&
	     op != OP_RC_READ_RESPONSE_ONLY))
		return 0;
	rtt = now - d->probe_ns;
	if (rtt > 0) { /* else it left earlier than our pacer thought */
		if (d->probe_ns >= d->settle_ns && rtt < d->win_rtt_ns)
			d->win_rtt_ns = rtt;
		d->rtt_ns = rtt;
	}
	d->probe_ns = 0;
	return 1;
}

/*
 * What a request or a READ response that goes out says: rewinds of its PSN, whether an answer
 * is due, and a probe where the packet has no stamp. One probe at a time, on a packet that will be
 * acknowledged. It waits in the pacer until `leaves`, for so long; len is that of its
 * L2 frame without the option.
 *
 * A READ request that goes again says that its answer was lost, on the way here: it is a
 * retransmission, and no sign of loss of ours. That is what a READ response is that goes again.
 * Nor does a READ request have a round trip of the network's: its answer waits for those
 * before it at the responder.
 */
static __always_inline void note_request(struct dest_regs *d, const struct roce *r, __u32 len,
					 __u64 leaves, __s64 wait, int stamped)
{
	__u8 op = r->opcode;
	int response = op >= OP_RC_READ_RESPONSE_FIRST && op <= OP_RC_READ_RESPONSE_ONLY;
	__u32 psn = bth_psn(r->bth), back;
	__u64 *flow = (__u64 *)&d->flows[(r->qpn + response) & (SR_PSN_SLOTS - 1)], last, own;

	if (stamped)
		d->win_due = 1;
	if (op > OP_RC_LAST || op == OP_RC_ACK || op == OP_RC_ATOMIC_ACK)
		return;
	/* A flow is one word: flows of two CPUs that share a slot never mix their PSNs. */
	own = (__u64)r->qpn << 32 | (__u32)response << 31;
	last = READ_ONCE(*flow);
	WRITE_ONCE(*flow, own | psn);
	back = ((__u32)last + 1 - psn) & 0xffffff;
	if (last >> 31 == own >> 31 && back && back <= 0x800000) {
		add(&d->rewinds, 1);
		if (op != OP_RC_READ_REQUEST && !all_wait(d, back, len, wait))
			note_loss(d, 1, stamped);
		if (!response)
			d->probe_ns = 0; /* Karn: its answer could be the answer to either */
	}

	if (response || op == OP_RC_READ_REQUEST)
		return;
	d->win_due = 1;
	if (stamped || (d->probe_ns && leaves - d->probe_ns < PROBE_TIMEOUT_NS))
		return;
	if (bth_ack_req(r->bth) || op == OP_RC_CMP_SWAP || op == OP_RC_FETCH_ADD) {
		d->probe_psn = psn;
		d->probe_ns = leaves;
	}
}

#endif
