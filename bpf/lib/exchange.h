/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The agent's access to live entries, a batch a call. Updating an element of a
 * hash map from user space replaces it, and what the data plane counted in the
 * meantime is lost; this program writes single fields in place instead.
 *
 * It is a TC program that is attached nowhere and only called. A "syscall"
 * program would look more natural, but it is sleepable, and kernel 6.1 refuses
 * queues in such programs.
 */
#ifndef SOFTROCE_EXCHANGE_H
#define SOFTROCE_EXCHANGE_H

static __always_inline void snapshot(struct exchange_slot *slot, const struct dest_regs *d)
{
	__builtin_memcpy(&slot->regs, d, sizeof(slot->regs));
}

/* Signals of loss and congestion that come between the two are not forgotten. */
static __always_inline void window_take(struct exchange_slot *slot, struct dest_regs *d)
{
	slot->regs.win_ce = __sync_lock_test_and_set(&d->win_ce, 0);
	slot->regs.win_loss = __sync_lock_test_and_set(&d->win_loss, 0);
	d->win_tx_ns = NO_SAMPLE;
	d->win_rx_ns = NO_SAMPLE;
	d->win_rtt_ns = NO_SAMPLE;
	d->win_samples = 0;
	d->win_rnr = 0;
	d->win_due = 0;
	d->win_paced = 0;
	d->win_engine_paced = 0;
	d->win_engine = SR_ENGINE_SILENT;
}

/* Echoes count again once what waits in the pacer now has left. */
static __always_inline void settle(struct dest_regs *d, __u64 mono)
{
	__u64 empty = READ_ONCE(d->next_tx_ns);

	d->settle_ns = (__s64)(empty - mono) > 0 ? empty : mono;
	if (clock_tai)
		d->settle_ns += clock_now() - mono_now();
}

/*
 * Of the time until an HTB class is empty, what the packet that it let go last has
 * used up: HTB keeps that as time, whatever its rate becomes. Packets of the usual
 * length behind it fill the rest. At 10 Mbit/s one of 4 KB takes 3 ms; to be wrong by
 * that, a little with every change of the rate, looked like a queue in the network.
 */
static __always_inline __u64 pace_used_up(const struct dest_regs *d, __u64 rate, __u64 ahead)
{
	__u64 packets = d->tx_packets - d->engine_packets, each;

	if (!packets || !rate)
		return 0;
	each = frame_ns((d->tx_bytes - d->engine_bytes) / packets + ETH_HLEN, rate);
	return each ? ahead % each : 0;
}

/*
 * A new rate of the host's stack. What waits in an HTB class leaves at the new rate too, so its
 * backlog in time grows or shrinks with it, and so does what a policed packet has
 * used up ahead; what fq holds has its time already.
 * What was saved up while idle stays: HTB keeps its tokens, as time, as well.
 */
static __always_inline void set_stack_rate(struct dest_regs *d, __u64 rate, __u64 mono)
{
	const struct sr_config *cfg = get_config();
	__u64 old = d->stack_rate_bps, empty = d->next_tx_ns, backlog, used_up = 0;
	int htb = cfg && cfg->pacer == SR_PACER_HTB;

	if ((__s64)(empty - mono) > 0 && (htb || (cfg && cfg->pacer == SR_PACER_POLICE))) {
		backlog = empty - mono;
		if (htb && rate)
			used_up = pace_used_up(d, old, backlog);
		backlog -= used_up;
		/* Twice the most that pace() lets wait; 64 bits hold the product. */
		if (backlog > 2 * PACE_MAX_WAIT_NS)
			backlog = 2 * PACE_MAX_WAIT_NS;
		backlog = old && rate ? backlog * (old >> 10) / ((rate >> 10) ?: 1) : 0;
		if (backlog > 2 * PACE_MAX_WAIT_NS)
			backlog = 2 * PACE_MAX_WAIT_NS;
		WRITE_ONCE(d->next_tx_ns, mono + used_up + backlog);
	}
	d->stack_rate_bps = rate;
}

/*
 * New rates. Until what waits has left, echoes tell of the old ones: settle_ns keeps
 * them out of the window. Those of the engine's packets are settled when it hears of
 * its rate, and where nothing of the host's stack waits its part changes nothing.
 */
static __always_inline void set_rates(struct dest_regs *d, const struct dest_regs *to, __u64 mono)
{
	int news = d->rate_bps != to->rate_bps;

	if (d->stack_rate_bps != to->stack_rate_bps) {
		news |= (__s64)(d->next_tx_ns - mono) > 0;
		set_stack_rate(d, to->stack_rate_bps, mono);
	}
	if (news)
		settle(d, mono);
	d->rate_bps = to->rate_bps;
	WRITE_ONCE(d->engine_rate_bps, to->engine_rate_bps);
}

static __always_inline void apply(struct dest_regs *d, const struct exchange_slot *slot)
{
	__u64 mono = mono_now();

	if (slot->op & SR_SET_POLICY) {
		d->policy = slot->regs.policy;
		set_rates(d, &slot->regs, mono);
	}
	if (slot->op & SR_SET_CLASS)
		d->class_id = slot->regs.class_id;
	if (slot->op & SR_SET_NODE)
		d->node = slot->regs.node;
	if (slot->op & SR_SET_CAPS)
		d->caps = slot->regs.caps;
	if (slot->op & SR_MOVE_EMPTY) {
		__sync_fetch_and_add(&d->next_tx_ns, slot->move_ns);
		if (!(slot->op & SR_KEEP_ECHOES))
			settle(d, mono);
	}
}

/*
 * One slot. Returns 0: the queue is empty. A global function, so that the
 * verifier looks at it once and not at every turn of the loop.
 */
__noinline int exchange_one(__u32 op, __u32 index)
{
	struct exchange_slot *slot = bpf_map_lookup_elem(&mailbox, &index);
	struct dest_regs *d;

	if (!slot || (op == SR_EXCHANGE_COLLECT && bpf_map_pop_elem(&active, &slot->key)))
		return 0;
	slot->found = 0;
	d = bpf_map_lookup_elem(&dest_table, &slot->key);
	if (!d)
		return 1;
	slot->found = 1;
	switch (op) {
	case SR_EXCHANGE_COLLECT:
		d->queued = 0;
		snapshot(slot, d);
		window_take(slot, d);
		break;
	case SR_EXCHANGE_APPLY:
		apply(d, slot);
		break;
	default:
		snapshot(slot, d);
	}
	return 1;
}

static __always_inline int exchange(struct __sk_buff *skb)
{
	const struct exchange_ctx *ctx = (void *)(long)skb->data;
	__u32 op, count, i;

	if ((void *)(ctx + 1) > (void *)(long)skb->data_end)
		return SR_EXCHANGE_INVALID;
	op = ctx->op;
	count = ctx->count;
	if (op < SR_EXCHANGE_COLLECT || op > SR_EXCHANGE_READ)
		return SR_EXCHANGE_INVALID;
	for (i = 0; i < SR_EXCHANGE_SLOTS; i++)
		if (i >= count || !exchange_one(op, i))
			break;
	return i;
}

#endif
