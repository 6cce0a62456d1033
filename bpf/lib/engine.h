/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What egress does for the packets of the host's stack, for those of the engine:
 * AF_XDP does not pass by TC. The engine stamps and paces by itself; every few
 * milliseconds it tells what it has sent to each active destination, and learns
 * the rate and what the peer understands.
 *
 * Like exchange.h a TC program that is only called. The request and the answer are
 * the packet's data: the mailbox belongs to the agent.
 */
#ifndef SOFTROCE_ENGINE_H
#define SOFTROCE_ENGINE_H

/* For peers that echo nothing, the engine's own round trip from data to ACK. */
static __always_inline void engine_rtt(struct dest_regs *d, const struct engine_slot *s)
{
	if (!s->rtt_ns)
		return;
	d->rtt_ns = s->rtt_ns;
	if ((__s64)(s->rtt_sent_ns - d->settle_ns) >= 0 && (__s64)s->rtt_ns < d->win_rtt_ns)
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
	/* Data that waits is evaluated as well: the next packet may be far off. */
	if (s->paced || s->paced_ns) {
		add(&d->paced_ns, s->paced_ns);
		add32(&d->win_paced, s->paced ?: 1);
		add32(&d->win_engine_paced, s->paced ?: 1);
		mark_active(d, key);
	}
	if (s->rewinds)
		add(&d->rewinds, s->rewinds);
	if (s->lost)
		note_loss(d, s->lost, !s->tx_unstamped);
	if (s->flags & SR_ENGINE_DUE)
		d->win_due = 1;
	WRITE_ONCE(d->win_engine, s->flags & SR_ENGINE_WAITS ? SR_ENGINE_HELD : SR_ENGINE_FREE);
	if (s->flags & SR_ENGINE_CE_ECHOED)
		WRITE_ONCE(d->ce_pending, 0);
	engine_rtt(d, s);
}

/*
 * One slot. Returns 0: there are no more. A global function, so that the verifier
 * looks at it once and not at every turn of the loop.
 */
__noinline int engine_one(struct __sk_buff *skb, __u32 index)
{
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	struct engine_slot *s;
	struct dest_regs *d;
	struct dest_key key;
	__u64 now, window;

	if (index >= SR_ENGINE_SLOTS)
		return 0;
	s = data + sizeof(struct engine_ctx) + index * sizeof(*s);
	if ((void *)(s + 1) > end)
		return 0;
	now = clock_now();
	__builtin_memcpy(&key, &s->key, sizeof(key));
	s->found = 0;
	d = bpf_map_lookup_elem(&dest_table, &key);
	if (!d)
		d = dest_create(&key, now);
	if (!d)
		return 1;
	engine_sent(d, s, &key, now);
	s->found = 1;
	s->caps = d->caps;
	s->node = d->node;
	/* What does not fit 32 bits is no limit that anybody reaches. */
	window = READ_ONCE(d->policy.window_bytes);
	s->window_bytes = window >> 32 ? 0 : window;
	s->tx_token = READ_ONCE(d->tx_token);
	/* What left until now left at the old rate: its echoes say nothing of the new. */
	if (s->rate_bps != READ_ONCE(d->engine_rate_bps)) {
		s->rate_bps = READ_ONCE(d->engine_rate_bps);
		if ((__s64)(now - d->settle_ns) > 0)
			d->settle_ns = now;
	}
	return 1;
}

static __always_inline int engine_sync(struct __sk_buff *skb)
{
	const struct engine_ctx *ctx = (void *)(long)skb->data;
	__u32 count, i;

	if ((void *)(ctx + 1) > (void *)(long)skb->data_end || ctx->op != SR_ENGINE_SYNC)
		return SR_EXCHANGE_INVALID;
	count = ctx->count;
	for (i = 0; i < SR_ENGINE_SLOTS; i++)
		if (i >= count || !engine_one(skb, i))
			break;
	return i;
}

#endif
