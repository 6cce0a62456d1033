/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Packets to QPNs of the engine are redirected to its AF_XDP socket. */
#ifndef SOFTROCE_STEER_H
#define SOFTROCE_STEER_H

static __always_inline const struct steer *steer_find(const struct sr_config *cfg, __u32 qpn)
{
	if (!cfg->steered)
		return NULL;
	return bpf_map_lookup_elem(&steer_table, &qpn);
}

static __always_inline int steer_missed(void)
{
	count(SR_STAT_rx_steer_missed);
	return XDP_PASS;
}

/*
 * steer_packet writes struct rx_meta in front of the frame and redirects it. Without a
 * socket on this receive queue the packet passes to the kernel stack, which drops it
 * because of its QPN.
 */
static __always_inline int steer_packet(struct xdp_md *ctx, const struct steer *st,
					const struct stamp *s, __u8 ce, __u64 t2)
{
	__u32 queue = ctx->rx_queue_index;

	if (queue >= st->queues)
		return steer_missed();
	if (!bpf_xdp_adjust_meta(ctx, -(int)sizeof(struct rx_meta))) {
		void *data = (void *)(long)ctx->data;
		struct rx_meta *meta = (void *)(long)ctx->data_meta;

		if ((void *)(meta + 1) <= data) {
			meta->magic = SR_META_MAGIC;
			meta->credit_seq = s->credit_seq;
			meta->flags = s->flags;
			meta->ce = ce;
			meta->t1_ns = s->t1_ns;
			meta->t2_ns = t2;
			meta->credit = s->credit;
			meta->proven = s->proven;
			__builtin_memset(meta->zero, 0, sizeof(meta->zero));
		}
	}
	if (bpf_redirect_map(&xsks, st->xsk_base + queue, XDP_PASS) != XDP_REDIRECT)
		return steer_missed();
	count(SR_STAT_rx_steered);
	return XDP_REDIRECT;
}

#endif
