// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//go:build ignore

/*
 * The data plane's programs in a harness that lets one packet go through them
 * again and again. BPF_PROG_TEST_RUN repeats a program on the same buffer, and
 * ours change it: ingress strips the option, egress appends it. So each harness
 * calls the program and then restores the packet, and a second program does
 * nothing but restore. Their difference is the price over an empty program.
 *
 * TC: restoring is to shorten the packet by the option. Alone, it shortens a long
 * packet by a few bytes each time.
 * XDP: restoring is to lengthen the frame, which clears what it adds, so a few
 * bytes are cheaper than 40. The program that restores therefore shortens the
 * frame first, as ingress does, and bench.go adds the price of that again, taken
 * from a program that does nothing else.
 */
#include "../../../bpf/softroce.bpf.c"

/* What restore() puts back. Written by bench.go. */
struct template {
	__u32 opt_off;       /* of the option in the frame */
	__u32 shorten;       /* TC: bytes that restoring takes off */
	__u16 ip_len, ip_check; /* of the stamped packet, as they lie in memory */
	__u32 mask;          /* of the list of addresses: 0 = always the first */
	__u64 option[STAMP_LEN / 8];
	struct dest_key peer;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2); /* 0: what the harness restores; 1: TC's program that only restores */
	__type(key, __u32);
	__type(value, struct template);
} templates SEC(".maps");

/* IPv4 addresses that the packets come from or go to, in turn. */
#define ADDRESSES 65536
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, ADDRESSES);
	__type(key, __u32);
	__type(value, __u32);
} addresses SEC(".maps");

static __u32 turn;

static __always_inline const struct template *template_of(__u32 which)
{
	return bpf_map_lookup_elem(&templates, &which);
}

SEC("xdp.frags")
int bench_xdp_empty(struct xdp_md *ctx)
{
	return XDP_PASS;
}

SEC("tc")
int bench_tc_empty(struct __sk_buff *skb)
{
	return TC_NEXT;
}

static __always_inline int restore_xdp(struct xdp_md *ctx)
{
	const struct template *t = template_of(0);
	void *data, *end, *opt;

	if (!t || bpf_xdp_adjust_tail(ctx, STAMP_LEN))
		return XDP_ABORTED;
	data = (void *)(long)ctx->data;
	end = (void *)(long)ctx->data_end;
	if (data + ETH_HLEN + IPV4_HLEN > end)
		return XDP_ABORTED;
	ST16(data + ETH_HLEN + 2, t->ip_len);
	ST16(data + ETH_HLEN + 10, t->ip_check);
	opt = data + bounded(t->opt_off);
	if (opt + STAMP_LEN > end)
		return XDP_ABORTED;
	for (int i = 0; i < STAMP_LEN / 8; i++)
		ST64(opt + 8 * i, t->option[i]);
	return XDP_PASS;
}

/* The next address of the list into the frame, where the IPv4 header has it. */
static __always_inline void next_address(void *data, void *end, __u32 off)
{
	const struct template *t = template_of(0);
	__u32 index = t ? turn++ & t->mask : 0, *addr = bpf_map_lookup_elem(&addresses, &index);

	if (addr && data + off + 4 <= end)
		ST32(data + off, *addr);
}

SEC("xdp.frags")
int bench_xdp(struct xdp_md *ctx)
{
	return ingress(ctx) == XDP_PASS ? restore_xdp(ctx) : XDP_ABORTED;
}

SEC("xdp.frags")
int bench_xdp_restore(struct xdp_md *ctx)
{
	return bpf_xdp_adjust_tail(ctx, -STAMP_LEN) ? XDP_ABORTED : restore_xdp(ctx);
}

SEC("xdp.frags")
int bench_xdp_shorten(struct xdp_md *ctx)
{
	return bpf_xdp_adjust_tail(ctx, -4) ? XDP_ABORTED : XDP_PASS;
}

SEC("xdp.frags")
int bench_xdp_many(struct xdp_md *ctx)
{
	next_address((void *)(long)ctx->data, (void *)(long)ctx->data_end, ETH_HLEN + 12);
	return ingress(ctx) == XDP_PASS ? restore_xdp(ctx) : XDP_ABORTED;
}

/* What the kernel's own part of a packet costs: the clock, one look-up. */
SEC("xdp.frags")
int bench_xdp_clock(struct xdp_md *ctx)
{
	return clock_now() ? XDP_PASS : XDP_ABORTED;
}

SEC("xdp.frags")
int bench_xdp_lookup(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct roce r = { .ip = data + ETH_HLEN };
	struct dest_key key;

	next_address(data, end, ETH_HLEN + 12);
	if (r.ip + IPV4_HLEN > end)
		return XDP_ABORTED;
	peer_key(&r, 1, &key);
	return bpf_map_lookup_elem(&dest_table, &key) ? XDP_PASS : XDP_ABORTED;
}

/* Gives the packet the next PSN: with that of the one before it would be a repeated one. */
static __always_inline void next_psn(void *data, void *end)
{
	static __u32 psn;
	void *at = data + ETH_HLEN + IPV4_HLEN + UDP_HLEN + BTH_LEN - 4;

	if (at + 4 <= end)
		ST32(at, __builtin_bswap32(psn++ & 0xffffff));
}

static __always_inline int restore_tc(struct __sk_buff *skb, __u32 which)
{
	const struct template *t = template_of(which);
	void *data, *end;

	if (!t || bpf_skb_change_tail(skb, skb->len - t->shorten, 0))
		return TC_DROP;
	data = (void *)(long)skb->data;
	end = (void *)(long)skb->data_end;
	if (data + ETH_HLEN + IPV4_HLEN > end)
		return TC_DROP;
	ST16(data + ETH_HLEN + 2, t->ip_len);
	ST16(data + ETH_HLEN + 10, t->ip_check);
	next_psn(data, end);
	return TC_NEXT;
}

/* Every packet finds a stamp to echo, as an ACK does. */
static __always_inline void make_pending(__u32 which)
{
	const struct template *t = template_of(which);
	struct dest_regs *d = t ? bpf_map_lookup_elem(&dest_table, &t->peer) : NULL;

	if (d)
		WRITE_ONCE(d->ce_pending, 1);
}

SEC("tc")
int bench_tc(struct __sk_buff *skb)
{
	return egress(skb) == TC_NEXT ? restore_tc(skb, 0) : TC_DROP;
}

SEC("tc")
int bench_tc_restore(struct __sk_buff *skb)
{
	return restore_tc(skb, 1);
}

SEC("tc")
int bench_tc_echo(struct __sk_buff *skb)
{
	make_pending(0);
	return egress(skb) == TC_NEXT ? restore_tc(skb, 0) : TC_DROP;
}

SEC("tc")
int bench_tc_echo_restore(struct __sk_buff *skb)
{
	make_pending(1);
	return restore_tc(skb, 1);
}

SEC("tc")
int bench_tc_many(struct __sk_buff *skb)
{
	next_address((void *)(long)skb->data, (void *)(long)skb->data_end, ETH_HLEN + 16);
	return egress(skb) == TC_NEXT ? restore_tc(skb, 0) : TC_DROP;
}
