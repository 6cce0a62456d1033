/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The destination table: finding, creating, and what each packet writes into
 * its entry.
 */
#ifndef SOFTROCE_DEST_H
#define SOFTROCE_DEST_H

#define NO_SAMPLE ((__s64)0x7fffffffffffffff)

/* RoCEv2 opcodes of the reliable connection that these programs read (IBTA 9.2.1). */
#define OP_RC_READ_REQUEST 0x0c
#define OP_RC_READ_RESPONSE_FIRST 0x0d
#define OP_RC_READ_RESPONSE_ONLY 0x10
#define OP_RC_ACK 0x11
#define OP_RC_ATOMIC_ACK 0x12
#define OP_RC_CMP_SWAP 0x13
#define OP_RC_FETCH_ADD 0x14
#define OP_RC_LAST 0x1f
#define OP_CNP 0x81

/* Opcodes of this project (docs/reference/wire-format.md). */
#define OP_HELLO 0xc0
#define OP_HELLO_ACK 0xc1
#define OP_CREDIT_GRANT 0xc2
#define OP_CREDIT_RETURN 0xc3
#define OP_SACK 0xc4
#define OP_RATE_LIMIT 0xc5
#define OP_ECHO 0xc6

#define PROBE_TIMEOUT_NS 1000000000ull

/*
 * Largest age of a stamp that is still echoed. The receive time (S1.4) of an older one
 * would be the time for which this host was idle.
 */
#define ECHO_MAX_AGE_NS 1000000000ll

/* Largest RTT that is believed; an echo with a larger or a negative one is ignored. */
#define ECHO_MAX_RTT_NS 10000000000ll

/* 1: stamps have CLOCK_TAI, 0: CLOCK_MONOTONIC. Chosen when the program is loaded. */
const volatile __u8 clock_tai = 0;

/*
 * A fixed time, for tests. The verifier knows the value of these constants and removes
 * the branches, so they cost nothing.
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

/* wake_agent sends the event that an agent which rests waits for. */
static __noinline int wake_agent(const struct dest_key *key)
{
	struct sr_event *e;
	__u32 zero = 0;
	__u32 *rests = bpf_map_lookup_elem(&agent_rests, &zero);

	if (!key || !rests || !READ_ONCE(*rests))
		return 0;
	WRITE_ONCE(*rests, 0); /* before the event, after which the agent may write 1 again */
	e = event_begin(SR_EVENT_ACTIVE, key, 0, clock_now());
	if (e)
		bpf_ringbuf_submit(e, 0);
	return 0;
}

/* mark_active puts the destination into the active queue, once per evaluation. */
static __always_inline void mark_active(struct dest_regs *d, const struct dest_key *key)
{
	if (d->queued)
		return;
	d->queued = 1;
	if (bpf_map_push_elem(&active, key, 0)) {
		d->queued = 0;
		count(SR_STAT_active_lost);
	}
	wake_agent(key); /* after the push: the agent looks at the queue after it has written 1 */
}

/*
 * dest_create makes the entry of a destination that this host sends to. Returns NULL if
 * the table is full. The agent receives an event and sends a HELLO from `own`, the source.
 */
static __noinline struct dest_regs *dest_create(const struct dest_key *key, __u64 own, __u64 now)
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
	d->valid_after_ns = now; /* a peer may echo a stamp that it got before this host was attached again */
	d->tx_own = own;
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
		e = event_begin(SR_EVENT_NEW_DEST, key, own, now);
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
 * is_feedback returns whether a packet acknowledges. The peer sends it when data of this
 * host arrives, so the time between the two is the receiver turnaround.
 */
static __always_inline int is_feedback(__u8 opcode)
{
	return opcode == OP_RC_ACK || opcode == OP_RC_ATOMIC_ACK || opcode == OP_SACK ||
	       opcode == OP_HELLO_ACK;
}

/*
 * note_echo measures with an echo of the peer (S1.4): T1 and T2 are in the echo, T3 is the
 * arrival. T1 and T3 are of this host's clock, so the RTT is exact. T2 - T1 is known modulo
 * 2^48; the value closest to the one before is taken, so it has no jump where the
 * difference of the clocks passes 2^47.
 *
 * Every packet of the peer echoes the latest stamp that arrived there, so each ACK has an
 * echo. Only the first echo of a stamp counts: the receive time of a later one contains
 * the time for which this host sent nothing.
 *
 * The receive time of an acknowledgement contains the receiver turnaround. Any other
 * packet (request, data, READ response, ECHO) leaves when its sender has data and its
 * pacer permits. That time is subtracted, measured on the peer's clock.
 */
