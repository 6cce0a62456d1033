/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Ingress: an arriving packet passes parse, own addresses, stamp, control, steer, pass. */
#ifndef SOFTROCE_INGRESS_H
#define SOFTROCE_INGRESS_H

/* other_host returns whether a frame is addressed to another machine (bridges, promiscuous mode). */
static __always_inline int other_host(const void *eth, const struct sr_config *cfg)
{
	__u64 own = mac_word(cfg->mac);

	return own && mac_word(eth) != own;
}

/*
 * frame_surplus returns the bytes of the frame behind the datagram (Ethernet padding), or
 * a negative number if the frame is too short.
 */
static __always_inline __s32 frame_surplus(struct xdp_md *ctx, const struct roce *r)
{
	__u32 linear = ctx->data_end - ctx->data, need = ETH_HLEN + r->ip_len;

	if (need <= linear)
		return linear - need;
	return (__s32)bpf_xdp_get_buff_len(ctx) - (__s32)need;
}

/* What proves that a packet is from the peer with its address (docs/run/security.md). */
enum trust {
	TRUST_PROVEN, /* a stamp with the token of the peer */
	TRUST_PLAIN,  /* the peer sends no stamps, so there is no proof */
	TRUST_NONE,   /* the peer sends stamps, and this packet has no right one */
};

/*
 * concerns_us returns whether a CNP or NAK of a plain peer belongs to traffic of this
 * host: a queue pair of the engine, or for rxe a PSN that was sent recently. A CNP has no
 * PSN.
 */
static __always_inline int concerns_us(const struct dest_regs *d, const struct sr_config *cfg,
				       const struct roce *r, __u64 now)
{
	/* Anybody knows the number of queue pair 1. */
	if (r->qpn != CM_QPN && steer_find(cfg, r->qpn))
		return 1;
	if (r->opcode == OP_CNP)
		return (__s64)(now - d->last_tx_ns) < (__s64)PROBE_TIMEOUT_NS;
	return answers_us(d, bth_psn(r->bth));
}

/* note_trouble counts CNPs and NAKs. Returns whether the policy has to evaluate the destination. */
static __always_inline int note_trouble(struct dest_regs *d, const struct sr_config *cfg,
					const struct roce *r, void *end, __u64 now,
					enum trust trust)
{
	__u8 syndrome = nak_syndrome(r, end);

	if (r->opcode != OP_CNP && !syndrome)
		return 0;
	if (r->opcode == OP_CNP)
		count(SR_STAT_rx_cnp);
	if (trust == TRUST_NONE || (trust == TRUST_PLAIN && !concerns_us(d, cfg, r, now))) {
		count(SR_STAT_rx_unproven);
		return 0;
	}
	if (syndrome) {
		note_nak(d, syndrome);
	} else {
		add(&d->cnps, 1);
		add32(&d->win_ce, 1);
	}
	return 1;
}

/* note_packet counts a packet. Returns whether the policy has to evaluate the destination. */
static __always_inline int note_packet(struct dest_regs *d, const struct sr_config *cfg,
				       struct roce *r, void *end, __u64 now, enum trust trust)
{
	int update = note_trouble(d, cfg, r, end, now, trust);

	add(&d->rx_packets, 1);
	add(&d->rx_bytes, r->ip_hlen + r->udp_len);
	if (trust != TRUST_PROVEN)
		add(&d->rx_unstamped, 1);
	if (trust == TRUST_NONE) {
		if (r->ce)
			count(SR_STAT_rx_unproven);
		r->ce = 0;
		return update;
	}
	d->last_rx_ns = now;
	if (r->opcode >= OP_RC_READ_RESPONSE_FIRST && r->opcode <= OP_RC_ATOMIC_ACK)
		update |= note_probe(d, r, now);
	if (r->ce) {
		add(&d->ces, 1);
		if (!READ_ONCE(d->ce_pending))
			WRITE_ONCE(d->ce_pending, 1);
	}
	return update;
}

/*
 * ask_unknown reports a host without an entry that sends stamps with the right token, and
 * therefore receives at its address. The agent sends it a HELLO: the host's own HELLOs may
 * be lost in the queue that its data fills, and without an entry it gets no echo. Returns whether
 * the token is right.
 */
