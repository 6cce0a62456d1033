// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//go:build ignore

/*
 * The entry points of the data plane. Read them top-down; each stage lives in
 * lib/ under its own name.
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
#include "lib/secret.h"
#include "lib/stamp.h"
#include "lib/pace.h"
#include "lib/dest.h"
#include "lib/icrc.h"
#include "lib/steer.h"
#include "lib/control.h"
#include "lib/ingress.h"
#include "lib/egress.h"
#include "lib/exchange.h"
#include "lib/engine.h"

/*
 * From the wire: read and strip the stamp option, keep the table, answer HELLO,
 * steer what the engine owns, pass everything else.
 */
SEC("xdp.frags")
int softroce_ingress(struct xdp_md *ctx)
{
	return ingress(ctx);
}

/*
 * From the host's stack to the wire: find or make the destination's entry, pace,
 * append the stamp option if the peer understands it.
 */
SEC("tc")
int softroce_egress(struct __sk_buff *skb)
{
	return egress(skb);
}

/* The agent's way to read and write live entries without replacing them. */
SEC("tc")
int softroce_exchange(struct __sk_buff *skb)
{
	return exchange(skb);
}

/* The engine's way to report what it sent, and to learn its rates. */
SEC("tc")
int softroce_engine_sync(struct __sk_buff *skb)
{
	return engine_sync(skb);
}

/* Types that Go wants and no map mentions; BTF keeps them because of this name. */
struct {
	struct rx_meta meta;
	struct sr_event event;
	enum sr_pacer pacer;
	enum sr_cap cap;
	struct exchange_ctx exchange_ctx;
	enum sr_event_type event_type;
	enum sr_exchange_op exchange_op;
	enum sr_exchange_set exchange_set;
	struct engine_ctx engine_ctx;
	struct engine_slot engine_slot;
	enum sr_engine_flag engine_flag;
	enum sr_engine_news engine_news;
} *const volatile abi_types = NULL;

char _license[] SEC("license") = "Dual BSD/GPL";
