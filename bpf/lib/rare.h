/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * RoCEv2 in forms that no RoCEv2 sender uses, or that are for another interface: frames of a VLAN,
 * IP fragments, IPv4 options, IPv6 extension headers. They pass unread, and are counted.
 *
 * Nothing here is inlined: in the code for every packet it would cost each of them time.
 */
#ifndef SOFTROCE_RARE_H
#define SOFTROCE_RARE_H

enum rare {
	RARE_NONE,      /* no RoCEv2 */
	RARE_PRIORITY,  /* one priority tag: 802.1Q with VID 0 */
	RARE_VLAN,      /* another tag, or several */
	RARE_FRAGMENT,  /* an IP fragment whose UDP header is there */
	RARE_OPTIONS,   /* IPv4 options */
	RARE_EXTENSION, /* IPv6 extension headers in front of UDP, or more of them than are followed */
};

/* parse_rare returns the offset of the IP header above these bits. */
#define RARE_BITS 8

/* VLAN tags and extension headers that are followed; Linux sends at most four of the latter. */
#define RARE_TAGS 3
#define RARE_HEADERS 8

static __always_inline enum rare rare_ipv4(const void *ip, const void *end)
{
	const void *udp;
	__u32 hlen;

	if (ip + IPV4_HLEN > end)
		return RARE_NONE;
	hlen = (*(__u8 *)ip & 0xf) * 4;
	udp = ip + hlen;
	if (*(__u8 *)ip >> 4 != 4 || hlen < IPV4_HLEN || *(__u8 *)(ip + 9) != IPPROTO_UDP ||
	    udp + UDP_HLEN > end || LD16(udp + 2) != bpf_htons(ROCE_PORT))
		return RARE_NONE;
	if (hlen != IPV4_HLEN)
		return RARE_OPTIONS;
	return LD16(ip + 6) & bpf_htons(IPV4_FRAGMENT) ? RARE_FRAGMENT : RARE_PRIORITY;
}

/* A later fragment has no UDP header, so it is not known to be RoCEv2. */
static __always_inline enum rare rare_ipv6(const void *ip, const void *end)
{
	const void *h = ip + IPV6_HLEN;
	enum rare kind = RARE_PRIORITY; /* without extension headers only the tag is rare */
	__u8 next;

	if (h > end || *(__u8 *)ip >> 4 != 6)
		return RARE_NONE;
	next = *(__u8 *)(ip + 6);
#pragma unroll
	for (int i = 0; i < RARE_HEADERS; i++) {
		__u32 len;

		if (next != IPPROTO_UDP && !is_extension(next))
			return RARE_NONE;
		if (h + UDP_HLEN > end) /* no extension header is shorter */
			break;
		if (next == IPPROTO_UDP)
			return LD16(h + 2) == bpf_htons(ROCE_PORT) ? kind : RARE_NONE;
		if (next == IPPROTO_FRAGMENT) {
			if (LD16(h + 2) & bpf_htons(0xfff8))
				return RARE_NONE;
			kind = RARE_FRAGMENT;
		} else if (kind == RARE_PRIORITY) {
			kind = RARE_EXTENSION;
		}
		len = *(__u8 *)(h + 1);
		if (next == IPPROTO_FRAGMENT)
			len = 8;
		else if (next == IPPROTO_AH) /* in words, minus 2 (RFC 4302) */
			len = (len + 2) * 4;
		else
			len = (len + 1) * 8;
		next = *(__u8 *)h;
		h += len;
	}
	return kind == RARE_PRIORITY ? RARE_NONE : RARE_EXTENSION;
}

/* parse_rare returns an enum rare, and the offset of the IP header (RARE_BITS). */
static __noinline __u32 parse_rare(const void *data, const void *end)
{
	const void *l3 = data + ETH_HLEN;
	int vlan = 0, tags = 0;
	enum rare kind;
	__u16 proto;

	if (l3 > end)
		return RARE_NONE;
	proto = LD16(data + 12);
#pragma unroll
	for (int i = 0; i < RARE_TAGS; i++) {
		if (proto != bpf_htons(ETH_P_8021Q) && proto != bpf_htons(ETH_P_8021AD))
			break;
		if (l3 + VLAN_HLEN > end)
			return RARE_NONE;
		vlan |= tags++ || proto != bpf_htons(ETH_P_8021Q) || LD16(l3) & bpf_htons(VLAN_VID);
		proto = LD16(l3 + 2);
		l3 += VLAN_HLEN;
	}
	if (proto == bpf_htons(ETH_P_IP))
		kind = rare_ipv4(l3, end);
	else if (proto == bpf_htons(ETH_P_IPV6))
		kind = rare_ipv6(l3, end);
	else
		return RARE_NONE;
	if (vlan && kind != RARE_NONE)
		kind = RARE_VLAN;
	return kind | (__u32)(l3 - data) << RARE_BITS;
}

#endif