static __noinline int ask_unknown(const struct dest_key *key, __u64 own, __u64 token, __u64 now)
{
	struct sr_event *e;

	if (!key || token != secret_of(key, SECRET_TOKEN))
		return 0;
	if (!bucket_allows(BUCKET_UNKNOWN, UNKNOWN_RATE))
		return 1;
	e = event_begin(SR_EVENT_HELLO, key, own, now);
	if (!e)
		return 1;
	e->proven = SR_HELLO_PROVEN;
	bpf_ringbuf_submit(e, 0);
	return 1;
}

/*
 * note_stamped takes the stamp of a packet. A sender without the right token has not
 * received the HELLO_ACK at the peer's address, so the whole stamp is forged or outdated
 * and is ignored: the packet counts as one without an option. Returns as note_packet does.
 */
static __always_inline int note_stamped(struct dest_regs *d, const struct dest_key *key,
					const struct sr_config *cfg, struct roce *r, void *end,
					struct stamp *s, int own, __u64 now)
{
	int update;

	if (!d) {
		count(SR_STAT_rx_stamped);
		count(SR_STAT_rx_unknown_peer);
		s->flags = 0;
		r->ce = 0;
		s->proven = ask_unknown(key, own_word(r, 0), s->token, now);
		return 0;
	}
	s->proven = s->token && s->token == d->rx_token;
	update = note_packet(d, cfg, r, end, now, s->proven ? TRUST_PROVEN : TRUST_NONE);
	if (!s->proven) {
		count(SR_STAT_rx_token_wrong);
		s->flags = 0;
		return update;
	}
	count(SR_STAT_rx_stamped);
	if (d->rx_own != own)
		WRITE_ONCE(d->rx_own, own);
	note_stamp(d, s, now, r->opcode);
	/* For a T1 the agent checks whether an ECHO is needed. */
	return update | (s->flags & (STAMP_T1 | STAMP_ECHO | STAMP_CE));
}

static __always_inline int note_unstamped(struct dest_regs *d, const struct sr_config *cfg,
					  struct roce *r, void *end, __u64 now)
{
	if (!d)
		return 0;
	return note_packet(d, cfg, r, end, now,
			   READ_ONCE(d->caps) & SR_CAP_STAMP ? TRUST_NONE : TRUST_PLAIN);
}

/*
 * strip removes the option, which the kernel stack must not receive. The IP length alone
 * does that, because the bytes behind it are padding. Where possible the frame is shortened
 * as well, but not a frame of several buffers: veth and generic XDP leave skb->len too long
 * then (Linux 6.18), and the packet is lost.
 */
static __always_inline void strip(struct xdp_md *ctx, struct roce *r, __s32 padding)
{
	int one_buffer = ETH_HLEN + r->ip_len + padding == (__u32)(ctx->data_end - ctx->data);

	ip_add_length(r, -STAMP_LEN);
	if (one_buffer && bpf_xdp_adjust_tail(ctx, -STAMP_LEN - padding))
		count(SR_STAT_rx_strip_failed);
}

/*
 * rare_over_limit returns whether a packet in a rare form exceeds what its sender may send to this
 * host: another form of its packets must not evade the limit (limit.h).
 */
static __always_inline int rare_over_limit(const void *data, const void *end, __u32 ip_off)
{
	const struct sr_config *cfg = get_config();
	struct roce r = { .ip = (void *)data + ip_off };
	struct dest_key key;

	/* The shortest Ethernet frame has more bytes. */
	if (!cfg || !policing() || r.ip + IPV6_HLEN > end || other_host(data, cfg))
		return 0;
	r.v6 = *(__u8 *)r.ip >> 4 == 6;
	r.ip_len = r.v6 ? IPV6_HLEN + bpf_ntohs(LD16(r.ip + 4)) : bpf_ntohs(LD16(r.ip + 2));
	if (own_destination(&r, &key) == OWN_NOT)
		return 0;
	peer_key(&r, 1, &key);
	return over_limit(&key, r.ip_len, 1);
}

/* What ingress_rare returns for a frame whose priority tag it has removed: to be parsed again. */
#define UNTAGGED (-1)

