/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Limits of what a host receives (S1.8, S4.5). The receiver names a rate in a RATE_LIMIT:
 *
 *   BTH(12)  0 version(16)=1  2 flags(16)  4 epoch(32)  8 rate(64)  16 life(64)  24 zero(64)
 *
 * The sender keeps the latest one in rate_limits, and its agent enforces it. The receiver drops
 * what arrives from a sender that does not (arrival_limits). rocev2/ratelimit.go has the format.
 */
#ifndef SOFTROCE_LIMIT_H
#define SOFTROCE_LIMIT_H

#define LIMIT_VERSION 1
#define LIMIT_MIN_BPS 64000ull                  /* a lower rate counts as this one */
#define LIMIT_MAX_LIFE_NS (10 * NSEC_PER_SEC)   /* a longer life counts as this one */

/* limit_fits returns whether a body is a RATE_LIMIT of this version: 0 is not a rate. */
static __always_inline int limit_fits(const void *body)
{
	return LD16(body) == bpf_htons(LIMIT_VERSION) && LD64(body + 8);
}

/* limits_changed has the agent read rate_limits. */
static __always_inline void limits_changed(void)
{
	__u32 zero = 0;
	struct limit_words *s = bpf_map_lookup_elem(&limit_state, &zero);

	if (s)
		add32(&s->received, 1);
}

/* take_limit stores the limit of a RATE_LIMIT that its peer has sent. */
static __always_inline enum sr_reason take_limit(const struct dest_key *key, const void *body)
{
	__u64 life = bpf_be64_to_cpu(LD64(body + 16));
	struct rate_limit to = {
		.rate_bps = bpf_be64_to_cpu(LD64(body + 8)),
		.epoch = bpf_ntohl(LD32(body + 4)),
		.received = 1,
	}, *has;

	if (to.rate_bps < LIMIT_MIN_BPS)
		to.rate_bps = LIMIT_MIN_BPS;
	if (life > LIMIT_MAX_LIFE_NS)
		life = LIMIT_MAX_LIFE_NS;
	to.until_ns = mono_now() + life;
	has = bpf_map_lookup_elem(&rate_limits, key);
	if (!has) {
		bpf_map_update_elem(&rate_limits, key, &to, BPF_NOEXIST);
	} else {
		if ((__s32)(to.epoch - has->epoch) <= 0)
			return SR_STAT_rate_limit_old;
		has->epoch = to.epoch;
		has->received++;
		WRITE_ONCE(has->rate_bps, to.rate_bps);
		WRITE_ONCE(has->until_ns, to.until_ns);
	}
	limits_changed();
	return SR_STAT_rate_limit;
}

/* forget_limit ends the limit of a peer and forgets its epoch. */
static __always_inline void forget_limit(const struct dest_key *key)
{
	if (!bpf_map_delete_elem(&rate_limits, key))
		limits_changed();
}

static __always_inline int policing(void)
{
	__u32 zero = 0;
	const struct limit_words *s = bpf_map_lookup_elem(&limit_state, &zero);

	return s && READ_ONCE(s->policed);
}

/*
 * is_data returns whether a packet has data that may be dropped: SEND, WRITE and READ responses.
 * Requests, answers and messages of the communication manager are small and pass.
 */
static __always_inline int is_data(const struct roce *r)
{
	__u8 op = r->opcode & 0x1f;

	if (r->qpn == CM_QPN)
		return 0;
	switch (r->opcode >> 5) {
	case 0: /* RC */
	case 1: /* UC */
		return op < OP_RC_READ_REQUEST || op == 0x16 || op == 0x17 || op == 0x1d ||
		       (op >= OP_RC_READ_RESPONSE_FIRST && op <= OP_RC_READ_RESPONSE_ONLY);
	case 3: /* UD */
		return 1;
	default: /* out-of-order mode: OWRITE, OREAD_RESP */
		return r->opcode == 0xc8 || r->opcode == 0xca;
	}
}

/*
 * over_limit returns whether a packet is to be dropped because its sender exceeds its limit. The
 * bucket is stored as the time at which what has arrived would have arrived at the rate. len is
 * the length of the IP packet without the option.
 */
static __noinline int over_limit(const struct dest_key *key, __u32 len, int data)
{
	const struct arrival_limit *l;
	struct arrival_count *c;
	__u64 now = mono_now(), cost;
	__s64 ahead;

	if (!key)
		return 0;
	l = bpf_map_lookup_elem(&arrival_limits, key);
	if (!l || !l->rate_bps || (__s64)(l->until_ns - now) <= 0)
		return 0;
	c = bpf_map_lookup_elem(&arrival_counts, key);
	if (!c)
		return 0;
	ahead = READ_ONCE(c->empty_ns) - now;
	if (ahead > (__s64)l->burst_ns) {
		if (!data)
			return 0;
		add(&c->dropped_packets, 1);
		add(&c->dropped_bytes, len);
		count(SR_STAT_rx_over_limit);
		return 1;
	}
	cost = frame_ns(len + ETH_HLEN, l->rate_bps);
	if (ahead < 0)
		WRITE_ONCE(c->empty_ns, now + cost);
	else /* atomic: several CPUs may receive from one sender */
		__sync_fetch_and_add(&c->empty_ns, cost);
	return 0;
}

#endif
