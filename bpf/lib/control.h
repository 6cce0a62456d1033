/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Control packets: manufacturer opcodes to QP 0xFFFFFE. They end here, or at an engine
 * that uses pre-credit; the kernel stack receives none. rocev2/hello.go has the same format:
 *
 *   BTH(12)  0 version(16)  2 flags(16)  4 node(32)  8 caps(32)  12 link_mbps(32)
 *   16 nonce(64)  24 token(64)  ICRC(32), then the stamp option in the surplus area
 *
 * A HELLO is answered here and changes nothing in the table, so a flood of them costs a
 * bounded number of answers and nothing else. The answer contains the token that the
 * peer's stamps must carry. A peer understands the option if its HELLO_ACK returns the
 * nonce of this host's HELLO, which proves that it receives at its address. Token and
 * nonce are computed from the address (secret.h), so neither is stored.
 *
 * An ECHO has the same layout with a body of zeros. A host that receives stamped data and
 * has nothing to send uses it: its option is the feedback of S1.4.
 *
 * A RATE_LIMIT has the layout too; its option is feedback like that of an ECHO (limit.h).
 *
 * A HELLO with the flag HELLO_ASKS and the token of its peer asks whether this host stamps. The agent
 * answers it through egress, which writes into the HELLO_ACK up to which length (note_room).
 *
 * On a veth pair the agent answers instead: veth queues an XDP_TX frame at its peer, but
 * schedules the peer only if that has an XDP program too.
 */
#ifndef SOFTROCE_CONTROL_H
#define SOFTROCE_CONTROL_H

#define CONTROL_QPN 0xfffffe
#define HELLO_LEN 32
#define HELLO_VERSION 2
#define HELLO_UDP_LEN (UDP_HLEN + BTH_LEN + HELLO_LEN + ICRC_LEN)
#define HELLO_BURST 64
#define UNKNOWN_RATE 64 /* a second */

static __always_inline int is_control(const struct roce *r)
{
	return r->qpn == CONTROL_QPN && r->opcode >= OP_HELLO;
}

/*
 * bucket_allows takes one token from a bucket that is filled with `rate` tokens per
 * second. The bucket is stored as the time at which it is full.
 */
static __always_inline int bucket_allows(__u32 which, __u32 rate)
{
	struct hello_bucket *b = bpf_map_lookup_elem(&hello_limit, &which);
	__u64 cost, full, now = mono_now(); /* a clock that is never set back */

	if (!b || !rate)
		return 0;
	cost = NSEC_PER_SEC / rate;
	full = b->full_ns > now ? b->full_ns : now;
	if (full - now > HELLO_BURST * cost)
		return 0;
	b->full_ns = full + cost;
	return 1;
}

/*
 * control_icrc returns the right ICRC of the control packet at ip, in the byte order of the packet.
 * The fields that routers change count as ones (IBTA A17.3.3), all of them in the headers.
 */
static __always_inline __u32 control_icrc(const void *ip, int v6)
{
	const __u32 hlen = v6 ? IPV6_HLEN : IPV4_HLEN;
	const __u32 len = hlen + UDP_HLEN + BTH_LEN;
	__u8 buf[CRC_MAX] __attribute__((aligned(8)));

	for (__u32 i = 0; i < len; i += 4)
		ST32(buf + i, LD32(ip + i));
	if (v6) {
		ST32(buf, LD32(buf) | bpf_htonl(0x0fffffff)); /* class, flow label */
		buf[7] = 0xff;                                 /* hop limit */
		/* The ICRC covers the length without the option. */
		ST16(buf + 4, bpf_htons(HELLO_UDP_LEN));
	} else {
		buf[1] = 0xff;          /* TOS */
		buf[8] = 0xff;          /* TTL */
		ST16(buf + 10, 0xffff); /* header checksum */
		ST16(buf + 2, bpf_htons(IPV4_HLEN + HELLO_UDP_LEN));
	}
	ST16(buf + hlen + 6, 0xffff);      /* UDP checksum */
	buf[hlen + UDP_HLEN + 4] = 0xff;   /* BTH: FECN, BECN, reserved */
	return ~crc_of(crc_of(ICRC_SEED, buf, len), ip + len, HELLO_LEN);
}

/* multicast returns whether an address of the packet is multicast; such packets are dropped. */
static __always_inline int multicast(const void *eth, const void *ip, int v6)
{
	const __u8 *mac = eth, *a = ip + (v6 ? 8 : 12), *b = ip + (v6 ? 24 : 16);

	return (mac[0] | mac[6]) & 1 || (v6 ? *a == 0xff || *b == 0xff : *a >= 224 || *b >= 224);
}

