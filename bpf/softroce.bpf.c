// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//go:build ignore

/*
 * The entry points of the data plane. Read them top-down; each stage is a header in lib/.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

#ifndef NULL
#define NULL ((void *)0)
#endif

#include "lib/abi.h"
#include "lib/reasons.h"
#include "lib/maps.h"
#include "lib/parse.h"
#include "lib/rare.h"
#include "lib/secret.h"
#include "lib/stamp.h"
#include "lib/pace.h"
#include "lib/dest.h"
#include "lib/own.h"
#include "lib/icrc.h"
#include "lib/steer.h"
#include "lib/cm.h"
#include "lib/limit.h"
#include "lib/control.h"
#include "lib/ingress.h"
#include "lib/egress.h"
#include "lib/call.h"
#include "lib/agent_call.h"
#include "lib/engine.h"

/*
 * From the wire: read and strip the stamp option, update the table, answer HELLO, steer
 * packets of the engine, pass everything else.
 */
SEC("xdp.frags")
int softroce_ingress(struct xdp_md *ctx)
{
	return ingress(ctx);
}

/*
 * From the kernel stack to the wire: find or create the destination's entry, pace,
 * append the stamp option if the peer understands it.
 */
SEC("tc")
int softroce_egress(struct __sk_buff *skb)
{
	return egress(skb);
}

/* The agent reads and writes live entries with it, without replacing them. */
SEC("tc")
int softroce_agent_call(struct __sk_buff *skb)
{
	return agent_call(skb);
}

/* The engine reports what it sent with it, and receives its rates. */
SEC("tc")
int softroce_engine_sync(struct __sk_buff *skb)
{
	return engine_sync(skb);
}

/* Types that Go needs and no map contains; this variable keeps them in BTF. */
struct {
	struct rx_meta meta;
	struct sr_event event;
	enum sr_pacer pacer;
	enum sr_cap cap;
	struct sr_call call;
	enum sr_event_type event_type;
	enum sr_agent_op agent_op;
	enum sr_agent_set agent_set;
	struct engine_slot engine_slot;
	enum sr_engine_flag engine_flag;
	enum sr_engine_report engine_report;
	enum sr_engine_found engine_found;
	enum sr_hello_proof hello_proof;
	enum sr_own own;
} *const volatile abi_types = NULL;

char _license[] SEC("license") = "Dual BSD/GPL";
