/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The maps, pinned under /sys/fs/bpf/softroce-xdp/<interface>/. Each comment names the
 * writer. Sizes are the defaults; the loader sets max_entries at attach.
 */
#ifndef SOFTROCE_MAPS_H
#define SOFTROCE_MAPS_H

/*
 * The destination table (S1.2). Egress creates entries, for this host's own traffic, and
 * the agent does from the node file. An arriving packet never creates one, so a flood of
 * spoofed sources cannot fill the table. Only the agent deletes entries (idle, detach).
 *
 * The kernel rounds the number of buckets up to a power of two. One entry more than a
 * power of two halves the chains of a full table, in which each link is a cache miss.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536 + 1);
	__type(key, struct dest_key);
	__type(value, struct dest_regs);
} dest_table SEC(".maps");

/* QPNs that the engine owns. Written by the engine. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__type(key, __u32);
	__type(value, struct steer);
} steer_table SEC(".maps");

/*
 * Service IDs at which the engine's communication manager listens. cm_services, cm_requests and
 * cm_ids say which messages to queue pair 1 are the engine's while steer_table has an entry
 * for it; all others are the kernel stack's (cm.h). Written by the engine.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u64);
	__type(value, __u32);
} cm_services SEC(".maps");

/* Requests that the engine's communication manager has received. Their copies are for it too. Written by the engine. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct cm_request);
	__type(value, __u32);
} cm_requests SEC(".maps");

/* Communication IDs of the engine's communication manager. Written by the engine. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u32);
	__type(value, struct cm_id);
} cm_ids SEC(".maps");

/* AF_XDP sockets, by steer.xsk_base + receive queue. Written by the engine. */
struct {
	__uint(type, BPF_MAP_TYPE_XSKMAP);
	__uint(max_entries, 256);
	__type(key, __u32);
	__type(value, __u32);
} xsks SEC(".maps");

/* Policy and pacer parameters. Written by the agent, which maps it into memory. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct sr_config);
} config SEC(".maps");

/* Counters by reason (reasons.h). Written by the data plane. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, SR_STAT_MAX);
	__type(key, __u32); /* enum sr_reason */
	__type(value, __u64);
} stats SEC(".maps");

/* struct sr_event for the agent. Written by the data plane. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 256 * 1024);
} events SEC(".maps");

/*
 * Destinations with traffic since their last evaluation. Pushed by the data plane (once:
 * dest_regs.queued), popped by the agent call. The cost of an evaluation depends on the
 * active destinations and not on the size of the table.
 */
struct {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__uint(max_entries, 65536);
	__type(value, struct dest_key);
} active SEC(".maps");

/*
 * 1: the agent evaluates seldom, and wants an event when a destination becomes active. Written by
 * the agent; the data plane clears it with that event.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, __u32);
} agent_rests SEC(".maps");

/*
 * What peers let this host send to them (S1.8): the latest RATE_LIMIT of each. Written by ingress,
 * for peers that have an entry in dest_table and have proven their address. The agent enforces the
 * limits, and deletes an entry with that of dest_table.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct dest_key);
	__type(value, struct rate_limit);
} rate_limits SEC(".maps");

/* What may arrive from peers that share the link of this host (S4.5). Written by the agent. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct dest_key);
	__type(value, struct arrival_limit);
} arrival_limits SEC(".maps");

/* What ingress has dropped by arrival_limits. The agent creates the entries, ingress counts. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct dest_key);
	__type(value, struct arrival_count);
} arrival_counts SEC(".maps");

/* Whether the three maps above have to be looked at. Mapped into the agent's memory. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct limit_words);
} limit_state SEC(".maps");

/*
 * The unicast addresses of this host (of the network namespace), with their numbers (enum sr_own
 * and above). A packet to another address was sent to another host, which this one forwards to.
 * Written by the agent.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct dest_key);
	__type(value, __u32);
} own_addresses SEC(".maps");

/* Whether own_addresses is complete, and its first addresses. Mapped into the agent's memory. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct own_words);
} own_state SEC(".maps");

/*
 * Tokens for stamps that leave from another address than dest_regs.tx_own. 0: the peer has given
 * none yet. Created by egress, engine_sync and control packets that are sent, written by ingress
 * on HELLO_ACK. The agent deletes them with the entry in dest_table.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct own_pair);
	__type(value, __u64);
} tx_tokens SEC(".maps");

/*
 * Number of the engine's next pre-credit account (S5), 0 = none was made. Mapped into the engine's
 * memory, which writes it; the next engine goes on from there, whatever the clock says.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, __u32);
} credit_epoch SEC(".maps");

/* Slots of the agent call, mapped into the agent's memory. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SR_AGENT_SLOTS);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct agent_slot);
} call_buffer SEC(".maps");

enum hello_buckets { BUCKET_HELLO, BUCKET_UNKNOWN, BUCKETS };

/*
 * Token buckets, one set per CPU: HELLO answers, and events about hosts without an entry.
 * Written by ingress.
 */
struct hello_bucket {
	__u64 full_ns; /* time at which the bucket is full */
};
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, BUCKETS);
	__type(key, __u32);
	__type(value, struct hello_bucket);
} hello_limit SEC(".maps");

/* Memory for the construction of a new entry, which does not fit the BPF stack. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct dest_regs);
} scratch SEC(".maps");

static __always_inline void count(enum sr_reason reason)
{
	__u32 key = reason;
	__u64 *n = bpf_map_lookup_elem(&stats, &key);

	if (n)
		*n += 1;
}

/* add counts in a destination's entry. */
static __always_inline void add(__u64 *counter, __u64 n)
{
	__sync_fetch_and_add(counter, n);
}

/* add32 does the same for the counts of a window, which the agent call resets. */
static __always_inline void add32(__u32 *counter, __u32 n)
{
	__sync_fetch_and_add(counter, n);
}

static __always_inline const struct sr_config *get_config(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&config, &zero);
}

/* event_begin returns an event to fill in and pass to bpf_ringbuf_submit, or NULL if the ring is full. */
static __always_inline struct sr_event *event_begin(enum sr_event_type type,
						    const struct dest_key *peer, __u64 own, __u64 now)
{
	struct sr_event *e = bpf_ringbuf_reserve(&events, sizeof(*e), 0);

	if (!e) {
		count(SR_STAT_events_lost);
		return NULL;
	}
	__builtin_memset(e, 0, sizeof(*e));
	e->type = type;
	e->ns = now;
	e->peer = *peer;
	e->own = own;
	return e;
}

#endif
