/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The addresses of this host. Ingress reads only packets to them, and egress only packets from
 * them: other packets are those of a host for which this one forwards (router, container, virtual
 * machine), and pass untouched. Each pair of addresses has a token of its own.
 */
#ifndef SOFTROCE_OWN_H
#define SOFTROCE_OWN_H

#define OWN_NOT (-1) /* an address of another host */

/* own_find returns the number of an address of this host, or OWN_NOT. */
static __noinline int own_find(const struct dest_key *addr)
{
	const __u32 *number;
	__u32 zero = 0;
	const struct own_words *w = bpf_map_lookup_elem(&own_state, &zero);

	if (!addr || !w || !READ_ONCE(w->known))
		return SR_OWN_UNKNOWN;
	number = bpf_map_lookup_elem(&own_addresses, addr);
	return number ? (int)(*number & 0xffff) : OWN_NOT;
}

/*
 * own_destination returns the number of the address that a packet was sent to, or OWN_NOT. addr is
 * memory for the address: the stack of ingress has no room for another one.
 */
static __always_inline int own_destination(const struct roce *r, struct dest_key *addr)
{
	__u32 zero = 0;
	const struct own_words *w = bpf_map_lookup_elem(&own_state, &zero);

	if (!w || !READ_ONCE(w->known))
		return SR_OWN_UNKNOWN;
	if (!r->v6) {
		if (LD32(r->ip + 16) == w->first4)
			return SR_OWN_FIRST4;
	} else if (LD64(r->ip + 24) == w->first6[0] && LD64(r->ip + 32) == w->first6[1]) {
		return SR_OWN_FIRST6;
	}
	peer_key(r, 0, addr);
	return own_find(addr);
}

/* Combines the halves of an IPv6 address: an odd number without a pattern. */
#define OWN_FOLD 0x9e3779b97f4a7c15ULL

/* own_word is the source or the destination address of the packet, as in struct own_pair. */
static __always_inline __u64 own_word(const struct roce *r, int source)
{
	const void *a;

	if (!r->v6)
		return LD32(r->ip + (source ? 12 : 16));
	a = r->ip + (source ? 8 : 24);
	return LD64(a) * OWN_FOLD + LD64(a + 8);
}

/* from_here returns whether the source address of a packet is this host's. */
static __always_inline int from_here(const struct roce *r)
{
	struct dest_key addr;

	peer_key(r, 1, &addr);
	return own_find(&addr) != OWN_NOT;
}

/* first_own returns the address that the entry's token is for, which is `own` if it was for any. Two CPUs agree on it. */
static __always_inline __u64 first_own(struct dest_regs *d, __u64 own)
{
	__u64 first = READ_ONCE(d->tx_own);

	if (!first)
		first = __sync_val_compare_and_swap(&d->tx_own, 0, own);
	return first ? first : own;
}

/*
 * source_token returns the token for stamps to the peer that leave from `own`, 0 = there is none
 * yet. The first source of an entry keeps its token there; each further one has an element of
 * tx_tokens, which is created if `use` is set. The agent is then told to send a HELLO from there.
 */
static __noinline __u64 source_token(struct dest_regs *d, const struct dest_key *peer, __u64 own,
				     int use, __u64 now)
{
	struct own_pair pair = {};
	struct sr_event *e;
	__u64 none = 0, *token;

	if (!d || !peer)
		return 0;
	if (use ? first_own(d, own) == own : !READ_ONCE(d->tx_own) || READ_ONCE(d->tx_own) == own)
		return READ_ONCE(d->tx_token);
	pair.peer = *peer;
	pair.own = own;
	token = bpf_map_lookup_elem(&tx_tokens, &pair);
	if (token)
		return READ_ONCE(*token);
	if (use && !bpf_map_update_elem(&tx_tokens, &pair, &none, BPF_NOEXIST)) {
		e = event_begin(SR_EVENT_NEW_SOURCE, peer, own, now);
		if (e)
			bpf_ringbuf_submit(e, 0);
	}
	return 0;
}

/* keep_token stores the token of a HELLO_ACK that came to `own`. Returns whether it has changed. */
static __noinline int keep_token(struct dest_regs *d, const struct dest_key *peer, __u64 own,
				 __u64 token)
{
	struct own_pair pair = {};
	int changed;

	if (!d || !peer)
		return 0;
	pair.peer = *peer;
	pair.own = own;
	if (first_own(d, own) != own) {
		/* A source that nothing was sent from has no element. */
		bpf_map_update_elem(&tx_tokens, &pair, &token, BPF_EXIST);
		return 0;
	}
	changed = d->tx_token != token;
	WRITE_ONCE(d->tx_token, token);
	return changed;
}

#endif
