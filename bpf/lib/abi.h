/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The structures that the data plane, the agent and bpftool share.
 *
 * This header is the one place where they are defined: bpf2go turns it into Go
 * (bpf/softroce_bpfel.go), `bpftool map dump` prints its field names, and
 * hwoffload carries the same registers to a card. Everything is in host byte
 * order unless a comment says otherwise; times are nanoseconds of the clock
 * chosen at attach (CLOCK_MONOTONIC, or CLOCK_TAI for PTP-synchronised hosts).
 * Pacing and the heartbeat are always on CLOCK_MONOTONIC, as fq is: next_tx_ns,
 * heartbeat_ns. Differences between the clocks of two hosts are known modulo 2^48 ns:
 * in_tx_ns, tx_ns and rx_ns each by itself; tx_ns + rx_ns is exact.
 *
 * Change a layout => raise SR_ABI_VERSION: an upgrade in place refuses pins of
 * another version and tells the user to detach first. What was reserved, and so 0, may
 * get a meaning without that if 0 means what was so before.
 */
#ifndef SOFTROCE_ABI_H
#define SOFTROCE_ABI_H

#include "policy.h"

#define SR_ABI_VERSION 4
#define SR_PSN_SLOTS 4

/* An address, IPv4 as ::ffff:a.b.c.d; network byte order. */
struct dest_key {
	__u8 addr[16];
};

/*
 * dest_regs.caps, one bit each. SR_CAP_STAMP is what makes egress append the
 * stamp option; the others are learnt from HELLO.
 */
enum sr_cap {
	SR_CAP_STAMP = 1 << 0,   /* understands the stamp option (S1.2-S1.4) */
	SR_CAP_SACK = 1 << 1,    /* engine with selective acknowledgement */
	SR_CAP_CREDIT = 1 << 2,  /* pre-credit (S5) */
	SR_CAP_OOO = 1 << 3,     /* out-of-order mode (S3) */
	SR_CAP_STATIC = 1 << 15, /* set by configuration: HELLO does not clear it */
};

/* Rewind detection: one flow to the peer and the PSN sent last. */
struct sr_flow {
	__u32 psn;           /* bit 31: of READ responses, which have the requester's PSNs */
	__u32 qpn;
};

/*
 * One destination's registers: nine cache lines. In the hash map 64 bytes of element
 * header and key stand in front, so an element is 640 bytes, five pairs of lines that
 * processors load together: the key and line 0, lines 1 and 2, and so on. A packet that
 * comes in needs the first pair, one with an echo line 1 as well; a packet that goes out
 * needs the first pair (queued, echo) and lines 3 and 4.
 *
 * Who writes: each line belongs to one writer, named beside it. The agent never
 * rewrites a live entry through the map syscall (that would replace the element
 * and lose counts); it goes through the `exchange` program, which writes the
 * agent's fields in place.
 */
struct dest_regs {
	/* line 0 - written by ingress for every packet, read by egress for the echo */
	__u64 rx_token;    /* what the peer's stamps must carry; 0 = no stamp is believed */
	__u64 peer_t1_ns;  /* latest T1 received from the peer, the peer's clock, modulo 2^48 */
	__s64 in_tx_ns;    /* S1.3: T2-T1 of the peer's data to me, modulo 2^48 */
	__u64 echo_check;  /* ~(peer_t1_ns ^ in_tx_ns); a torn pair does not match */
	__u64 rx_packets;
	__u64 rx_bytes;    /* IP lengths without the stamp option */
	__u64 last_rx_ns;  /* when the last packet came that is believed to be the peer's */
	__u8 queued;       /* in the active queue: set by data plane, cleared by exchange */
	__u8 ce_pending;   /* CE seen since the last echo: set by ingress, cleared by egress */
	__u16 reserved0;
	__u32 node;        /* S1.2: node number 1..n, 0 = not numbered yet; agent */

	/* line 1 - written by ingress when an echo comes: S1.4 and one window's samples */
	__s64 tx_ns;         /* S1.4: transmit time T2-T1 of my data to the peer */
	__s64 rx_ns;         /* S1.4: receive time T3-T2 of its feedback */
	__s64 win_tx_ns;     /* minimum of tx_ns in the window */
	__s64 win_rx_ns;     /* minimum of rx_ns in the window */
	__s64 win_rtt_ns;    /* minimum of the round trip in the window */
	__u64 echo_seen_ns;  /* T1 of the latest echo: each counts once */
	__u64 settle_ns;     /* echoes of packets that left before this do not count; agent too */
	__u32 win_samples;   /* echoes in the window */
	__u32 win_ce;        /* CE echoes and CNPs in the window */

