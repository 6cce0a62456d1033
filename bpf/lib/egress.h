/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Egress: a packet of the kernel stack passes parse, entry, pacer, stamp. */
#ifndef SOFTROCE_EGRESS_H
#define SOFTROCE_EGRESS_H

/* For both TCX and clsact, -1 continues with the next program. */
#define TC_NEXT (-1)
#define TC_DROP 2

/* Bytes that the parser needs in the linear part of an skb. */
#define PULL_LEN (ETH_HLEN + IPV6_HLEN + UDP_HLEN + BTH_LEN)

/* The same for rare forms, with extension headers of the usual lengths. */
#define RARE_PULL_LEN 512

/* at returns the address of offset `off` of the frame if n bytes are there, else NULL. */
static __always_inline void *at(struct __sk_buff *skb, __u32 off, __u32 n)
{
	void *p = (void *)(long)skb->data;

	if (off > MAX_OFFSET)
		return NULL;
	p += bounded(off);
	return p + n <= (void *)(long)skb->data_end ? p : NULL;
}

/*
 * sent_here returns whether the kernel's RoCE driver or root has sent the packet. Any
 * process may send UDP to port 4791, with PSNs that look like loss; such packets must not
 * be counted.
 *
 * The driver gives each queue pair a kernel socket that is never bound, so its port is 0.
 * The socket of a process has a port before its first packet. The uid of the driver's
 * socket proves nothing: it is the uid of the process that created the queue pair. A
 * packet without a socket was forwarded for another host.
 */
static __always_inline int sent_here(struct __sk_buff *skb)
{
	struct bpf_sock *sk = skb->sk;

	return sk && (!sk->src_port || !bpf_get_socket_uid(skb));
}

/*
 * answer_room returns the credit of a HELLO_ACK: up to which length this host stamps what it sends to the
 * peer. `path` is what the agent knows of the path, 0 = nothing.
 */
static __always_inline __u32 answer_room(const struct sr_config *cfg, __u32 path)
{
	__u32 room = stamp_room(cfg);

	return path && path < room ? path : room;
}

/* answers_question returns whether a HELLO_ACK answers a question whether this host stamps. */
static __always_inline int answers_question(struct __sk_buff *skb, const struct roce *r)
{
	const void *body = at(skb, r->opt_off - ICRC_LEN - HELLO_LEN, HELLO_LEN);

	return body && LD16(body + 2) & HELLO_ASKS;
}

/* stamps_to returns whether packets from `own` to the peer get a stamp, and have got it since the last answer. */
static __always_inline int stamps_to(struct dest_regs *d, const struct dest_key *peer, __u64 own, __u64 now)
{
	int bare;

	if (!d || !(READ_ONCE(d->caps) & SR_CAP_STAMP) || !source_token(d, peer, own, 0, now))
		return 0;
	bare = d->tx_bare;
	d->tx_bare = 0;
	return !bare;
}

/*
 * stamp_control completes a control packet of the agent (HELLO, ECHO, RATE_LIMIT). The option is there
 * already, outside of the ICRC, and lacks time, token and echo. A HELLO gets no echo,
 * because the peer would not believe it. A HELLO_ACK has the echo of its HELLO already. ECHO and RATE_LIMIT
 * leave with a token only.
 */
