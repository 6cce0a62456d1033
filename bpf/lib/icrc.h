/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * ICRC of control packets. Data packets are neither checked nor changed here: the
 * option is outside of their ICRC.
 *
 * Reflected CRC-32, four bits per step: a control packet has about a hundred bytes and
 * their rate is limited, so a table of 16 words is enough.
 */
#ifndef SOFTROCE_ICRC_H
#define SOFTROCE_ICRC_H

static const __u32 crc_nibble[16] = {
	0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac, 0x76dc4190, 0x6b6b51f4,
	0x4db26158, 0x5005713c, 0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c,
	0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c,
};

static __always_inline __u32 crc_byte(__u32 crc, __u8 b)
{
	crc ^= b;
	crc = crc >> 4 ^ crc_nibble[crc & 0xf];
	return crc >> 4 ^ crc_nibble[crc & 0xf];
}

/* The CRC of eight bytes 0xff, which stand for the LRH in front of the datagram (IBTA A17.3.3). */
#define ICRC_SEED 0xdebb20e3u

/* The longest part of a packet that crc_of takes: the headers of IPv6, UDP and BTH. */
#define CRC_MAX (IPV6_HLEN + UDP_HLEN + BTH_LEN)

/* crc_of continues a CRC with len bytes, at most CRC_MAX. The ICRC is its complement. */
static __noinline __u32 crc_of(__u32 crc, const __u8 *p, __u32 len)
{
	for (__u32 i = 0; i < CRC_MAX; i++) {
		if (i >= len)
			break;
		crc = crc_byte(crc, p[i]);
	}
	return crc;
}

#endif
