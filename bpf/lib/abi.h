/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The structures that the data plane, the agent and bpftool share.
 *
 * This header is the one place where they are defined: bpf2go turns it into Go
 * (bpf/softroce_bpfel.go), and `bpftool map dump` prints its field names. Everything
 * is in host byte order unless a comment says otherwise; times are nanoseconds of the clock
 * chosen at attach (CLOCK_MONOTONIC, or CLOCK_TAI for PTP-synchronised hosts).
 * Pacing and the heartbeat are always on CLOCK_MONOTONIC, as fq is: next_tx_ns and
 * heartbeat_ns. Differences between the clocks of two hosts are known modulo 2^48 ns:
 * in_tx_ns, tx_ns and rx_ns each by itself; tx_ns + rx_ns is exact.
 *
 * A change of a layout or of a name raises SR_ABI_VERSION: an upgrade in place refuses
 * pins of another version and tells the user to detach first. A reserved field, which is
 * 0, may get a meaning without that if 0 stands for the behaviour before.
 */
#ifndef SOFTROCE_ABI_H
#define SOFTROCE_ABI_H

#include "policy.h"

#define SR_ABI_VERSION 5
#define SR_PSN_SLOTS 4

/* An address, IPv4 as ::ffff:a.b.c.d; network byte order. */
struct dest_key {
	__u8 addr[16];
};

/*
 * dest_regs.caps, one bit each. SR_CAP_STAMP is what makes egress append the
 * stamp option; HELLO announces the others.
 */
enum sr_cap {
	SR_CAP_STAMP = 1 << 0,   /* understands the stamp option (S1.2-S1.4) */
	SR_CAP_SACK = 1 << 1,    /* engine with selective acknowledgement */
	SR_CAP_CREDIT = 1 << 2,  /* pre-credit (S5) */
	SR_CAP_OOO = 1 << 3,     /* out-of-order mode (S3) */
	SR_CAP_STATIC = 1 << 15, /* set by configuration: HELLO does not clear it */
};

/* For PSN regressions: one flow to the peer and the PSN sent last. */
struct sr_flow {
	__u32 psn;           /* bit 31: a flow of READ responses, which have the requester's PSNs */
	__u32 qpn;
};

/*
 * One destination's registers: nine cache lines. In the hash map 64 bytes of element
 * header and key stand in front, so an element is 640 bytes, five pairs of lines that
 * processors load together: the key and line 0, lines 1 and 2, and so on. An arriving
 * packet needs the first pair, one with an echo line 1 as well; a packet that is sent
 * needs the first pair (queued, echo) and lines 3 and 4.
 *
 * Each line has one writer, which its heading names. The agent never writes a live entry
 * with the map syscall, which replaces the element and loses counts. It calls
 * softroce_agent_call, which writes the agent's fields in place.
 */
struct dest_regs {
	/* line 0 - written by ingress for every packet, read by egress for the echo */
	__u64 rx_token;    /* token that the peer's stamps must carry; 0 = every stamp is refused */
	__u64 peer_t1_ns;  /* latest T1 received from the peer, the peer's clock, modulo 2^48 */
	__s64 in_tx_ns;    /* S1.3: T2-T1 of the peer's data to this host, modulo 2^48 */
	__u64 echo_guard;  /* ~(peer_t1_ns ^ in_tx_ns): two values of different writes do not match */
	__u64 rx_packets;  /* packets received */
	__u64 rx_bytes;    /* IP lengths without the stamp option */
	__u64 last_rx_ns;  /* arrival of the last packet that is accepted as the peer's */
	__u8 queued;       /* 1: in the active queue; set by the data plane, cleared by the agent call */
	__u8 ce_pending;   /* 1: CE received since the last echo; set by ingress, cleared by egress */
	__u16 rx_own;        /* number (own_addresses) of this host's address to which the peer's last proven stamp came; 0 = unknown */
	__u32 node;        /* S1.2: node number 1..n, 0 = not numbered yet; agent */

