/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The stamp option (S1.2-S1.4, S5.5): an experimental UDP option in the surplus
 * area of RFC 9868, 40 bytes, big-endian. rocev2/stamp.go has the same format.
 *
 *   0 OCS(16)  2 Kind=127  3 Len=38  4 ExID=0x5352  6 flags  7 version=2
 *   8 token(64)  16 t1(48)  22 echo_t1(48)  28 echo_t2(48)  34 credit(32)  38 credit_seq(16)
 */
#ifndef SOFTROCE_STAMP_H
#define SOFTROCE_STAMP_H

#define STAMP_LEN 40
#define STAMP_VERSION 2
#define STAMP_T1 1
#define STAMP_ECHO 2
#define STAMP_CREDIT 4
#define STAMP_CE 8

/* Kind and Len, and the ExID, in the byte order of the packet. */
#define STAMP_KIND_LEN bpf_htons(0x7f26)
#define STAMP_EXID bpf_htons(0x5352)

/* Times in the option are modulo 2^48 ns: 78 hours. */
#define STAMP_TIME_BITS 48
#define STAMP_TIME_MASK ((1ull << STAMP_TIME_BITS) - 1)

/* time_diff is the difference of two times of which one is modulo 2^48. */
static __always_inline __s64 time_diff(__u64 a, __u64 b)
{
	return (__s64)((a - b) << (64 - STAMP_TIME_BITS)) >> (64 - STAMP_TIME_BITS);
}

/* The option, fields in host order. Times that are written may have more bits. */
struct stamp {
	__u64 token;
	__u64 t1_ns;
	__u64 echo_t1_ns;
	__u64 echo_t2_ns;
	__u32 credit;
	__u16 credit_seq;
	__u8 flags;
	__u8 proven; /* not in the option: the token is the one that HELLO_ACK gave the peer */
};

/*
 * stamp_sum is the one's complement sum of an option and of its length, which RFC 9868
 * adds like a header field. The sum is the same in any byte order if the length has the
 * order of the rest. 0xffff = the OCS is right.
 */
static __always_inline __u16 stamp_sum(const void *opt)
{
	__u64 sum = bpf_htons(STAMP_LEN);

#pragma unroll
	for (int i = 0; i < STAMP_LEN; i += 4)
		sum += LD32(opt + i);
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16 & 0xffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return sum;
}

/*
 * Options are read and written in units no wider than their alignment, which the verifier
 * demands for those on the stack.
 */
static __always_inline int stamp_is_ours(const void *opt)
{
	return LD16(opt + 2) == STAMP_KIND_LEN && LD16(opt + 4) == STAMP_EXID;
}

static __always_inline void stamp_fields(const void *opt, struct stamp *s)
{
	__u64 a = bpf_be64_to_cpu(LD64(opt + 16)), b = bpf_be64_to_cpu(LD64(opt + 24)),
	      c = bpf_be64_to_cpu(LD64(opt + 32));

	s->flags = *(__u8 *)(opt + 6);
	s->token = bpf_be64_to_cpu(LD64(opt + 8));
	s->t1_ns = a >> 16;
	s->echo_t1_ns = (a << 32 | b >> 32) & STAMP_TIME_MASK;
	s->echo_t2_ns = (b << 16 | c >> 48) & STAMP_TIME_MASK;
	s->credit = c >> 16;
	s->credit_seq = c;
}

/*
 * stamp_read reads an option. Returns 0, or the reason why it is no stamp option. RFC 9868
 * permits an OCS of zero where the UDP checksum is zero as well.
 */
static __always_inline int stamp_read(const void *opt, const void *udp, struct stamp *s)
{
	if (!stamp_is_ours(opt))
		return SR_STAT_rx_option_foreign;
	if (stamp_sum(opt) != 0xffff && (LD16(opt) || LD16(udp + 6)))
		return SR_STAT_rx_option_checksum;
	if (*(__u8 *)(opt + 7) != STAMP_VERSION)
		return SR_STAT_rx_option_version;
	stamp_fields(opt, s);
	return 0;
}

/* read_option reads the option of a frame in any buffer. Returns 0 or the reason why not. */
static __always_inline int read_option(struct xdp_md *ctx, const struct roce *r, void *data,
				       void *end, struct stamp *s)
{
	__u32 off = r->opt_off;
	__u8 copy[STAMP_LEN] __attribute__((aligned(8)));
	void *opt;

	if (r->surplus != STAMP_LEN || off > MAX_OFFSET)
		return SR_STAT_rx_option_foreign;
	opt = data + bounded(off);
	if (opt + STAMP_LEN <= end)
		return stamp_read(opt, r->udp, s);
	/* A frame of several buffers: the tail is not in the linear part. */
	if (bpf_xdp_load_bytes(ctx, off, copy, STAMP_LEN))
		return SR_STAT_rx_truncated;
	return stamp_read(copy, r->udp, s);
}

/* stamp_room returns the longest packet that the MTU lets egress stamp, bytes of IP without the option. */
static __always_inline __u32 stamp_room(const struct sr_config *cfg)
{
	return cfg->mtu > STAMP_LEN ? cfg->mtu - STAMP_LEN : 0;
}

static __always_inline void stamp_write(void *opt, const struct stamp *s)
{
	__u64 echo_t1 = s->echo_t1_ns & STAMP_TIME_MASK, echo_t2 = s->echo_t2_ns & STAMP_TIME_MASK;
	__u16 sum;

	ST16(opt, 0);
	ST16(opt + 2, STAMP_KIND_LEN);
	ST16(opt + 4, STAMP_EXID);
	ST16(opt + 6, bpf_htons(s->flags << 8 | STAMP_VERSION));
	ST64(opt + 8, bpf_cpu_to_be64(s->token));
	ST64(opt + 16, bpf_cpu_to_be64(s->t1_ns << 16 | echo_t1 >> 32));
	ST64(opt + 24, bpf_cpu_to_be64(echo_t1 << 32 | echo_t2 >> 16));
	ST64(opt + 32, bpf_cpu_to_be64(echo_t2 << 48 | (__u64)s->credit << 16 | s->credit_seq));
	sum = ~stamp_sum(opt);
	ST16(opt, sum ? sum : 0xffff); /* zero means "not computed" */
}

#endif
