/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * From the Ethernet header to the BTH, for XDP and TC alike.
 *
 * The cheapest checks come first: a packet that is not RoCEv2 passes as few as possible.
 */
#ifndef SOFTROCE_PARSE_H
#define SOFTROCE_PARSE_H

#define ETH_P_IP 0x0800
#define ETH_P_IPV6 0x86DD
#define ETH_P_8021Q 0x8100
#define ETH_P_8021AD 0x88A8
#define ETH_HLEN 14
#define VLAN_HLEN 4
#define VLAN_VID 0x0fff /* the VLAN ID in a tag; 0 = a priority tag, of no VLAN */
#define IPV4_HLEN 20
#define IPV6_HLEN 40
#define UDP_HLEN 8
#define BTH_LEN 12
#define ICRC_LEN 4
#define IPV4_FRAGMENT 0x3fff /* more fragments, and the offset */
#define ROCE_PORT 4791
#define ROCE_MIN_UDP (UDP_HLEN + BTH_LEN + ICRC_LEN)

/* IANA protocol numbers. */
#define IPPROTO_HOPOPTS 0
#define IPPROTO_UDP 17
#define IPPROTO_ROUTING 43
#define IPPROTO_FRAGMENT 44
#define IPPROTO_AH 51
#define IPPROTO_DSTOPTS 60
#define IPPROTO_MH 135

/* Largest offset in a packet that is read: jumbo frames. */
#define MAX_OFFSET 0x3fff

/* bounded shows the verifier that off <= MAX_OFFSET; clang would remove a plain `&`. */
static __always_inline __u64 bounded(__u64 off)
{
	asm volatile("%0 &= %1" : "+r"(off) : "i"(MAX_OFFSET));
	return off;
}

/*
 * Loads of any alignment as one instruction. For packed structs clang emits loads of
 * single bytes on BPF.
 */
typedef __u16 __attribute__((may_alias)) u16_a;
typedef __u32 __attribute__((may_alias)) u32_a;
typedef __u64 __attribute__((may_alias)) u64_a;
#define LD16(p) (*(const u16_a *)(p))
#define LD32(p) (*(const u32_a *)(p))
#define LD64(p) (*(const u64_a *)(p))
#define ST16(p, v) (*(u16_a *)(p) = (v))
#define ST32(p, v) (*(u32_a *)(p) = (v))
#define ST64(p, v) (*(u64_a *)(p) = (v))

/* For fields that another CPU may change meanwhile: one access, in program order. */
#define READ_ONCE(x) (*(const volatile typeof(x) *)&(x))
#define WRITE_ONCE(x, v) (*(volatile typeof(x) *)&(x) = (v))

enum verdict {
	NOT_ROCE,    /* no RoCEv2: pass, count nothing */
	ROCE,        /* all fields of struct roce are valid */
	SHORT,       /* the linear part is too short to decide: TC may pull more */
	SHORT_ROCE,  /* the same, and the UDP port is that of RoCEv2 */
	BAD_LENGTH,  /* RoCEv2 whose lengths contradict each other: pass, count */
	RARE,        /* may be RoCEv2 in a form that is passed unread: rare.h */
};

/* Positions of the parts of a RoCEv2 packet. Offsets count from the Ethernet header. */
struct roce {
	void *ip;
	void *udp;
	void *bth;
	__u32 ip_hlen;
	__u32 ip_len;   /* of the whole datagram, header and surplus included */
	__u32 udp_len;
	__u32 opt_off;  /* where the surplus area starts */
	__u32 surplus;  /* its length */
	__u32 qpn;      /* destination QPN */
	__u8 opcode;
	__u8 v6;
	__u8 ce;
};

/*
 * parse_udp parses UDP and BTH. r->ip, ip_hlen and ip_len are set before.
 */
static __always_inline enum verdict parse_udp(void *udp, void *end, struct roce *r)
{
	if (udp + UDP_HLEN > end)
		return SHORT;
	if (LD16(udp + 2) != bpf_htons(ROCE_PORT))
		return NOT_ROCE;
	r->udp = udp;
	r->udp_len = bpf_ntohs(LD16(udp + 4));
	/* RoCEv2 pads its payload to 4 bytes; behind another length the option would be unaligned. */
	if (r->udp_len < ROCE_MIN_UDP || r->udp_len & 3 || r->ip_hlen + r->udp_len > r->ip_len)
		return BAD_LENGTH;
	r->surplus = r->ip_len - r->ip_hlen - r->udp_len;
	r->opt_off = ETH_HLEN + r->ip_hlen + r->udp_len;

	r->bth = udp + UDP_HLEN;
	if (r->bth + BTH_LEN > end)
		return SHORT_ROCE;
	r->opcode = *(__u8 *)r->bth;
	r->qpn = bpf_ntohl(LD32(r->bth + 4)) & 0xffffff;
	return ROCE;
}