	/* line 1 - written by ingress when an echo comes: S1.4 and one window's samples */
	__s64 tx_ns;         /* S1.4: transmit time T2-T1 of this host's data to the peer */
	__s64 rx_ns;         /* S1.4: receive time T3-T2 of its feedback */
	__s64 win_tx_ns;     /* minimum of tx_ns in the window */
	__s64 win_rx_ns;     /* minimum of rx_ns in the window */
	__s64 win_rtt_ns;    /* minimum of the RTT in the window */
	__u64 last_echo_t1_ns; /* T1 of the latest echo; an echo with this T1 or an older one is not counted */
	__u64 valid_after_ns; /* echoes of packets that left before this are not counted; written by the agent call too */
	__u32 win_samples;   /* echoes in the window */
	__u32 win_ce;        /* CE echoes and CNPs in the window */

	/* line 2 - written by ingress, not for every packet, and by engine_sync; rates by the agent */
	__u64 rate_bps;      /* of the destination: bits per second of L2 frames without the option, 0 = unpaced; agent */
	__u64 engine_rate_bps; /* part of rate_bps that the engine may use; agent */
	__u64 engine_packets; /* packets of the engine, contained in tx_packets */
	__u64 engine_bytes;  /* bytes of the engine, contained in tx_bytes */
	__u32 win_engine_paced; /* packets of the engine, contained in win_paced */
	__u8 win_engine;     /* enum sr_engine_report: the engine's latest report in the window */
	__u8 engine_limit;   /* why a queue pair of the engine sent nothing at its last report (table in transport.md); 0 = not limited */
	__u8 bound;          /* which bound sets rate_bps: 1 policy, 2 priority, 3 floor, 4 share, 5 receiver (table in four-case.md); 0 = not known; agent */
	__u8 reserved2;
	__s64 turnaround_ns; /* receiver turnaround that rx_ns contains: T1 of the peer's ACK - the echoed T2 */
	__s64 rtt_ns;        /* RTT from data to ACK by PSN, for peers that echo nothing */
	__u32 credit;        /* latest credit of the stamp option (S5.5) */
	__u16 credit_seq;    /* sequence number of credit */
	__u8 win_rnr;        /* 1: RNR NAKs in the window, whose PSN regressions are no loss */
	__u8 reserved2b;

	/* line 3 - written by egress */
	__u64 tx_packets;    /* packets sent */
	__u64 tx_bytes;      /* IP lengths without the stamp option */
	__u64 stack_rate_bps; /* part of rate_bps that the kernel stack may use; egress paces by it; agent */
	__u64 next_tx_ns;    /* time at which the pacer's token bucket is empty: departure of the next packet */
	__u64 last_tx_ns;    /* when egress or the engine last counted a packet */
	__u64 paced_ns;      /* sum of the delays of the pacer */
	__u64 tx_token;      /* token that stamps to the peer must carry; ingress on HELLO_ACK */
	__u32 class_id;      /* skb->priority under the htb pacer, 0 = none; agent */
	__u16 caps;          /* enum sr_cap; ingress on HELLO_ACK, agent */
	__u16 peer_room;     /* longest packet that the peer stamps, bytes of IP without the option, a multiple of 16; 0 = unknown, SR_ROOM_NONE = it stamps nothing; ingress on HELLO_ACK */

	/* line 4 - written by egress */
	struct sr_flow flows[SR_PSN_SLOTS]; /* by QPN % SR_PSN_SLOTS */
	__u64 probe_ns;      /* RTT probe of a plain peer: departure of the packet whose ACK is timed; 0 = none */
	__u32 probe_psn;     /* PSN of that packet */
	__u32 win_loss;      /* signs that sent packets were lost, in the window: NAKs (PSN), and PSN regressions to packets that have left */
	__u32 win_paced;     /* packets that the pacer delayed in the window */
	__u8 win_due;        /* 1: feedback is due: a packet sent in the window is answered by an ACK or an echo */
	__u8 tx_bare;        /* 1: a packet with room for the option left without, since this host last told the peer */
	__u8 answers;        /* HELLO_ACKs to questions whether the peer stamps, modulo 256; ingress */
	__u8 reserved4;
	__u64 tx_own;        /* own_word of this host's address that tx_token is for; 0 = any */

	/* line 5 - rare events, counted atomically by ingress and egress */
	__u64 psn_regressions; /* times that the PSN of a flow went back: retransmissions */
	__u64 naks;          /* AETH 011 received */
	__u64 rnrs;          /* AETH 001 received */
	__u64 cnps;          /* CNPs received */
	__u64 ces;           /* packets received with CE set */
	__u64 tx_unstamped;  /* packets sent without the option */
	__u64 rx_unstamped;  /* packets received without an accepted option */
	__u64 dropped;       /* packets dropped by the police pacer */