static __always_inline int stamp_control(struct __sk_buff *skb, const struct roce *r,
					 const struct sr_config *cfg, __u64 now)
{
	struct dest_regs *d;
	struct dest_key key;
	struct stamp s;
	__u64 own = own_word(r, 1);
	int answer, feedback = r->opcode == OP_ECHO || r->opcode == OP_RATE_LIMIT;
	void *opt;

	if (!from_here(r)) {
		count(SR_STAT_tx_other_source);
		return TC_NEXT;
	}
	peer_key(r, 0, &key);
	if (r->surplus != STAMP_LEN || bpf_skb_pull_data(skb, r->opt_off + STAMP_LEN))
		return TC_NEXT;
	answer = r->opcode == OP_HELLO_ACK && answers_question(skb, r);
	opt = at(skb, r->opt_off, STAMP_LEN);
	if (!opt || !stamp_is_ours(opt))
		return TC_NEXT;
	stamp_fields(opt, &s);
	s.flags = STAMP_T1 | (s.flags & STAMP_ECHO);
	s.t1_ns = now;
	s.token = 0;
	s.credit = r->opcode == OP_HELLO_ACK ? answer_room(cfg, s.credit) : 0;
	s.credit_seq = 0;
	d = bpf_map_lookup_elem(&dest_table, &key);
	if (answer && !stamps_to(d, &key, own, now))
		s.credit = 0;
	if (d) {
		s.token = source_token(d, &key, own, feedback, now);
		if (feedback && !s.token) { /* the peer would refuse it */
			count(SR_STAT_tx_no_token);
			return TC_DROP;
		}
		if (r->opcode != OP_HELLO && r->opcode != OP_HELLO_ACK)
			take_echo(d, &s, now);
	}
	stamp_write(opt, &s);
	if (r->opcode == OP_ECHO)
		count(SR_STAT_echo_sent);
	else if (r->opcode == OP_RATE_LIMIT)
		count(SR_STAT_rate_limit_sent);
	return TC_NEXT;
}

/* other_mac returns whether a packet is from another MAC address, such as that of a macvlan. */
static __always_inline int other_mac(const void *eth, const struct sr_config *cfg)
{
	__u64 own = mac_word(cfg->mac);

	return own && mac_word(eth + 6) != own;
}

/*
 * of_vlan returns whether a packet is of a VLAN interface above this one, whose tag the interface
 * or its driver will put into the frame. A tag with VID 0 is a priority tag (parse.h).
 */
static __always_inline int of_vlan(const struct __sk_buff *skb)
{
	return skb->vlan_present && skb->vlan_tci & VLAN_VID;
}

/* egress_rare counts a packet that may be RoCEv2 in a rare form, and passes it untouched. */
static __noinline int egress_rare(struct __sk_buff *skb)
{
	__u32 n = skb->len < RARE_PULL_LEN ? skb->len : RARE_PULL_LEN;

	if (bpf_skb_pull_data(skb, n))
		return TC_NEXT;
	switch (parse_rare((void *)(long)skb->data, (void *)(long)skb->data_end) &
		((1 << RARE_BITS) - 1)) {
	case RARE_PRIORITY:
	case RARE_VLAN:
		count(SR_STAT_tx_vlan);
		break;
	case RARE_FRAGMENT:
		count(SR_STAT_tx_fragment);
		break;
	case RARE_OPTIONS:
		count(SR_STAT_tx_ip_options);
		break;
	case RARE_EXTENSION:
		count(SR_STAT_tx_extension);
		break;
	}
	return TC_NEXT;
}

/* unstamped_reason returns why this packet leaves without the option, or 0 if it gets one. */
static __always_inline int unstamped_reason(struct __sk_buff *skb, const struct dest_regs *d,
					    const struct sr_config *cfg, const struct roce *r)
{
	if (!(d->caps & SR_CAP_STAMP))
		return SR_STAT_tx_unaware;
	if (r->surplus)
		return SR_STAT_tx_option_foreign;
	if (skb->gso_size)
		return SR_STAT_tx_gso;
	if (LD16(r->udp + 6))
		return SR_STAT_tx_udp_checksum;
	if (r->ip_len + STAMP_LEN > cfg->mtu || r->opt_off + STAMP_LEN > MAX_OFFSET)
		return SR_STAT_tx_too_big;
	return 0;
}

/* append lengthens the packet and writes the option behind its ICRC. */
static __always_inline int append(struct __sk_buff *skb, struct roce *r, const struct stamp *s)
{
	void *opt;

	if (bpf_skb_change_tail(skb, r->opt_off + STAMP_LEN, 0))
		return -1;
	r->ip = at(skb, ETH_HLEN, IPV6_HLEN); /* UDP and BTH follow an IPv4 header */
	opt = at(skb, r->opt_off, STAMP_LEN);
	if (!r->ip || !opt)
		return -1;
	ip_add_length(r, STAMP_LEN);
	stamp_write(opt, s);
	return 0;
}

/* Offset of the attribute ID in a MAD. */
#define MAD_ATTR 16