	/* line 2 - written by ingress, not for every packet, and by engine_sync; rates by the agent */
	__u64 rate_bps;      /* the destination's: bits per second of L2 frames without the option, 0 = unpaced; agent */
	__u64 engine_rate_bps; /* what the engine may send of it; agent */
	__u64 engine_packets; /* of tx_packets, those of the engine */
	__u64 engine_bytes;  /* of tx_bytes */
	__u32 win_engine_paced; /* of win_paced */
	__u8 win_engine;     /* enum sr_engine_news: the engine's latest report in the window */
	__u8 reserved2[3];
	__s64 turn_ns;       /* what rx_ns has of the peer's turnaround: its ACK's T1 - the echoed T2 */
	__s64 rtt_ns;        /* data -> ACK by PSN, for peers that echo nothing */
	__u32 credit;        /* latest credit of the stamp option (S5.5) */
	__u16 credit_seq;
	__u8 win_rnr;        /* RNR NAKs in the window: their rewinds are no loss */
	__u8 reserved2b;

	/* line 3 - written by egress */
	__u64 tx_packets;
	__u64 tx_bytes;      /* IP lengths without the stamp option */
	__u64 stack_rate_bps; /* what the host's stack may send of rate_bps: egress paces by it; agent */
	__u64 next_tx_ns;    /* when the pacer lets the next packet leave */
	__u64 last_tx_ns;    /* when the host's stack handed us the last packet */
	__u64 paced_ns;      /* sum of the delays that pacing asked for */
	__u64 tx_token;      /* what stamps to the peer must carry; ingress on HELLO_ACK */
	__u32 class_id;      /* skb->priority under the htb pacer, 0 = none; agent */
	__u16 caps;          /* enum sr_cap; ingress on HELLO_ACK, agent */
	__u16 reserved3;

	/* line 4 - written by egress */
	struct sr_flow flows[SR_PSN_SLOTS]; /* by QPN % SR_PSN_SLOTS */
	__u64 probe_ns;      /* when the probed packet left; 0 = no probe under way */
	__u32 probe_psn;     /* its PSN */
	__u32 win_loss;      /* of data sent to the peer, in the window: NAKs (PSN), and rewinds to what has left */
	__u32 win_paced;     /* packets that the pacer held back in the window */
	__u8 win_due;        /* 1: something sent in the window is answered, by an ACK or an echo */
	__u8 reserved4[11];

	/* line 5 - seldom counted, by either side, atomically */
	__u64 rewinds;       /* times the PSN of a flow went back: retransmission */
	__u64 naks;          /* AETH 011 received */
	__u64 rnrs;          /* AETH 001 received */
	__u64 cnps;          /* CNPs received */
	__u64 ces;           /* packets received with CE set */
	__u64 tx_unstamped;  /* packets sent without the option */
	__u64 rx_unstamped;  /* packets received without an option that is believed */
	__u64 dropped;       /* by the police pacer */

	/* lines 6 to 8 - written by the agent only */
	struct policy_regs policy;
};

/* dest_regs.win_engine. */
enum sr_engine_news {
	SR_ENGINE_SILENT = 0, /* it has reported nothing */
	SR_ENGINE_FREE = 1,  /* nothing waited for its pacer */
	SR_ENGINE_HELD = 2,  /* data waited for its pacer */
};

/* What ingress hands to the engine in front of a steered frame (data_meta). */
struct rx_meta {
	__u32 magic;         /* SR_META_MAGIC */
	__u16 credit_seq;
	__u8 flags;          /* those of the stamp option; 0 = the packet had none */
	__u8 ce;             /* 1 = the IP header said CE */
	__u64 t1_ns;         /* modulo 2^48 */
	__u64 t2_ns;
	__u32 credit;
	__u8 proven;         /* 1 = the packet had a stamp with the right token */
	__u8 zero[3];
};
#define SR_META_MAGIC 0x53524d31u /* "SRM1" */

/* steer_table value: the AF_XDP sockets of one owned QPN. */
struct steer {
	__u32 xsk_base;      /* xsks index of the socket on queue 0 */
	__u32 queues;        /* sockets from there on, one a queue */
};

enum sr_pacer {
	SR_PACER_NONE = 0,
	SR_PACER_EDT = 1,
	SR_PACER_HTB = 2,
	SR_PACER_POLICE = 3,
};

/* config, one element. The agent writes it, the data plane only reads. */
struct sr_config {
	__u32 abi_version;
	__u32 pacer;                 /* enum sr_pacer */
	__u32 node;                  /* this node's number, 0 = not numbered */
	__u32 caps;                  /* what HELLO_ACK says of us */
	__u32 mtu;                   /* of the interface, bytes of IP */
	__u32 hello_rate;            /* HELLOs answered per second and CPU */
	__u64 heartbeat_ns;          /* the agent's last sign of life */
	__u64 heartbeat_timeout_ns;  /* after this the data plane stops pacing */
	__u64 link_rate_bps;
	__u64 initial_rate_bps;      /* rate_bps of a new entry (S1.2), 0 = unpaced */
	__u64 burst_ns;              /* what an idle destination may send at once, as time at its rate */
	__u32 steered;               /* QPNs in steer_table; 0 spares ingress the look-up */
	__u32 hello_by_agent;        /* 1: XDP_TX is not to be trusted here, the agent answers HELLO */
	__u8 mac[6];                 /* of the interface; frames to others pass unread. 0 = any */
	__u16 window_off;            /* 1: nothing limits what the engine may have under way */
	__u64 secret[2];             /* random key of this attachment: tokens and nonces */
	struct policy_params policy;
	struct priority_params priority;
	struct priority_state priority_now; /* agent */
};