static __always_inline void note_echo(struct dest_regs *d, const struct stamp *s, __u64 t3,
				      __u8 opcode)
{
	int feedback = is_feedback(opcode), control = opcode == OP_HELLO_ACK;
	__s64 turnaround = time_diff(s->t1_ns, s->echo_t2_ns);
	__s64 rtt = time_diff(t3, s->echo_t1_ns), tx, rx;
	__u64 t1 = t3 - rtt;
	__s64 newer = t1 - d->last_echo_t1_ns;

	if (d->last_echo_t1_ns && newer <= 0 && newer > -ECHO_MAX_AGE_NS)
		return;
	if (!feedback) {
		if (!(s->flags & STAMP_T1))
			return;
		rtt -= turnaround;
		turnaround = 0;
	}
	if (rtt < 0 || rtt > ECHO_MAX_RTT_NS) {
		count(SR_STAT_rx_echo_absurd);
		return;
	}
	tx = d->tx_ns + time_diff(s->echo_t2_ns - s->echo_t1_ns, d->tx_ns);
	rx = rtt - tx;
	d->last_echo_t1_ns = t1;
	d->tx_ns = tx;
	d->rx_ns = rx;
	if (s->flags & STAMP_T1)
		d->turnaround_ns = turnaround;
	/*
	 * A packet that left under an earlier rate does not measure the present one. A HELLO
	 * of the agent does: it does not pass the pacer, and the agent sends one in the
	 * baseline pause.
	 */
	if (!control && (__s64)(t1 - d->valid_after_ns) < 0) {
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

/* note_stamp stores what an option with the right token contains (S1.3, S1.4). */
static __always_inline void note_stamp(struct dest_regs *d, const struct stamp *s, __u64 t2,
				       __u8 opcode)
{
	if (s->flags & STAMP_T1 && opcode != OP_ECHO) { /* S1.3 is about data, and ECHO is none */
		__s64 in_tx = time_diff(t2, s->t1_ns);

		WRITE_ONCE(d->peer_t1_ns, s->t1_ns);
		WRITE_ONCE(d->in_tx_ns, in_tx);
		WRITE_ONCE(d->echo_guard, ~(s->t1_ns ^ (__u64)in_tx));
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

/* take_echo puts the echo for this destination into a stamp. echo_guard shows a torn read. */
static __always_inline void take_echo(struct dest_regs *d, struct stamp *s, __u64 now)
{
	__u64 t1 = READ_ONCE(d->peer_t1_ns), in_tx = READ_ONCE(d->in_tx_ns);
	__s64 age = time_diff(now, t1 + in_tx);

	/* An age of 39 to 78 hours seems negative here; the peer's check of the RTT refuses that echo. */
	if (READ_ONCE(d->echo_guard) == ~(t1 ^ in_tx) && age < ECHO_MAX_AGE_NS) {
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
 * note_loss counts n signs of loss of sent packets. They count from the first echo of a
 * packet that left under the present rate, as delays do: a go-back-N sender continues to
 * lose and retransmit for a while after the decrease. Without stamps there is no such
 * echo, and all signs count.
 */
static __always_inline void note_loss(struct dest_regs *d, __u32 n, int stamped)
{
	if (!stamped || (__s64)(d->last_echo_t1_ns - d->valid_after_ns) >= 0)
		add32(&d->win_loss, n);
}

/*
 * Largest distance of an unacknowledged packet from the last one of its flow. A NAK of a
 * plain peer for an older PSN is not believed.
 */
#define PSN_IN_FLIGHT 4096

/*
 * answers_us returns whether a packet with this PSN can be the answer to one that this
 * host has sent recently. A plain peer has no token, so a forged NAK must at least have
 * such a PSN.
 */
static __always_inline int answers_us(const struct dest_regs *d, __u32 psn)
{
	int found = 0;

#pragma unroll
	for (int i = 0; i < SR_PSN_SLOTS; i++)
		found |= d->flows[i].qpn && !(d->flows[i].psn >> 31) &&
			 ((d->flows[i].psn - psn) & 0xffffff) < PSN_IN_FLIGHT;
	return found;
}

/* nak_syndrome returns the AETH syndrome of a NAK or RNR NAK, 0 = the packet is neither. */
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
 * note_probe measures the RTT of the probed packet with its answer. Returns whether the
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
	if (rtt > 0) { /* else it left before the departure that the pacer computed */
		if (d->probe_ns >= d->valid_after_ns && rtt < d->win_rtt_ns)
			d->win_rtt_ns = rtt;
		d->rtt_ns = rtt;
	}
	d->probe_ns = 0;
	return 1;
}

/*
 * note_request records a request or a READ response that is sent: a regression of its PSN,
 * whether feedback is due, and an RTT probe if the packet has no stamp. There is one probe
 * at a time, on a packet that will be acknowledged. The packet stays in the pacer for
 * `wait`, until `leaves`; len is the length of its L2 frame without the option.
 *
 * A repeated READ request shows that responses were lost on the reverse path: it is a
 * retransmission, but no loss of this host's data. A repeated READ response is such a
 * loss. A READ request is not probed either: at the responder its answer is queued behind
 * earlier ones, so the time is no RTT of the network.
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
		add(&d->psn_regressions, 1);
		if (op != OP_RC_READ_REQUEST && !all_wait(d, back, len, wait))
			note_loss(d, 1, stamped);
		if (!response)
			d->probe_ns = 0; /* Karn's rule: the answer may belong to either transmission */
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
