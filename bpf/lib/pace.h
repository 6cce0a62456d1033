/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Pacing (S1.8, S1.9): when does this packet leave?
 *
 * All pacers share one token bucket per destination, kept as the time at which
 * it is empty (next_tx_ns). What differs is who makes the packet wait: fq by
 * skb->tstamp (edt), an HTB class of the same rate and burst (htb), or nobody,
 * and the packet is dropped (police). In each case the time of departure is
 * known here, before the queue, and that is the T1 that goes into the stamp:
 * the wait in our own pacer must not look like congestion in the network.
 */
#ifndef SOFTROCE_PACE_H
#define SOFTROCE_PACE_H

#define NSEC_PER_SEC 1000000000ull

static __always_inline int heartbeat_stopped(const struct sr_config *cfg, __u64 mono_now)
{
	return cfg->heartbeat_timeout_ns &&
	       mono_now - cfg->heartbeat_ns > cfg->heartbeat_timeout_ns;
}

/*
 * Returns when the packet leaves, on the clock of `now`, or 0: drop it.
 * len is the L2 frame without the option, as qdiscs count it.
 */
static __always_inline __u64 pace(struct __sk_buff *skb, struct dest_regs *d,
				  const struct sr_config *cfg, __u64 now, __u32 len)
{
	__u64 rate = d->rate_bps, empty = d->next_tx_ns, floor = now - cfg->burst_ns, leaves;

	if (!rate || cfg->pacer == SR_PACER_NONE)
		return now;
	if (cfg->pacer == SR_PACER_HTB && !d->class_id)
		return now; /* the agent has not made the class yet */
	if (heartbeat_stopped(cfg, now)) {
		count(SR_STAT_tx_fail_open);
		return now;
	}
	leaves = empty > now ? empty : now;
	if (cfg->pacer == SR_PACER_POLICE && leaves != now) {
		add(&d->dropped, 1);
		d->win_paced++;
		count(SR_STAT_tx_policed);
		return 0;
	}
	if (empty < floor)
		empty = floor;
	d->next_tx_ns = empty + (__u64)len * 8 * NSEC_PER_SEC / rate;

	if (leaves != now) {
		d->paced_ns += leaves - now;
		d->win_paced++;
		count(SR_STAT_tx_paced);
	}
	if (cfg->pacer == SR_PACER_HTB)
		skb->priority = d->class_id;
	else if (cfg->pacer == SR_PACER_EDT)
		bpf_skb_set_tstamp(skb, leaves, BPF_SKB_TSTAMP_DELIVERY_MONO);
	return leaves;
}

#endif
