/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * engine_sync does for packets of the engine what egress does for the kernel stack, as
 * AF_XDP bypasses TC. The engine stamps and paces its packets. Every few milliseconds it
 * reports what it has sent to each active destination, and receives the rate and the
 * capabilities of the peer.
 *
 * Like agent_call.h it is only called (call.h). Its slots are in the packet, and so are
 * the answers.
 */
#ifndef SOFTROCE_ENGINE_H
#define SOFTROCE_ENGINE_H

/* engine_rtt takes the engine's RTT from data to ACK, for peers that echo nothing. */
static __always_inline void engine_rtt(struct dest_regs *d, const struct engine_slot *s)
{
	if (!s->rtt_ns)
		return;
	d->rtt_ns = s->rtt_ns;
	if ((__s64)(s->rtt_sent_ns - d->valid_after_ns) >= 0 && (__s64)s->rtt_ns < d->win_rtt_ns)
		d->win_rtt_ns = s->rtt_ns;
}

static __always_inline void engine_sent(struct dest_regs *d, const struct engine_slot *s,
					const struct dest_key *key, __u64 now)
{
	if (s->tx_packets) {
		add(&d->tx_packets, s->tx_packets);
		add(&d->tx_bytes, s->tx_bytes);
		d->engine_packets += s->tx_packets;
		d->engine_bytes += s->tx_bytes;
		add(&d->tx_unstamped, s->tx_unstamped);
		d->last_tx_ns = now;
		mark_active(d, key);
	}
	/* Waiting data makes the destination active too: the next packet may leave much later. */
	if (s->paced || s->paced_ns) {
		add(&d->paced_ns, s->paced_ns);
		add32(&d->win_paced, s->paced ?: 1);
		add32(&d->win_engine_paced, s->paced ?: 1);
		mark_active(d, key);
	}
	if (s->psn_regressions)
		add(&d->psn_regressions, s->psn_regressions);
	if (s->lost)
		note_loss(d, s->lost, !s->tx_unstamped);
	if (s->flags & SR_ENGINE_DUE)
		d->win_due = 1;
	WRITE_ONCE(d->win_engine, s->flags & SR_ENGINE_WAITS ? SR_ENGINE_PACE_BLOCKED : SR_ENGINE_FREE);
	WRITE_ONCE(d->engine_limit, s->limit);
	if (s->flags & SR_ENGINE_CE_ECHOED)
		WRITE_ONCE(d->ce_pending, 0);
	engine_rtt(d, s);
}

/* engine_found returns what is known of the peer's stamps. */
static __always_inline __u16 engine_found(const struct dest_regs *d)
{
	__u16 room = READ_ONCE(d->peer_room), found = SR_FOUND | (room & SR_FOUND_ROOM);

	if (d->answers & 1)
		found |= SR_FOUND_ANSWERS;
	if (room == SR_ROOM_NONE)
		found |= SR_FOUND_BARE;
	if (READ_ONCE(d->rx_own))
		found |= SR_FOUND_PROVEN;
	return found;
}

/* engine_asks has the agent ask a peer whether it stamps. */
static __noinline int engine_asks(const struct dest_key *key, __u64 own, __u64 now)
{
	struct sr_event *e;

	if (!key)
		return 0;
	e = event_begin(SR_EVENT_ASK, key, own, now);
	if (e)
		bpf_ringbuf_submit(e, 0);
	return 0;
}

/*
 * engine_one handles one slot. Returns 0 if there are no more. It is a global function, so
 * that the verifier checks it once and not in every iteration of the loop.
 */
__noinline int engine_one(struct __sk_buff *skb, __u32 index)
{
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	struct engine_slot *s;
	struct dest_regs *d;
	struct dest_key key;
	__u64 now, window, own;

	if (index >= SR_ENGINE_SLOTS)
		return 0;
	s = data + sizeof(struct sr_call) + index * sizeof(*s);
	if ((void *)(s + 1) > end)
		return 0;
	now = clock_now();
	__builtin_memcpy(&key, &s->key, sizeof(key));
	s->found = 0;
	own = s->tx_token;
	s->tx_token = 0;
	d = bpf_map_lookup_elem(&dest_table, &key);
	if (!d && !(s->flags & SR_ENGINE_CM_ANSWERS))
		d = dest_create(&key, own, now);
	if (!d)
		return 1;
	engine_sent(d, s, &key, now);
	s->found = engine_found(d);
	if (s->flags & SR_ENGINE_ASK)
		engine_asks(&key, own, now);
	s->caps = d->caps;
	s->node = d->node;
	/* A window of 4 GiB or more is never reached, so it is no limit. */
	window = READ_ONCE(d->policy.window_bytes);
	s->window_bytes = window >> 32 ? 0 : window;
	if (!own || own == READ_ONCE(d->tx_own)) {
		s->tx_token = READ_ONCE(d->tx_token);
	} else {
		s->tx_token = source_token(d, &key, own, s->caps & SR_CAP_STAMP, now);
	}
	/* Packets sent until now left at the old rate: their echoes do not measure the new one. */
	if (s->rate_bps != READ_ONCE(d->engine_rate_bps)) {
		s->rate_bps = READ_ONCE(d->engine_rate_bps);
		if ((__s64)(now - d->valid_after_ns) > 0)
			d->valid_after_ns = now;
	}
	return 1;
}

static __always_inline int engine_sync(struct __sk_buff *skb)
{
	const struct sr_call *call = call_of(skb, SR_ENGINE_SYNC, SR_ENGINE_SYNC);
	__u32 count, i;

	if (!call)
		return SR_CALL_INVALID;
	count = call->count;
	for (i = 0; i < SR_ENGINE_SLOTS; i++)
		if (i >= count || !engine_one(skb, i))
			break;
	return i;
}

#endif
