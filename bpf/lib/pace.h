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

/*
 * Who finds so much before it makes the wait no longer. It is less than fq's horizon of
 * ten seconds, beyond which that drops, and more than what a sender that waits for answers
 * has under way at any rate that is of use: where the model ends, and an HTB class goes
 * on, all times of departure are wrong, and no echo counts.
 */
#define PACE_MAX_WAIT_NS 8000000000ll

/* What frames of so many bytes take at a rate, not 0. */
static __always_inline __u64 frame_ns(__u64 bytes, __u64 rate)
{
	return bytes * 8 * NSEC_PER_SEC / rate;
}

static __always_inline int heartbeat_stopped(const struct sr_config *cfg, __u64 mono)
{
	/* Signed: the agent may have written after we read the clock. */
	return cfg->heartbeat_timeout_ns &&
	       (__s64)(mono - READ_ONCE(cfg->heartbeat_ns)) > (__s64)cfg->heartbeat_timeout_ns;
}

/*
 * Says in *leaves when the packet leaves, on the monotonic clock. Returns 0: drop
 * it. len is the L2 frame without the option, as qdiscs count it.
 */
static __always_inline int pace(struct __sk_buff *skb, struct dest_regs *d,
				const struct sr_config *cfg, __u64 mono, __u32 len, __u64 *leaves)
{
	__u64 rate = READ_ONCE(d->stack_rate_bps), cost, empty;
	__s64 wait;

	*leaves = mono;
	if (!rate || cfg->pacer == SR_PACER_NONE)
		return 1;
	if (cfg->pacer == SR_PACER_HTB && !d->class_id)
		return 1; /* the agent has not made the class yet */
	empty = READ_ONCE(d->next_tx_ns);
	wait = empty - mono;
	if (heartbeat_stopped(cfg, mono)) {
		count(SR_STAT_tx_fail_open);
		/* What fq holds must leave first: no packet overtakes another of its QP. */
		if (wait > 0 && cfg->pacer == SR_PACER_EDT) {
			*leaves = empty;
			bpf_skb_set_tstamp(skb, *leaves, BPF_SKB_TSTAMP_DELIVERY_MONO);
		}
		return 1;
	}
	if (wait > 0 && cfg->pacer == SR_PACER_POLICE) {
		add(&d->dropped, 1);
		d->win_paced++;
		count(SR_STAT_tx_policed);
		return 0;
	}
	cost = frame_ns(len, rate);
	if (wait > PACE_MAX_WAIT_NS) {
		/*
		 * The sender pays no heed. Its packets still wait, but no longer: to drop
		 * one here would end an rxe QP (it takes a local drop for a dead link).
		 */
		cost = 0;
		count(SR_STAT_tx_overflow);
	}
	if (wait < -(__s64)cfg->burst_ns) /* idle: no more than one burst is saved up */
		WRITE_ONCE(d->next_tx_ns, mono - cfg->burst_ns + cost);
	else /* several CPUs may send to one destination: none of their packets is free */
		wait = __sync_fetch_and_add(&d->next_tx_ns, cost) - mono;

	if (wait > 0) {
		*leaves = mono + wait;
		add(&d->paced_ns, wait);
		d->win_paced++;
		count(SR_STAT_tx_paced);
	}
	if (cfg->pacer == SR_PACER_HTB)
		skb->priority = d->class_id;
	else if (cfg->pacer == SR_PACER_EDT)
		bpf_skb_set_tstamp(skb, *leaves, BPF_SKB_TSTAMP_DELIVERY_MONO);
	return 1;
}

/*
 * Whether the last n packets all wait in our own pacer: others of their length would take
 * no longer than the one that comes now has to wait. A sender whose timeout is shorter
 * than that repeats what nobody has lost yet. Were it a sign of loss, a rate at its least
 * could never grow out of it.
 */
static __always_inline int all_wait(const struct dest_regs *d, __u32 n, __u32 len, __s64 wait)
{
	__u64 rate = READ_ONCE(d->stack_rate_bps);

	if (wait <= 0 || !rate)
		return 0;
	return wait > PACE_MAX_WAIT_NS || n * frame_ns(len, rate) <= (__u64)wait;
}

#endif
