/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The policy's registers and parameters, as cc/fourcase defines them: the Go
 * structs fourcase.Regs and fourcase.Params have the same fields in the same
 * places (a test compares them). BPF carries them, bpftool prints them, and
 * hwoffload maps them to a card; only cc/fourcase computes with them.
 * docs/four-case.md explains every field.
 */
#ifndef SOFTROCE_POLICY_H
#define SOFTROCE_POLICY_H

struct policy_regs {
	__u64 rate_bps;          /* what the policy asks for */
	__u64 decided_ns;        /* when it last decided */
	__u64 cut_ns;            /* when it last cut */
	__u64 base_since_ns;     /* start of the window being collected */
	__s64 base_tx_ns;        /* the original transmit time (windowed minimum) */
	__s64 base_rx_ns;        /* the original receive time */
	__s64 base_rtt_ns;       /* the original round trip; no clock offset in it */
	__s64 next_base_tx_ns;   /* the same, of the window being collected */
	__s64 next_base_rx_ns;
	__s64 next_base_rtt_ns;
	__s64 q_tx_ns;           /* excess over the baseline at the last decision */
	__s64 q_rx_ns;
	__s64 d_tx_ns;           /* trend: change since the decision before */
	__s64 d_rx_ns;
	__u64 from_bps;          /* rate before the last cut, until it is reached again; 0 = none */
	__u64 sent_packets;      /* to the destination, as of the last step */
	__u64 period_ns;         /* time between decisions, smoothed */
	__u32 jitter_ns;         /* by how much delays fall faster than cuts explain, smoothed */
	__u32 swing_ns;          /* by how much the transmit time goes up and back with no cut of ours, smoothed */
	__u64 window_bytes;      /* the engine may have so much under way, 0 = no limit */
	__u32 decisions;         /* since the entry was created */
	__u32 cuts;              /* those that cut the rate */
	__u32 raises;            /* raises in a row */
	__u32 loss_q20;          /* share of packets lost, smoothed, /2^20 */
	__u32 base_loss_q20;     /* of it what rate cuts do not change */
	__u32 cut_q10;           /* what the last decision cut, /1024 of the rate */
	__u32 common_ns;         /* excess that both directions have while it swings, smoothed */
	__u16 at_min;            /* decisions in a row that min_rate_bps kept from cutting */
	__u16 blind;             /* windows in a row with loss and no feedback */
	__u16 open_lost;         /* reported lost since the last decision of the open-loop law */
	__u16 restores;          /* cuts taken back */
	__u8 case_no;            /* S1.6 case of the last decision: 1-4, 0 = none */
	__u8 row;                /* row of the completed table 0-7, 8 = open-loop law, 255 = none */
	__u8 action;             /* enum fourcase.Action, 0 = no decision yet */
	__u8 state;              /* fourcase.State* bits */
};

struct policy_params {
	__u64 min_rate_bps;
	__u64 max_rate_bps;      /* the link's rate */
	__u64 initial_rate_bps;  /* where a destination starts; 0 = max_rate_bps */
	__u64 target_ns;         /* D: queueing delay aimed at, at target_rate_bps */
	__u64 target_rate_bps;   /* D grows below and shrinks above, as 1/sqrt(rate) */
	__u64 target_max_ns;     /* but not beyond this */
	__u64 deadband_ns;       /* e: smaller changes are no change */
	__u64 base_window_ns;    /* how long a minimum stays the baseline */
	__u64 interval_ns;       /* least time between decisions */
	__u64 literal_deadband_ns; /* literal: 0 = the words of S1.6 */
	__u32 mode;              /* 0 robust, 1 literal, 2 fixed */
	__u32 beta_q10;          /* gain of the proportional cut, /1024 */
	__u32 max_cut_q10;       /* most that one decision cuts, /1024 */
	__u32 raise_q10;         /* one raise at target_rate_bps, /1024 of the rate */
	__u32 max_raise_q10;     /* most that one decision raises, /1024 of the rate */
	__u32 raise_after;       /* raises in a row before they accelerate */
	__u32 loss_cut_q10;      /* cut on loss, /1024 */
	__u32 ce_cut_q10;        /* cut if every echo reports CE, /1024 */
	__u32 big_cut_q10;       /* literal: case 1, /1024 */
	__u32 small_cut_q10;     /* literal: case 2, /1024 */
	__u32 target_steep_q10;  /* D is at most this part of target_ns, /1024, growing as 1/rate^2; 0 = off */
	__u32 reserved;
};

/*
 * Priority (S4.5), cc/priority. The nodes' levels, minimums and maximums stand in
 * the node file, which the agent reads; here is what `policy set` can change.
 */
struct priority_params {
	__u64 capacity_bps;      /* of the link that the nodes share; 0 = link_rate_bps */
	__u32 mode;              /* 0 on, where the node file gives priorities; 1 off */
	__u32 reserved;
};

/* What it does at present. Written by the agent. */
struct priority_state {
	__u64 capacity_bps;      /* what is shared: set, or judged by the congestion seen */
	__u32 flags;             /* 1 on, 2 congested, 4 not even the minimums fit, 8 capacity is judged */
	__u32 level;             /* in which the capacity ends: those above have all they want */
	__u32 active;            /* destinations that it is shared among */
	__u32 held;              /* of these, held below what the four-case policy allows */
};

#endif