static __always_inline enum verdict parse_ipv4(void *ip, void *end, struct roce *r)
{
	if (ip + IPV4_HLEN + UDP_HLEN > end)
		return SHORT;
	if (*(__u8 *)(ip + 9) != IPPROTO_UDP)
		return NOT_ROCE;
	if (*(__u8 *)ip != 0x45)
		return RARE; /* options */
	if (LD16(ip + IPV4_HLEN + 2) != bpf_htons(ROCE_PORT))
		return NOT_ROCE;
	if (LD16(ip + 6) & bpf_htons(IPV4_FRAGMENT))
		return RARE;
	r->ip = ip;
	r->v6 = 0;
	r->ip_hlen = IPV4_HLEN;
	r->ip_len = bpf_ntohs(LD16(ip + 2));
	r->ce = (*(__u8 *)(ip + 1) & 3) == 3;
	return parse_udp(ip + IPV4_HLEN, end, r);
}

/*
 * is_extension returns whether a next header of IPv6 is an extension header behind which UDP may
 * follow (RFC 8200 4, RFC 7045): hop-by-hop, routing, fragment, authentication, destination
 * options, mobility, HIP, Shim6.
 */
static __always_inline int is_extension(__u8 next)
{
	const __u64 low = 1ull << IPPROTO_HOPOPTS | 1ull << IPPROTO_ROUTING | 1ull << IPPROTO_FRAGMENT |
			  1ull << IPPROTO_AH | 1ull << IPPROTO_DSTOPTS;

	return next < 64 ? low >> next & 1 : next == IPPROTO_MH || next == 139 || next == 140;
}

static __always_inline enum verdict parse_ipv6(void *ip, void *end, struct roce *r)
{
	__u8 next;

	if (ip + IPV6_HLEN + UDP_HLEN > end)
		return SHORT;
	next = *(__u8 *)(ip + 6);
	if (next != IPPROTO_UDP)
		return is_extension(next) ? RARE : NOT_ROCE;
	if (*(__u8 *)ip >> 4 != 6)
		return NOT_ROCE;
	r->ip = ip;
	r->v6 = 1;
	r->ip_hlen = IPV6_HLEN;
	r->ip_len = IPV6_HLEN + bpf_ntohs(LD16(ip + 4));
	r->ce = (bpf_ntohs(LD16(ip)) >> 4 & 3) == 3;
	return parse_udp(ip + IPV6_HLEN, end, r);
}

/*
 * parse takes untagged frames only. One with a VLAN tag is of a VLAN, whose packets are for another
 * interface (S7), or has a priority tag (VID 0), which ingress removes first.
 */
static __always_inline enum verdict parse(void *data, void *end, struct roce *r)
{
	void *l3 = data + ETH_HLEN;
	__u16 proto;

	if (l3 > end)
		return SHORT;
	proto = LD16(data + 12);
	if (proto == bpf_htons(ETH_P_IP))
		return parse_ipv4(l3, end, r);
	if (proto == bpf_htons(ETH_P_IPV6))
		return parse_ipv6(l3, end, r);
	return proto == bpf_htons(ETH_P_8021Q) || proto == bpf_htons(ETH_P_8021AD) ? RARE : NOT_ROCE;
}

/* mac_word returns the MAC address at p in one load, shifted so that the two bytes behind it are lost. */
static __always_inline __u64 mac_word(const void *p)
{
	return *(const volatile u64_a *)p << 16;
}

/* peer_key makes the table's key from the source or the destination address of the packet. */
static __always_inline void peer_key(const struct roce *r, int source, struct dest_key *key)
{
	if (r->v6) {
		const void *a = r->ip + (source ? 8 : 24);

		ST64(key->addr, LD64(a));
		ST64(key->addr + 8, LD64(a + 8));
	} else {
		/* Whole words: the lookup reads words, which stalls after two writes of half a word. */
		ST64(key->addr, 0);
		ST64(key->addr + 8, (__u64)LD32(r->ip + (source ? 12 : 16)) << 32 | bpf_htonl(0xffff));
	}
}

static __always_inline __u32 bth_psn(const void *bth)
{
	return bpf_ntohl(LD32(bth + 8)) & 0xffffff;
}

static __always_inline int bth_ack_req(const void *bth)
{
	return *(const __u8 *)(bth + 8) >> 7;
}

/* ip_add_length adds delta to the length in the IP header and updates the checksum (RFC 1624). */
static __always_inline void ip_add_length(struct roce *r, __s32 delta)
{
	if (r->v6) {
		ST16(r->ip + 4, bpf_htons(r->ip_len - IPV6_HLEN + delta));
	} else {
		__u16 old = LD16(r->ip + 2), new = bpf_htons(r->ip_len + delta);
		__u32 sum = (__u16)~LD16(r->ip + 10) + (__u16)~old + new;

		sum = (sum & 0xffff) + (sum >> 16);
		sum = (sum & 0xffff) + (sum >> 16);
		ST16(r->ip + 2, new);
		ST16(r->ip + 10, ~sum);
	}
	r->ip_len += delta;
}

#endif
