/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A packet's way in (DESIGN: parse, stamp, control, steer, pass). */
#ifndef SOFTROCE_INGRESS_H
#define SOFTROCE_INGRESS_H

/* Frames to other machines may pass through here (bridges, promiscuous mode). */
static __always_inline int other_host(const void *eth, const struct sr_config *cfg)
{
	__u32 hi = LD32(cfg->mac);
	__u16 lo = LD16(cfg->mac + 4);

	return (hi | lo) && (LD32(eth) != hi || LD16(eth + 4) != lo);
}

/*
 * Where the whole datagram ends, against where the frame does. Returns the
 * frame's surplus over it (Ethernet padding), or -1: the frame is too short.
 */
static __always_inline __s32 frame_surplus(struct xdp_md *ctx, const struct roce *r)
{
	__u32 linear = ctx->data_end - ctx->data, need = r->ip_off + r->ip_len;

	if (need <= linear)
		return linear - need;
	return (__s32)bpf_xdp_get_buff_len(ctx) - (__s32)need;
}

/* Reads the option, wherever it lies. Returns 0 or the reason why not. */
static __always_inline int read_option(struct xdp_md *ctx, const struct roce *r, void *data,
				       void *end, struct stamp *s)
{
	__u32 off = r->opt_off;
	__u8 copy[STAMP_LEN] __attribute__((aligned(8)));
	void *opt;

	if (r->surplus != STAMP_LEN || off > MAX_OFFSET)
		return SR_STAT_rx_option_foreign;
	opt = data + bounded(off);
	if (opt + STAMP_LEN <= end)
		return stamp_read(opt, r->udp, s);
	/* A frame of several buffers: the tail is not in the linear part. */
	if (bpf_xdp_load_bytes(ctx, off, copy, STAMP_LEN))
		return SR_STAT_rx_truncated;
	return stamp_read(copy, r->udp, s);
}

/* Returns whether the packet said something that the policy wants to know. */
static __always_inline int note_packet(struct dest_regs *d, const struct roce *r, void *end,
				       __u64 now)
{
	int news = 0;

	add(&d->rx_packets, 1);
	add(&d->rx_bytes, r->ip_hlen + r->udp_len);
	d->last_rx_ns = now;
	if (r->opcode >= OP_RC_READ_RESPONSE_FIRST && r->opcode <= OP_RC_ATOMIC_ACK)
		news = note_response(d, r, end, now);
	if (r->opcode == OP_CNP) {
		add(&d->cnps, 1);
		add32(&d->win_ce, 1);
		count(SR_STAT_rx_cnp);
		news = 1;
	}
	if (r->ce) {
		add(&d->ces, 1);
		if (!READ_ONCE(d->ce_pending))
			WRITE_ONCE(d->ce_pending, 1);
	}
	return news;
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
	int one_buffer;
	__s32 padding;
	__u64 now;
	int why, news = 0;

	switch (parse(data, end, &r, &rx_reasons)) {
	case ROCE:
		break;
	case ODD:
		count(r.reason);
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
	padding = frame_surplus(ctx, &r);
	if (padding < 0) {
		count(SR_STAT_rx_truncated);
		return XDP_PASS;
	}
	one_buffer = r.ip_off + r.ip_len + padding == (__u32)(end - data);
	if (is_control(&r))
		return control(ctx);

	now = clock_now();
	peer_key(&r, 1, &key);
	d = bpf_map_lookup_elem(&dest_table, &key);
	if (d)
		news = note_packet(d, &r, end, now);

	if (!r.surplus) {
		count(SR_STAT_rx_unstamped);
		if (d)
			add(&d->rx_unstamped, 1);
		goto steer;
	}
	why = read_option(ctx, &r, data, end, &s);
	if (why) {
		s.flags = 0;
		count(why);
		if (d)
			add(&d->rx_unstamped, 1);
		if (why != SR_STAT_rx_option_version)
			goto steer;
	} else {
		count(SR_STAT_rx_stamped);
		if (d) {
			note_stamp(d, &s, now, r.opcode);
			/* With a T1 the agent looks whether it is echoed (ECHO). */
			news |= s.flags & (STAMP_T1 | STAMP_ECHO | STAMP_CE);
		} else {
			count(SR_STAT_rx_unknown_peer);
		}
	}

	/*
	 * Take the option out: nobody above shall see it. The IP length alone does
	 * that, since what follows is padding; where the kernel can, the frame is
	 * shortened as well. Not with several buffers: veth and generic XDP leave
	 * skb->len too long then (seen on 6.18), and the packet is lost.
	 */
	if (news)
		mark_active(d, &key);
	ip_add_length(&r, -STAMP_LEN);
	st = steer_find(cfg, r.qpn);
	if (one_buffer && bpf_xdp_adjust_tail(ctx, -STAMP_LEN - padding))
		count(SR_STAT_rx_strip_failed);
	return st ? steer_packet(ctx, st, &s, r.ce, now) : XDP_PASS;

steer:
	if (news)
		mark_active(d, &key);
	st = steer_find(cfg, r.qpn);
	return st ? steer_packet(ctx, st, &s, r.ce, now) : XDP_PASS;
}

#endif
