/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The agent's access to live entries, a batch a call. Updating an element of a
 * hash map from user space replaces it, and what the data plane counted in the
 * meantime is lost; this program writes single fields in place instead.
 */
#ifndef SOFTROCE_EXCHANGE_H
#define SOFTROCE_EXCHANGE_H

static __always_inline void snapshot(struct exchange_slot *slot, const struct dest_regs *d)
{
	__builtin_memcpy(&slot->regs, d, sizeof(slot->regs));
	slot->found = 1;
}

static __always_inline void window_reset(struct dest_regs *d)
{
	d->win_tx_ns = NO_SAMPLE;
	d->win_rx_ns = NO_SAMPLE;
	d->win_rtt_ns = NO_SAMPLE;
	d->win_samples = 0;
	d->win_ce = 0;
	d->win_loss = 0;
	d->win_rnr = 0;
	d->win_paced = 0;
}

/*
 * A new rate. What waits in our own pacer leaves at the new rate too, so its
 * backlog in time grows or shrinks with it. Until that backlog is gone, echoes
 * tell of the old rate: settle_ns keeps them out of the window.
 */
static __always_inline void set_rate(struct dest_regs *d, __u64 rate, __u64 mono)
{
	__u64 old = d->rate_bps, backlog = 0;

	if (d->next_tx_ns > mono)
		backlog = d->next_tx_ns - mono;
	if (backlog > NSEC_PER_SEC)
		backlog = NSEC_PER_SEC; /* also keeps the product below 64 bits */
	if (old && rate)
		backlog = backlog * (old >> 16) / ((rate >> 16) ?: 1);
	else
		backlog = 0;
	d->next_tx_ns = mono + backlog;
	d->rate_bps = rate;
	d->settle_ns = mono + backlog;
	if (clock_tai)
		d->settle_ns += clock_now() - mono;
}

static __always_inline void apply(struct dest_regs *d, const struct exchange_slot *slot)
{
	__u64 mono = bpf_ktime_get_ns();

	if (slot->op & SR_SET_POLICY) {
		d->policy = slot->regs.policy;
		if (d->rate_bps != slot->regs.rate_bps)
			set_rate(d, slot->regs.rate_bps, mono);
	}
	if (slot->op & SR_SET_CLASS)
		d->class_id = slot->regs.class_id;
	if (slot->op & SR_SET_NODE)
		d->node = slot->regs.node;
	if (slot->op & SR_SET_CAPS)
		d->caps = slot->regs.caps;
}

static __always_inline int exchange(struct exchange_ctx *ctx)
{
	__u32 op = ctx->op, count = ctx->count, done = 0;

	for (__u32 i = 0; i < SR_EXCHANGE_SLOTS; i++) {
		__u32 index = i;
		struct exchange_slot *slot;
		struct dest_regs *d;

		if (i >= count)
			break;
		slot = bpf_map_lookup_elem(&mailbox, &index);
		if (!slot)
			break;
		if (op == SR_EXCHANGE_COLLECT && bpf_map_pop_elem(&active, &slot->key))
			break;
		slot->found = 0;
		done++;
		d = bpf_map_lookup_elem(&dest_table, &slot->key);
		if (!d)
			continue;
		if (op == SR_EXCHANGE_APPLY) {
			apply(d, slot);
			slot->found = 1;
			continue;
		}
		if (op == SR_EXCHANGE_COLLECT)
			d->queued = 0;
		snapshot(slot, d);
		if (op == SR_EXCHANGE_COLLECT)
			window_reset(d);
	}
	ctx->count = done;
	return 0;
}

#endif
