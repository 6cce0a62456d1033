/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The agent's access to live entries, one batch per call. An update of a hash map's
 * element from user space replaces it and loses what the data plane counted meanwhile;
 * this program writes single fields in place instead.
 *
 * It is only called (call.h), with its slots in the map call_buffer.
 */
#ifndef SOFTROCE_AGENT_CALL_H
#define SOFTROCE_AGENT_CALL_H

static __always_inline void snapshot(struct agent_slot *slot, const struct dest_regs *d)
{
	__builtin_memcpy(&slot->regs, d, sizeof(slot->regs));
}

/* window_take starts a new window. Signs of loss and congestion that arrive meanwhile are kept. */
static __always_inline void window_take(struct agent_slot *slot, struct dest_regs *d)
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

/* settle ignores echoes of packets that leave before the pacer's queue is empty. */
static __always_inline void settle(struct dest_regs *d, __u64 mono)
{
	__u64 empty = READ_ONCE(d->next_tx_ns);

	d->valid_after_ns = (__s64)(empty - mono) > 0 ? empty : mono;
	if (clock_tai)
		d->valid_after_ns += clock_now() - mono_now();
}

/*
 * pace_used_up returns the part of the backlog of an HTB class that belongs to the packet
 * it sent last. HTB stores that part as time, so a new rate does not change it. Packets of
 * average length fill the rest. A packet of 4 KB takes 3 ms at 10 Mbit/s; an error of that
 * size at every change of the rate would look like a queue in the network.
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
 * set_stack_rate sets the rate of the kernel stack. Packets in an HTB class leave at the
 * new rate, so the backlog in time is rescaled, and so is the time that policed packets
 * have used in advance. Packets in fq have their departure times already. Tokens from idle
 * time stay, as HTB stores its tokens as time too.
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
		/* Twice the longest wait in pace(); the product fits 64 bits. */
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
 * set_rates sets the three rates and the bound that sets them. Echoes of packets that wait in the pacer measure the old
 * rate, so valid_after_ns keeps them out of the window. For packets of the engine,
 * engine_sync does that when it returns the new rate. If no packet of the kernel stack
 * waits, a change of stack_rate_bps alone invalidates nothing.
 */
static __always_inline void set_rates(struct dest_regs *d, const struct dest_regs *to, __u64 mono)
{
	int changed = d->rate_bps != to->rate_bps;

	if (d->stack_rate_bps != to->stack_rate_bps) {
		changed |= (__s64)(d->next_tx_ns - mono) > 0;
		set_stack_rate(d, to->stack_rate_bps, mono);
	}
	if (changed)
		settle(d, mono);
	d->rate_bps = to->rate_bps;
	d->bound = to->bound;
	WRITE_ONCE(d->engine_rate_bps, to->engine_rate_bps);
}

static __always_inline void apply(struct dest_regs *d, const struct agent_slot *slot)
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
	if (slot->op & SR_SHIFT_NEXT_TX) {
		__sync_fetch_and_add(&d->next_tx_ns, slot->shift_ns);
		if (!(slot->op & SR_KEEP_ECHOES))
			settle(d, mono);
	}
}

/*
 * agent_one handles one slot. Returns 0 if the queue is empty. It is a global function, so
 * that the verifier checks it once and not in every iteration of the loop.
 */
__noinline int agent_one(__u32 op, __u32 index)
{
	struct agent_slot *slot = bpf_map_lookup_elem(&call_buffer, &index);
	struct dest_regs *d;

	if (!slot || (op == SR_AGENT_COLLECT && bpf_map_pop_elem(&active, &slot->key)))
		return 0;
	slot->found = 0;
	d = bpf_map_lookup_elem(&dest_table, &slot->key);
	if (!d)
		return 1;
	slot->found = 1;
	switch (op) {
	case SR_AGENT_COLLECT:
		d->queued = 0;
		snapshot(slot, d);
		window_take(slot, d);
		break;
	case SR_AGENT_APPLY:
		apply(d, slot);
		break;
	default:
		snapshot(slot, d);
	}
	return 1;
}

static __always_inline int agent_call(struct __sk_buff *skb)
{
	const struct sr_call *call = call_of(skb, SR_AGENT_COLLECT, SR_AGENT_READ);
	__u32 op, count, i;

	if (!call)
		return SR_CALL_INVALID;
	op = call->op;
	count = call->count;
	for (i = 0; i < SR_AGENT_SLOTS; i++)
		if (i >= count || !agent_one(op, i))
			break;
	return i;
}

#endif