static __always_inline void swap_bytes(void *a, void *b, int words)
{
	for (int i = 0; i < words; i++) {
		__u32 t = LD32(a + 4 * i);

		ST32(a + 4 * i, LD32(b + 4 * i));
		ST32(b + 4 * i, t);
	}
}

/* IPv4 header checksum over 20 bytes. */
static __always_inline void ipv4_checksum(void *ip)
{
	__u32 sum = 0;

	ST16(ip + 10, 0);
	for (int i = 0; i < IPV4_HLEN; i += 2)
		sum += LD16(ip + i);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	ST16(ip + 10, ~sum);
}

/*
 * hello_answer turns the HELLO into the HELLO_ACK: it swaps the addresses, writes this
 * host's numbers into the body, keeps the nonce, and writes stamp and echo into the
 * option. The UDP ports stay, so both directions of a pair have the same hash.
 */
static __always_inline void hello_answer(void *eth, void *ip, int v6, const struct sr_config *cfg,
					 struct stamp *s, __u64 t2, __u64 token)
{
	void *bth = ip + (v6 ? IPV6_HLEN : IPV4_HLEN) + UDP_HLEN;
	void *body = bth + BTH_LEN;
	__u8 mac[6];

	__builtin_memcpy(mac, eth, 6);
	__builtin_memmove(eth, eth + 6, 6);
	__builtin_memcpy(eth + 6, mac, 6);
	if (v6) {
		swap_bytes(ip + 8, ip + 24, 4);
		*(__u8 *)(ip + 7) = 64;
	} else {
		swap_bytes(ip + 12, ip + 16, 1);
		*(__u8 *)(ip + 8) = 64;
		ipv4_checksum(ip);
	}
	ST16(bth - 2, 0); /* a UDP checksum would be wrong now */
	*(__u8 *)bth = OP_HELLO_ACK;
	ST16(body + 2, 0);
	ST32(body + 4, bpf_htonl(cfg->node));
	ST32(body + 8, bpf_htonl(cfg->caps));
	ST32(body + 12, bpf_htonl(cfg->link_rate_bps / 1000000));
	ST32(body + 24, bpf_htonl(token >> 32));
	ST32(body + 28, bpf_htonl(token));
	ST32(body + HELLO_LEN, control_icrc(ip, v6));

	s->echo_t1_ns = s->t1_ns;
	s->echo_t2_ns = t2;
	s->flags = s->flags & STAMP_T1 ? STAMP_T1 | STAMP_ECHO : STAMP_T1;
	s->token = 0; /* the nonce is the proof */
	s->t1_ns = clock_now();
	s->credit = stamp_room(cfg);
	s->credit_seq = 0;
	stamp_write(body + HELLO_LEN + ICRC_LEN, s);
}

static __always_inline int control_drop(enum sr_reason reason)
{
	count(reason);
	return XDP_DROP;
}

/* flag of HELLO and HELLO_ACK, rocev2/hello.go */
#define HELLO_ASKS bpf_htons(1)

/*
 * note_room stores up to which length the peer stamps, from the credit field of its HELLO_ACK. The answer
 * to a question is written by egress of the peer, which adds T1. Without T1 the peer has no egress. Other
 * HELLO_ACKs are written by ingress, which does not know whether egress is there.
 */
static __noinline int note_room(struct dest_regs *d, __u32 room, __u32 asked, __u32 flags)
{
	if (!d)
		return 0;
	room = room > 0xffff ? 0xfff0 : room & 0xfff0;
	if (asked) {
		WRITE_ONCE(d->peer_room, room && flags & STAMP_T1 ? room : SR_ROOM_NONE);
		d->answers++;
	} else if (room && READ_ONCE(d->peer_room) != SR_ROOM_NONE) {
		WRITE_ONCE(d->peer_room, room);
	}
	return 0;
}

/*
 * caps_changed returns whether the capabilities in a HELLO differ from those of the last
 * HELLO_ACK, as after an engine was opened or closed. A HELLO proves nothing, so the agent
 * sends a HELLO of its own.
 */
static __always_inline int caps_changed(const struct dest_regs *d, __u32 caps)
{
	return !(d->caps & SR_CAP_STATIC) && ((d->caps ^ caps) & 0x7fff);
}