	/* lines 6 to 8 - written by the agent only */
	struct policy_regs policy; /* registers of the four-case policy */
};

/* dest_regs.peer_room of a peer that has answered that it stamps nothing. */
#define SR_ROOM_NONE 1

/* dest_regs.win_engine. */
enum sr_engine_report {
	SR_ENGINE_SILENT = 0, /* no report in the window */
	SR_ENGINE_FREE = 1,  /* its pacer delayed nothing */
	SR_ENGINE_PACE_BLOCKED = 2, /* data waited for its pacer */
};

/* rx_meta is what ingress writes in front of a frame that it steers to the engine (data_meta). */
struct rx_meta {
	__u32 magic;         /* SR_META_MAGIC */
	__u16 credit_seq;
	__u8 flags;          /* of the stamp option; 0 = the packet had none */
	__u8 ce;             /* 1 = the IP header had CE */
	__u64 t1_ns;         /* modulo 2^48 */
	__u64 t2_ns;
	__u32 credit;
	__u8 proven;         /* 1 = the packet had a stamp with the token of the peer */
	__u8 zero[3];
};
#define SR_META_MAGIC 0x53524d31u /* "SRM1" */

/* steer_table value: the AF_XDP sockets of one owned QPN. */
struct steer {
	__u32 xsk_base;      /* xsks index of the socket on queue 0 */
	__u32 queues;        /* number of sockets from xsk_base on, one per receive queue */
};

/* rate_limits value: what a peer lets this host send to it (RATE_LIMIT). Times are monotonic. */
struct rate_limit {
	__u64 rate_bps;      /* bits per second of L2 frames without the option */
	__u64 until_ns;      /* end of its life */
	__u32 epoch;         /* of the latest RATE_LIMIT; earlier ones are ignored */
	__u32 received;      /* RATE_LIMITs that were accepted */
};

/* arrival_limits value: what may arrive from a peer. Times are monotonic. */
struct arrival_limit {
	__u64 limit_bps;     /* what the peer was told, bits per second of L2 frames without the option */
	__u64 rate_bps;      /* more than this is dropped; 0 = nothing is, the peer may not know the limit yet */
	__u64 burst_ns;      /* what may arrive above it at once, as time at this rate */
	__u64 until_ns;      /* end of its life */
};

/* arrival_counts value: the token bucket of an arrival_limit, and what it dropped. */
struct arrival_count {
	__u64 empty_ns;      /* time at which the packets that have arrived would have arrived at the rate */
	__u64 dropped_packets;
	__u64 dropped_bytes; /* IP lengths without the stamp option */
};

/* limit_state, one element. */
struct limit_words {
	__u32 received;      /* changes of rate_limits; ingress */
	__u32 policed;       /* entries in arrival_limits, 0 = ingress omits the lookup; agent */
	struct priority_state now; /* how the link of this host is divided among those that send to it; agent */
};

/* own_state, one element: the addresses of this host that need no lookup in own_addresses. */
struct own_words {
	__u32 known;         /* 1: own_addresses has all addresses; 0: every address counts as this host's */
	__u32 first4;        /* an IPv4 address, network byte order, 0 = none; its number is SR_OWN_FIRST4 */
	__u64 first6[2];     /* an IPv6 address, network byte order, 0 = none; its number is SR_OWN_FIRST6 */
};

enum sr_own {
	SR_OWN_UNKNOWN = 0,  /* the list is not complete */
	SR_OWN_FIRST4 = 1,
	SR_OWN_FIRST6 = 2,
	SR_OWN_OTHERS = 3,   /* the lowest number of another address */
};

/*
 * tx_tokens key: an address of a peer, and the address of this host from which stamps go there.
 * own is an own_word: an IPv4 address in network byte order, or the two halves of an IPv6
 * address, combined by a product and a sum (lib/own.h).
 */
struct own_pair {
	struct dest_key peer;
	__u64 own;
};

/* cm_requests key: a REQ or SIDR_REQ that the engine's communication manager has received. */
struct cm_request {
	struct dest_key peer;
	__u64 guid;          /* CA GUID of the peer; 0 for SIDR_REQ */
	__u32 id;            /* communication ID or request ID of the peer */
	__u32 sidr;          /* 1 = SIDR_REQ; CM_REST: peer is an address of this host, guid and id are 0 */
};