/* sends_answer returns whether a packet to queue pair 1 is an answer of the communication manager. */
static __noinline int sends_answer(struct __sk_buff *skb, __u32 bth_off)
{
	__u16 attr = 0;

	return !bpf_skb_load_bytes(skb, bth_off + BTH_LEN + DETH_LEN + MAD_ATTR, &attr, sizeof(attr)) &&
	       cm_answers(attr);
}

static __always_inline int egress(struct __sk_buff *skb)
{
	void *data = (void *)(long)skb->data;
	__u64 now, mono, leaves, own;
	const struct sr_config *cfg;
	struct dest_regs *d;
	struct dest_key key;
	struct stamp s = {};
	enum verdict v;
	struct roce r = {};
	int why, pulled = 0;

	/*
	 * One call of the parser: each further one is a copy of it, and keeps all fields of r in
	 * memory. The loop ends in a jump, as Linux 6.1 requires.
	 */
	for (;;) {
		__u32 n;

		v = parse(data, (void *)(long)skb->data_end, &r);
		if (__builtin_expect((v != SHORT && v != SHORT_ROCE) || pulled, 1))
			break;
		n = skb->len < PULL_LEN ? skb->len : PULL_LEN;
		if (bpf_skb_pull_data(skb, n))
			return TC_NEXT;
		data = (void *)(long)skb->data;
		pulled = 1;
	}
	switch (v) {
	case ROCE:
		break;
	case RARE:
		return egress_rare(skb);
	case BAD_LENGTH:
	case SHORT_ROCE:
		count(SR_STAT_tx_malformed);
		return TC_NEXT;
	default:
		return TC_NEXT;
	}
	cfg = get_config();
	if (!cfg)
		return TC_NEXT;
	if (ETH_HLEN + r.ip_len > skb->len) {
		count(SR_STAT_tx_malformed);
		return TC_NEXT;
	}
	if (of_vlan(skb)) {
		count(SR_STAT_tx_vlan);
		return TC_NEXT;
	}
	if (!sent_here(skb)) {
		count(SR_STAT_tx_foreign);
		return TC_NEXT;
	}
	if (other_mac(data, cfg)) {
		count(SR_STAT_tx_other_source);
		return TC_NEXT;
	}
	now = clock_now();
	mono = clock_tai ? mono_now() : now;
	if (is_control(&r))
		return stamp_control(skb, &r, cfg, now);

	peer_key(&r, 0, &key);
	own = own_word(&r, 1);
	d = bpf_map_lookup_elem(&dest_table, &key);
	/* tx_own is an address of this host. */
	if ((!d || READ_ONCE(d->tx_own) != own) && !from_here(&r)) {
		count(SR_STAT_tx_other_source);
		return TC_NEXT;
	}
	if (!d) {
		/* Anybody can have a REQ answered: without more from there it makes no entry. */
		if (r.qpn == CM_QPN && sends_answer(skb, ETH_HLEN + r.ip_hlen + UDP_HLEN)) {
			count(SR_STAT_tx_unaware);
			return TC_NEXT;
		}
		d = dest_create(&key, own, now);
		if (!d)
			return TC_NEXT;
	}

	add(&d->tx_packets, 1);
	add(&d->tx_bytes, r.ip_len);
	d->last_tx_ns = now;
	mark_active(d, &key);

	if (!pace(skb, d, cfg, mono, skb->len, &leaves))
		return TC_DROP;
	leaves += now - mono; /* from the pacer's clock to that of the stamps */
	why = unstamped_reason(skb, d, cfg, &r);
	if (!why) {
		s.token = READ_ONCE(d->tx_own) == own ? READ_ONCE(d->tx_token) : source_token(d, &key, own, 1, now);
		if (!s.token)
			why = SR_STAT_tx_no_token;
	}
	note_request(d, &r, skb->len, leaves, leaves - now, !why);

	if (!why) {
		s.flags = STAMP_T1;
		s.t1_ns = leaves;
		take_echo(d, &s, leaves);
		if (append(skb, &r, &s))
			why = SR_STAT_tx_stamp_failed;
	}
	if (why) {
		count(why);
		add(&d->tx_unstamped, 1);
		if (why != SR_STAT_tx_too_big && why != SR_STAT_tx_unaware && why != SR_STAT_tx_no_token)
			d->tx_bare = 1;
	} else {
		count(SR_STAT_tx_stamped);
	}
	return TC_NEXT;
}

#endif