/* hello_ack stores a HELLO_ACK with the right nonce: capabilities, token and the first times. */
static __always_inline int hello_ack(struct dest_regs *d, const struct dest_key *key,
				     const struct roce *r, const void *body, const struct stamp *s, __u64 now)
{
	__u64 token = bpf_be64_to_cpu(LD64(body + 24));
	__u32 caps = bpf_ntohl(LD32(body + 8)) & 0x7fff;
	struct sr_event *e;

	e = event_begin(d ? SR_EVENT_PEER_AWARE : SR_EVENT_ACK_UNKNOWN, key, own_word(r, 0), now);
	if (e) {
		e->caps = caps;
		e->node = bpf_ntohl(LD32(body + 4));
		e->token = token;
		bpf_ringbuf_submit(e, 0);
	}
	if (d) {
		if (keep_token(d, key, own_word(r, 0), token))
			forget_limit(key); /* the peer was attached again */
		if (!(d->caps & SR_CAP_STATIC))
			WRITE_ONCE(d->caps, caps);
		note_stamp(d, s, now, OP_HELLO_ACK);
		note_room(d, s->credit, LD16(body + 2) & HELLO_ASKS, s->flags);
		if (s->flags & STAMP_ECHO)
			mark_active(d, key);
	}
	return control_drop(SR_STAT_hello_ack);
}

/*
 * hello_event reports a HELLO to the agent. It writes no register, because a HELLO may be
 * forged. Reported are those that the agent has to answer and those that change what is
 * known; without the token (`proven`), a HELLO of a peer without an entry is not reported.
 */
static __always_inline void hello_event(const struct dest_regs *d, const struct dest_key *key,
					const struct roce *r, const void *body, const struct stamp *s, __u64 now,
					__u32 proven, int answer)
{
	__u32 caps = bpf_ntohl(LD32(body + 8));
	struct sr_event *e;

	if (!answer && (d ? proven && d->caps & SR_CAP_STAMP && !caps_changed(d, caps) : !proven))
		return;
	e = event_begin(SR_EVENT_HELLO, key, own_word(r, 0), now);
	if (!e)
		return;
	e->caps = caps;
	e->node = bpf_ntohl(LD32(body + 4));
	e->proven = proven;
	e->t1_ns = s->t1_ns;
	if (answer)
		e->nonce = bpf_be64_to_cpu(LD64(body + 16));
	bpf_ringbuf_submit(e, 0);
}

/* echo_packet takes the feedback of an ECHO, which contains nothing else. */
static __always_inline int echo_packet(struct dest_regs *d, const struct dest_key *key,
				       const struct stamp *s, __u64 now)
{
	note_stamp(d, s, now, OP_ECHO);
	if (s->flags & (STAMP_ECHO | STAMP_CE))
		mark_active(d, key);
	return control_drop(SR_STAT_echo_received);
}

/* known_packet takes the feedback of an ECHO or RATE_LIMIT, and the limit. */
static __always_inline int known_packet(struct dest_regs *d, const struct dest_key *key,
					const struct stamp *s, const void *body, __u8 opcode,
					__u64 now)
{
	enum sr_reason reason;

	if (opcode == OP_ECHO)
		return echo_packet(d, key, s, now);
	reason = take_limit(key, body);
	note_stamp(d, s, now, OP_ECHO);
	if (reason == SR_STAT_rate_limit || s->flags & (STAMP_ECHO | STAMP_CE))
		mark_active(d, key); /* the next evaluation enforces it */
	return control_drop(reason);
}

/* version_fits returns whether the body of a control packet has the version of its opcode. */
static __always_inline int version_fits(__u8 opcode, const void *body)
{
	switch (opcode) {
	case OP_ECHO:
		return 1;
	case OP_RATE_LIMIT:
		return limit_fits(body);
	default:
		return LD16(body) == bpf_htons(HELLO_VERSION);
	}
}