/* cm_ids value: a connection or resolution of the engine's communication manager. */
struct cm_id {
	struct dest_key peer;
	__u32 remote;        /* communication ID of the peer, 0 = not known yet, any */
	__u32 sidr;          /* 1 = a resolution, whose answer is a SIDR_REP */
};

enum sr_pacer {
	SR_PACER_NONE = 0,
	SR_PACER_EDT = 1,
	SR_PACER_HTB = 2,
	SR_PACER_POLICE = 3,
};

/* config, one element. The agent writes it, the data plane only reads. */
struct sr_config {
	__u32 abi_version;           /* SR_ABI_VERSION of the program that attached */
	__u32 pacer;                 /* enum sr_pacer */
	__u32 node;                  /* this node's number, 0 = not numbered */
	__u32 caps;                  /* enum sr_cap: what HELLO and HELLO_ACK announce */
	__u32 mtu;                   /* of the interface, bytes of IP */
	__u32 hello_rate;            /* HELLOs answered per second and CPU */
	__u64 heartbeat_ns;          /* when the agent last wrote it */
	__u64 heartbeat_timeout_ns;  /* after this the data plane stops pacing */
	__u64 link_rate_bps;         /* of the interface */
	__u64 initial_rate_bps;      /* rate_bps of a new entry (S1.2), 0 = unpaced */
	__u64 burst_ns;              /* burst that an idle destination may send, as time at its rate */
	__u32 steered;               /* QPNs in steer_table; 0 = ingress omits the lookup */
	__u32 hello_by_agent;        /* 1: the agent answers HELLO, because XDP_TX loses frames on this interface (veth) */
	__u8 mac[6];                 /* of the interface; frames to other addresses pass unread. 0 = any. One word with window_off: read and written at once */
	__u16 window_off;            /* 1: no limit of what the engine may have in flight */
	__u64 secret[2];             /* random key of this attachment: tokens and nonces */
	struct policy_params policy;
	struct priority_params priority;
	struct priority_state priority_now; /* what the priority policy does at present; agent */
};

enum sr_event_type {
	SR_EVENT_NEW_DEST = 1,       /* egress created an entry */
	SR_EVENT_PEER_AWARE = 2,     /* a peer with an entry answered a HELLO of this host */
	SR_EVENT_HELLO = 3,          /* HELLO from a peer that gets no stamps (yet), or whose capabilities have changed */
	SR_EVENT_ACK_UNKNOWN = 4,    /* HELLO_ACK with the right nonce from an address without an entry */
	SR_EVENT_ACTIVE = 5,         /* a destination became active while agent_rests was 1 */
	SR_EVENT_NEW_SOURCE = 6,     /* a packet to a peer left from an address for which the peer has given no token */
	SR_EVENT_ASK = 7,            /* the engine asks whether a peer stamps: packets arrived without its token */
};

/* sr_event.proven, one bit each. */
enum sr_hello_proof {
	SR_HELLO_PROVEN = 1 << 0, /* it has the token of the peer, which therefore receives at its address */
	SR_HELLO_ASKS = 1 << 1,   /* a proven HELLO asks whether this host stamps; the agent answers */
};

struct sr_event {
	__u32 type;          /* enum sr_event_type */
	__u32 caps;          /* of the peer */
	__u64 ns;
	__u64 nonce;         /* of a HELLO that the agent has to answer; 0 = answered */
	__u64 t1_ns;         /* T1 of that HELLO */
	__u64 token;         /* of a HELLO_ACK: token that stamps to the peer must carry */
	__u32 node;          /* the peer's node number */
	__u32 proven;        /* enum sr_hello_proof of a HELLO */
	struct dest_key peer;
	__u64 own;           /* own_word of this host's address that the packet came to or left from; 0 = unknown */
};

/* agent_slot is one slot of the call buffer, between the agent and softroce_agent_call. */
struct agent_slot {
	struct dest_key key;
	__u32 op;            /* enum sr_agent_set bits, for apply */
	__u32 found;         /* set by the program: the entry exists */
	__s64 shift_ns;      /* SR_SHIFT_NEXT_TX: to add to next_tx_ns */
	struct dest_regs regs;
};
#define SR_AGENT_SLOTS 128

