/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Pacing (S1.8, S1.9): the departure time of each packet of the kernel stack.
 *
 * All pacers share one token bucket per destination, stored as the time at which it is
 * empty (next_tx_ns). They differ in what delays the packet: fq by skb->tstamp (edt), an
 * HTB class of the same rate and burst (htb), or nothing, and the packet is dropped
 * (police). In each case the departure time is known here, before the queue. It is T1 of
 * the stamp, so the delay of the pacer does not look like congestion in the network.
 */
#ifndef SOFTROCE_PACE_H
#define SOFTROCE_PACE_H

#define NSEC_PER_SEC 1000000000ull

/*
 * Largest backlog of a destination; a packet behind more adds nothing to it. The value is
 * below fq's horizon of ten seconds, beyond which fq drops, and above what a sender that
 * needs acknowledgements has in flight at any useful rate. Above it the model ends while
 * an HTB class goes on, so departure times are wrong and no echo is valid.
 */
#define PACE_MAX_WAIT_NS 8000000000ll

/* frame_ns returns the time of `bytes` at a rate, which must not be 0. */
static __always_inline __u64 frame_ns(__u64 bytes, __u64 rate)
{
	return bytes * 8 * NSEC_PER_SEC / rate;
}

static __always_inline int heartbeat_stopped(const struct sr_config *cfg, __u64 mono)
{
	/* Signed: the agent may have written it after the clock was read here. */
	return cfg->heartbeat_timeout_ns &&
	       (__s64)(mono - READ_ONCE(cfg->heartbeat_ns)) > (__s64)cfg->heartbeat_timeout_ns;
}

/*
 * pace writes the departure time to *leaves, on the monotonic clock. Returns 0 if the
 * packet is to be dropped. len is the length of the L2 frame without the option, as qdiscs
 * count it.
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
		/* Packets in fq must leave first: no packet overtakes another one of its QP. */
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
		 * The sender does not slow down. Its packets are delayed by no more than this:
		 * a drop here would end an rxe QP, which treats a local drop as a dead link.
		 */
		cost = 0;
		count(SR_STAT_tx_overflow);
	}
	if (wait < -(__s64)cfg->burst_ns) /* after idle the bucket has at most one burst */
		WRITE_ONCE(d->next_tx_ns, mono - cfg->burst_ns + cost);
	else /* atomic: several CPUs may send to one destination */
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
 * all_wait returns whether the last n packets are all still in the pacer: n packets of
 * length len take no longer than the present packet's wait. A sender with a shorter
 * timeout retransmits packets that have not been sent yet. If that were a sign of loss, a
 * rate at the floor could never increase again.
 */
static __always_inline int all_wait(const struct dest_regs *d, __u32 n, __u32 len, __s64 wait)
{
	__u64 rate = READ_ONCE(d->stack_rate_bps);

	if (wait <= 0 || !rate)
		return 0;
	return wait > PACE_MAX_WAIT_NS || n * frame_ns(len, rate) <= (__u64)wait;
}

#endif
