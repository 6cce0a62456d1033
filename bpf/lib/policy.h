/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The policy's registers and parameters, as cc/fourcase defines them: the Go
 * structs fourcase.Regs and fourcase.Params have the same fields in the same
 * places (a test compares them). BPF stores them and bpftool prints them; only
 * cc/fourcase computes with them.
 * docs/study/four-case.md explains every field. The parameters have the names of the flags of
 * `policy set`.
 */
#ifndef SOFTROCE_POLICY_H
#define SOFTROCE_POLICY_H

struct policy_regs {
	__u64 rate_bps;          /* rate of the policy, bits per second */
	__u64 decided_ns;        /* time of the last decision */
	__u64 decreased_ns;      /* time of the last decrease */
	__u64 base_since_ns;     /* start of the present period of base_window_ns */
	__s64 base_tx_ns;        /* base delay of the transmit time: S1.6's original value, a windowed minimum */
	__s64 base_rx_ns;        /* base delay of the receive time */
	__s64 base_rtt_ns;       /* base RTT; contains no clock offset */
	__s64 next_base_tx_ns;   /* the same minimums of the present period */
	__s64 next_base_rx_ns;
	__s64 next_base_rtt_ns;
	__s64 queueing_tx_ns;    /* queueing delay of the forward path at the last decision */
	__s64 queueing_rx_ns;    /* and of the reverse path */
	__s64 trend_tx_ns;       /* trend: change of the queueing delay since the decision before */
	__s64 trend_rx_ns;       /* and of the reverse path */
	__u64 rate_before_decrease_bps; /* rate before the last decrease, until it is reached again; 0 = none */
	__u64 sent_packets;      /* tx_packets of the destination at the last step */
	__u64 period_ns;         /* time between decisions, smoothed */
	__u32 spike_ns;          /* delay spikes: by how much delays fall faster than decreases explain, smoothed */
	__u32 oscillation_ns;    /* oscillation: growth of the transmit time that falls again without a decrease, smoothed */
	__u64 window_bytes;      /* bytes that the engine may have in flight, 0 = no limit */
	__u32 decisions;         /* decisions since the entry was created */
	__u32 decreases;         /* decisions that decreased the rate */
	__u32 increases;         /* increases in a row */
	__u32 loss_q20;          /* loss ratio, smoothed, /2^20 */
	__u32 base_loss_q20;     /* part of loss_q20 that decreases do not change */
	__u32 decrease_q10;      /* size of the last decision's decrease, /1024 of the rate */
	__u32 common_mode_ns;    /* common-mode jitter: delay of both directions during oscillation, smoothed */
	__u16 floor_patience;    /* decisions in a row that min_rate_bps kept from decreasing */
	__u16 no_feedback;       /* evaluations in a row with loss and without feedback */
	__u16 open_lost;         /* packets reported lost since the last decision of the open-loop law */
	__u16 undos;             /* spurious decreases that were undone */
	__u8 case_no;            /* S1.6 case of the last decision: 1-4, 0 = none */
	__u8 row;                /* row of the completed table 0-7, 8 = open-loop law, 255 = none */
	__u8 action;             /* enum fourcase.Action, 0 = no decision yet */
	__u8 state;              /* fourcase.State* bits */
};

struct policy_params {
	__u64 min_rate_bps;      /* floor: the rate at which decreases become slow */
	__u64 max_rate_bps;      /* rate of the link */
	__u64 initial_rate_bps;  /* first rate of a destination; 0 = max_rate_bps */
	__u64 target_ns;         /* D: target of the queueing delay, at target_rate_bps */
	__u64 target_rate_bps;   /* D is larger below this rate and smaller above it, as 1/sqrt(rate) */
	__u64 target_max_ns;     /* upper bound of D */
	__u64 deadband_ns;       /* e: smaller changes are no change */
	__u64 base_window_ns;    /* period of the minimums that are the base delay */
	__u64 interval_ns;       /* shortest time between decisions */
	__u64 literal_deadband_ns; /* literal: 0 = the words of S1.6 */
	__u32 mode;              /* 0 robust, 1 literal, 2 fixed */
	__u32 beta_q10;          /* gain of the proportional decrease, /1024 */
	__u32 max_cut_q10;       /* largest decrease of one decision, /1024 */
	__u32 raise_q10;         /* one increase at target_rate_bps, /1024 of the rate */
	__u32 max_raise_q10;     /* largest increase of one decision, /1024 of the rate */
	__u32 raise_after;       /* increases in a row before they accelerate */
	__u32 loss_cut_q10;      /* decrease on loss, /1024 */
	__u32 ce_cut_q10;        /* decrease if every echo reports CE, /1024 */
	__u32 big_cut_q10;       /* literal: decrease in case 1, /1024 */
	__u32 small_cut_q10;     /* literal: decrease in case 2, /1024 */
	__u32 target_steep_q10;  /* D is at most this part of target_ns, /1024, growing as 1/rate^2; 0 = off */
	__u32 reserved;
};

/*
 * Priority (S4.5), cc/priority. The node file, which the agent reads, has levels,
 * minimums and maximums of the nodes; `policy set` changes these parameters.
 */
struct priority_params {
	__u64 capacity_bps;      /* of the link that the nodes share; 0 = link_rate_bps */
	__u32 mode;              /* 0 on, where the node file gives priorities; 1 off */
	__u32 reserved;
};

/* priority_state is what the priority policy does at present. Written by the agent. */
struct priority_state {
	__u64 capacity_bps;      /* capacity that is shared: configured, or estimated from congestion */
	__u32 flags;             /* 1 on, 2 congested, 4 the sum of the minimums exceeds the capacity, 8 capacity is estimated */
	__u32 level;             /* level in which the capacity ends: higher levels get their whole demand */
	__u32 active;            /* destinations that share the capacity */
	__u32 held;              /* of these, the destinations with less than the four-case policy allows */
};

#endif