enum sr_agent_op {
	SR_AGENT_COLLECT = 1, /* pop active destinations, snapshot, reset windows */
	SR_AGENT_APPLY = 2,   /* write the fields that slot.op names */
	SR_AGENT_READ = 3,    /* snapshot the keys given, change nothing */
};

enum sr_agent_set {
	SR_SET_POLICY = 1 << 0,  /* policy, the three rates (next_tx_ns rescaled), bound, valid_after_ns */
	SR_SET_CLASS = 1 << 1,   /* class_id */
	SR_SET_NODE = 1 << 2,    /* node */
	SR_SET_CAPS = 1 << 3,    /* caps */
	SR_SHIFT_NEXT_TX = 1 << 4, /* add shift_ns to next_tx_ns: the queue of the pacer differs from the model */
	SR_KEEP_ECHOES = 1 << 5, /* with SR_SHIFT_NEXT_TX: the shift is small, so echoes of waiting packets stay valid */
};

/*
 * sr_call is the start of the packet with which a program is called that is attached
 * nowhere (call.h). The kernel requires at least an Ethernet header there, hence the
 * zeros. The program returns the number of slots done, or SR_CALL_INVALID.
 *
 * The slots of the agent are in the map call_buffer: as packet data, which must be less than
 * a page, five would fit. Those of the engine follow sr_call in the packet: in a map they
 * would need one of their own, as agent and engine call at the same time.
 */
struct sr_call {
	__u32 op;            /* enum sr_agent_op, or SR_ENGINE_SYNC */
	__u32 count;         /* slots to use */
	__u64 zero;
};
#define SR_CALL_INVALID 0xffffffffu

#define SR_ENGINE_SYNC 0x100
#define SR_ENGINE_SLOTS 32

/* engine_slot has one destination of the engine. Counts are since the last call. */
struct engine_slot {
	struct dest_key key;
	__u64 tx_bytes;      /* IP lengths without the stamp option */
	__u64 paced_ns;      /* sum of the delays of the engine's pacer */
	__u64 rate_bps;      /* in: the rate in use; out: engine_rate_bps, the rate to use, 0 = unpaced */
	__u64 rtt_ns;        /* smallest RTT from data to ACK; 0 = none measured */
	__u64 rtt_sent_ns;   /* departure of the data of rtt_ns, on the clock of the stamps */
	__u32 tx_packets;
	__u32 tx_unstamped;
	__u32 psn_regressions; /* retransmissions because of a loss on the forward or the reverse path */
	__u32 paced;         /* packets that the pacer delayed */
	__u8 flags;          /* enum sr_engine_flag */
	__u8 limit;          /* dest_regs.engine_limit */
	__u16 lost;          /* signs that packets of the engine were lost */
	__u32 node;          /* out: the peer's number */
	__u16 caps;          /* out: enum sr_cap */
	__u16 found;         /* out: enum sr_engine_found; 0 = the table is full */
	__u32 window_bytes;  /* out: bytes that may be in flight, 0 = no limit */
	__u64 tx_token;      /* in: own_word of the source address, 0 = unknown; out: token that stamps from there must carry, 0 = none yet */
};

enum sr_engine_flag {
	SR_ENGINE_CE_ECHOED = 1 << 0, /* a stamp of the engine has echoed the CE marks of the peer's packets */
	SR_ENGINE_DUE = 1 << 1,       /* feedback is due: a sent packet is answered by an ACK or an echo */
	SR_ENGINE_WAITS = 1 << 2,     /* data waits for the pacer now */
	SR_ENGINE_CM_ANSWERS = 1 << 3, /* only answers of the communication manager were sent, to a host that has proven nothing: no new entry */
	SR_ENGINE_ASK = 1 << 4,       /* the agent is to ask the peer whether it stamps */
};

/* engine_slot.found: four bits, and dest_regs.peer_room in the others. */
enum sr_engine_found {
	SR_FOUND = 1 << 0,          /* there is an entry */
	SR_FOUND_ANSWERS = 1 << 1,  /* dest_regs.answers is odd */
	SR_FOUND_BARE = 1 << 2,     /* the peer has answered that it stamps nothing */
	SR_FOUND_PROVEN = 1 << 3,   /* a stamp with the right token has arrived from the peer */
	SR_FOUND_ROOM = 0xfff0,     /* dest_regs.peer_room, 0 = unknown */
};

#endif