enum sr_event_type {
	SR_EVENT_NEW_DEST = 1,       /* egress created an entry */
	SR_EVENT_PEER_AWARE = 2,     /* a known peer answered our HELLO */
	SR_EVENT_HELLO = 3,          /* HELLO from a peer that we do not stamp to (yet), or that has changed */
	SR_EVENT_ACK_UNKNOWN = 4,    /* HELLO_ACK with our nonce from an address without an entry */
};

struct sr_event {
	__u32 type;          /* enum sr_event_type */
	__u32 caps;          /* of the peer */
	__u64 ns;
	__u64 nonce;         /* of a HELLO that the agent is to answer, 0 = answered */
	__u64 t1_ns;         /* stamp of that HELLO */
	__u64 token;         /* of a HELLO_ACK: what stamps to the peer must carry */
	__u32 node;          /* the peer's node number */
	__u32 proven;        /* 1 = a HELLO with our token: the peer receives at its address */
	struct dest_key peer;
};

/* One slot of the mailbox between the agent and the exchange program. */
struct exchange_slot {
	struct dest_key key;
	__u32 op;            /* enum sr_exchange_set bits, for apply */
	__u32 found;         /* set by the program: the entry exists */
	__s64 move_ns;       /* SR_MOVE_EMPTY: to add to next_tx_ns */
	struct dest_regs regs;
};
#define SR_EXCHANGE_SLOTS 128

enum sr_exchange_op {
	SR_EXCHANGE_COLLECT = 1, /* pop active destinations, snapshot, reset windows */
	SR_EXCHANGE_APPLY = 2,   /* write the fields that slot.op names */
	SR_EXCHANGE_READ = 3,    /* snapshot the keys given, change nothing */
};

enum sr_exchange_set {
	SR_SET_POLICY = 1 << 0,  /* policy, the three rates (next_tx_ns rescaled), settle_ns */
	SR_SET_CLASS = 1 << 1,   /* class_id */
	SR_SET_NODE = 1 << 2,    /* node */
	SR_SET_CAPS = 1 << 3,    /* caps */
	SR_MOVE_EMPTY = 1 << 4,  /* add move_ns to next_tx_ns: the pacer's queue is not where the model is */
	SR_KEEP_ECHOES = 1 << 5, /* with SR_MOVE_EMPTY: by so little that echoes of what waits count all the same */
};

/*
 * What the exchange program is called with: the data of a BPF_PROG_TEST_RUN. The
 * kernel wants a whole Ethernet header there, hence the rest. The program
 * returns how many slots it filled, or SR_EXCHANGE_INVALID.
 */
struct exchange_ctx {
	__u32 op;            /* enum sr_exchange_op */
	__u32 count;         /* slots to use */
	__u64 zero;
};
#define SR_EXCHANGE_INVALID 0xffffffffu

/*
 * What the engine_sync program is called with, and what it gives back in the same
 * place: the data of a BPF_PROG_TEST_RUN, engine_ctx and behind it the slots. The
 * kernel takes less than a page.
 */
struct engine_ctx {
	__u32 op;            /* SR_ENGINE_SYNC */
	__u32 count;         /* slots that follow */
	__u64 zero;
};
#define SR_ENGINE_SYNC 0x100
#define SR_ENGINE_SLOTS 32

/* One destination of the engine. Counts are since the last call. */
struct engine_slot {
	struct dest_key key;
	__u64 tx_bytes;      /* IP lengths without the stamp option */
	__u64 paced_ns;      /* sum of the delays that pacing asked for */
	__u64 rate_bps;      /* in: the rate in use; out: engine_rate_bps, the rate to use, 0 = unpaced */
	__u64 rtt_ns;        /* data -> ACK, the shortest; 0 = none measured */
	__u64 rtt_sent_ns;   /* when its data left, the clock of the stamps */
	__u32 tx_packets;
	__u32 tx_unstamped;
	__u32 rewinds;       /* packets sent again because others were lost, here or on their way back */
	__u32 paced;         /* packets that waited for the pacer */
	__u16 flags;         /* enum sr_engine_flag */
	__u16 lost;          /* signs that packets of ours were lost */
	__u32 node;          /* out: the peer's number */
	__u16 caps;          /* out: enum sr_cap */
	__u16 found;         /* out: 0 = the table is full */
	__u32 window_bytes;  /* out: may be under way, 0 = no limit */
	__u64 tx_token;      /* out: what stamps to the peer must carry */
};

enum sr_engine_flag {
	SR_ENGINE_CE_ECHOED = 1 << 0, /* a stamp of the engine has told the peer of its CE marks */
	SR_ENGINE_DUE = 1 << 1, /* something that was sent is answered, by an ACK or an echo */
	SR_ENGINE_WAITS = 1 << 2,     /* data waits for the pacer now */
};

#endif