/* v6 is a constant in each of the two calls below, so every offset is one too. */
static __always_inline int control_packet(void *eth, struct roce *r, void *end, int v6,
					  __u64 now)
{
	const __u32 hlen = v6 ? IPV6_HLEN : IPV4_HLEN;
	const int known = r->opcode == OP_ECHO || r->opcode == OP_RATE_LIMIT;
	void *ip = r->ip, *body = ip + hlen + UDP_HLEN + BTH_LEN;
	struct dest_regs *d;
	struct dest_key key;
	const struct sr_config *cfg;
	struct stamp s = {};
	__u32 proven;
	int by_agent;
	__u64 token;

	if (r->udp_len != HELLO_UDP_LEN || r->surplus != STAMP_LEN ||
	    ip + hlen + HELLO_UDP_LEN + STAMP_LEN > end ||
	    stamp_read(body + HELLO_LEN + ICRC_LEN, r->udp, &s) ||
	    !version_fits(r->opcode, body) || multicast(eth, ip, v6))
		return control_drop(SR_STAT_control_malformed);

	peer_key(r, 1, &key);
	d = bpf_map_lookup_elem(&dest_table, &key);
	/* Token and nonce are compared first: a flood of forged answers has neither. */
	if (known) {
		if (!d)
			return control_drop(r->opcode == OP_ECHO ? SR_STAT_echo_unknown
								 : SR_STAT_rate_limit_unknown);
		if (s.token != d->rx_token)
			return control_drop(SR_STAT_rx_token_wrong);
	}
	if (r->opcode == OP_HELLO_ACK &&
	    bpf_be64_to_cpu(LD64(body + 16)) != secret_of(&key, SECRET_NONCE))
		return control_drop(SR_STAT_hello_ack_forged);
	if (r->opcode == OP_HELLO) {
		cfg = get_config();
		if (!cfg || !bucket_allows(BUCKET_HELLO, cfg->hello_rate))
			return control_drop(SR_STAT_hello_limited);
	}
	if (LD32(body + HELLO_LEN) != control_icrc(ip, v6))
		return control_drop(SR_STAT_control_bad_icrc);

	if (known) {
		/* The verifier of Linux 6.12 has forgotten by now that d is not NULL. */
		asm volatile("" : "+r"(d));
		return d ? known_packet(d, &key, &s, body, r->opcode, now)
			 : control_drop(SR_STAT_echo_unknown);
	}
	if (r->opcode == OP_HELLO_ACK)
		return hello_ack(d, &key, r, body, &s, now);
	token = secret_of(&key, SECRET_TOKEN);
	cfg = get_config(); /* a second time: the stack has no room for it */
	if (!cfg)
		return XDP_DROP;
	proven = s.token == token ? SR_HELLO_PROVEN : 0;
	/* Only a peer has the agent work: a question without its token gets the answer of any HELLO. */
	if (proven && LD16(body + 2) & HELLO_ASKS)
		proven |= SR_HELLO_ASKS;
	by_agent = cfg->hello_by_agent || proven & SR_HELLO_ASKS;
	hello_event(d, &key, r, body, &s, now, proven, by_agent);
	if (by_agent)
		return control_drop(SR_STAT_hello_to_agent);
	hello_answer(eth, ip, v6, cfg, &s, now, token);
	count(SR_STAT_hello_answered);
	return XDP_TX;
}

/*
 * control_credit steers pre-credit messages (S5) to an engine that has steered
 * CONTROL_QPN. The token of their stamp proves the peer; the rest of the stamp is not
 * used, as the next data packet has it too.
 */
static __always_inline int control_credit(struct xdp_md *ctx, const struct roce *r, void *end,
					  const struct sr_config *cfg)
{
	const struct steer *st = steer_find(cfg, CONTROL_QPN);
	const void *opt = r->udp + HELLO_UDP_LEN;
	struct dest_regs *d;
	struct dest_key key;
	struct stamp s = {};

	if (!st)
		return control_drop(SR_STAT_control_unknown);
	if (r->udp_len != HELLO_UDP_LEN || r->surplus != STAMP_LEN || opt + STAMP_LEN > end ||
	    stamp_read(opt, r->udp, &s))
		return control_drop(SR_STAT_control_malformed);
	peer_key(r, 1, &key);
	d = bpf_map_lookup_elem(&dest_table, &key);
	if (!d || s.token != d->rx_token)
		return control_drop(SR_STAT_rx_token_wrong);
	s.proven = 1;
	s.flags = 0;
	return steer_packet(ctx, st, &s, 0, clock_now()) == XDP_REDIRECT ? XDP_REDIRECT : XDP_DROP;
}

/*
 * control handles control packets. They are rare, so they have a function of their own
 * and are parsed a second time; the code for every packet stays small.
 */
static __noinline int control(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	const struct sr_config *cfg = get_config();
	struct roce r;

	if (!cfg || parse(data, end, &r) != ROCE)
		return XDP_PASS;
	if (r.opcode == OP_CREDIT_GRANT || r.opcode == OP_CREDIT_RETURN)
		return control_credit(ctx, &r, end, cfg);
	if (r.opcode != OP_HELLO && r.opcode != OP_HELLO_ACK && r.opcode != OP_ECHO &&
	    r.opcode != OP_RATE_LIMIT)
		return control_drop(SR_STAT_control_unknown);
	return r.v6 ? control_packet(data, &r, end, 1, clock_now())
		    : control_packet(data, &r, end, 0, clock_now());
}

#endif