/* remove_tag removes the only VLAN tag of a frame, if the frame is for this host. */
static __always_inline int remove_tag(struct xdp_md *ctx, void *data, void *end)
{
	const struct sr_config *cfg = get_config();
	__u32 a, b, c;

	if (!cfg || data + ETH_HLEN + VLAN_HLEN > end || other_host(data, cfg))
		return XDP_PASS;
	a = LD32(data);
	b = LD32(data + 4);
	c = LD32(data + 8);
	ST32(data + VLAN_HLEN, a);
	ST32(data + VLAN_HLEN + 4, b);
	ST32(data + VLAN_HLEN + 8, c);
	return bpf_xdp_adjust_head(ctx, VLAN_HLEN) ? XDP_DROP : UNTAGGED;
}

/* ingress_rare counts a frame that may be RoCEv2 in a rare form, and passes it unread. */
static __noinline int ingress_rare(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	__u32 found = parse_rare(data, end);

	switch (found & ((1 << RARE_BITS) - 1)) {
	case RARE_PRIORITY:
		return remove_tag(ctx, data, end);
	case RARE_VLAN:
		count(SR_STAT_rx_vlan);
		return XDP_PASS;
	case RARE_FRAGMENT:
		count(SR_STAT_rx_fragment);
		break;
	case RARE_OPTIONS:
		count(SR_STAT_rx_ip_options);
		break;
	case RARE_EXTENSION:
		count(SR_STAT_rx_extension);
		break;
	default:
		return XDP_PASS;
	}
	return rare_over_limit(data, end, found >> RARE_BITS & 0x1f) ? XDP_DROP : XDP_PASS;
}

static __always_inline int ingress(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	const struct sr_config *cfg;
	const struct steer *st;
	struct dest_regs *d;
	struct dest_key key;
	struct stamp s = {};
	struct roce r;
	__s32 padding;
	__u64 now;
	int why, update, own, untagged = 0;
	enum verdict v;

	/* One call of the parser, as in egress. A frame without its tag is parsed again. */
	for (;;) {
		v = parse(data, end, &r);
		if (__builtin_expect(v != RARE || untagged, 1))
			break;
		why = ingress_rare(ctx);
		if (why != UNTAGGED)
			return why;
		data = (void *)(long)ctx->data;
		end = (void *)(long)ctx->data_end;
		untagged = 1;
	}
	switch (v) {
	case ROCE:
		break;
	case BAD_LENGTH:
		count(SR_STAT_rx_bad_length);
		return XDP_PASS;
	case SHORT_ROCE:
		count(SR_STAT_rx_truncated);
		return XDP_PASS;
	default:
		return XDP_PASS;
	}
	cfg = get_config();
	if (!cfg)
		return XDP_PASS;
	if (other_host(data, cfg)) {
		count(SR_STAT_rx_other_host);
		return XDP_PASS;
	}
	own = own_destination(&r, &key);
	if (own == OWN_NOT) {
		count(SR_STAT_rx_forwarded);
		return XDP_PASS;
	}
	padding = frame_surplus(ctx, &r);
	if (padding < 0) {
		count(SR_STAT_rx_truncated);
		return XDP_PASS;
	}
	if (is_control(&r))
		return control(ctx);

	now = clock_now();
	peer_key(&r, 1, &key);
	d = bpf_map_lookup_elem(&dest_table, &key);
	why = r.surplus ? read_option(ctx, &r, data, end, &s) : SR_STAT_rx_unstamped;
	if (!why) {
		update = note_stamped(d, &key, cfg, &r, end, &s, own, now);
	} else {
		s.flags = 0;
		count(why);
		update = note_unstamped(d, cfg, &r, end, now);
	}
	if (update)
		mark_active(d, &key);
	if (policing() && over_limit(&key, r.ip_hlen + r.udp_len, is_data(&r)))
		return XDP_DROP;
	st = steer_find(cfg, r.qpn);
	if (st && r.qpn == CM_QPN) {
		struct dest_key to;

		peer_key(&r, 0, &to);
		if (!cm_owns(r.bth, end, r.udp_len, &key, &to))
			st = NULL;
	}
	if (!why || why == SR_STAT_rx_option_version)
		strip(ctx, &r, padding);
	return st ? steer_packet(ctx, st, &s, r.ce, now) : XDP_PASS;
}

#endif
