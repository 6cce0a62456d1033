/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Token and nonce, which prove that a peer receives at its address. Only this host can
 * compute them: SipHash-2-4 of the address under the key of this attachment
 * (docs/run/security.md). Nothing is stored for a host that sends a HELLO. bpf/secret.go
 * computes the same.
 */
#ifndef SOFTROCE_SECRET_H
#define SOFTROCE_SECRET_H

/* Purpose of a number: the last byte of the hashed message. */
#define SECRET_TOKEN 1 /* the peer's stamps must carry it; HELLO_ACK contains it */
#define SECRET_NONCE 2 /* the peer's HELLO_ACK must return it; HELLO contains it */

#define ROTL(x, n) ((x) << (n) | (x) >> (64 - (n)))

#define SIP_ROUND(a, b, c, d) \
	do { \
		a += b; b = ROTL(b, 13) ^ a; a = ROTL(a, 32); \
		c += d; d = ROTL(d, 16) ^ c; \
		a += d; d = ROTL(d, 21) ^ a; \
		c += b; b = ROTL(b, 17) ^ c; c = ROTL(c, 32); \
	} while (0)

#define SIP_WORD(a, b, c, d, w) \
	do { \
		d ^= (w); \
		SIP_ROUND(a, b, c, d); \
		SIP_ROUND(a, b, c, d); \
		a ^= (w); \
	} while (0)

/* secret_of is never 0, which means none. */
static __noinline __u64 secret_of(const struct dest_key *key, __u32 purpose)
{
	const struct sr_config *cfg = get_config();
	__u64 a, b, c, d;

	if (!key || !cfg)
		return 0;
	a = cfg->secret[0] ^ 0x736f6d6570736575ull;
	b = cfg->secret[1] ^ 0x646f72616e646f6dull;
	c = cfg->secret[0] ^ 0x6c7967656e657261ull;
	d = cfg->secret[1] ^ 0x7465646279746573ull;
	SIP_WORD(a, b, c, d, LD64(key->addr));
	SIP_WORD(a, b, c, d, LD64(key->addr + 8));
	SIP_WORD(a, b, c, d, 17ull << 56 | purpose);
	c ^= 0xff;
	SIP_ROUND(a, b, c, d);
	SIP_ROUND(a, b, c, d);
	SIP_ROUND(a, b, c, d);
	SIP_ROUND(a, b, c, d);
	return (a ^ b ^ c ^ d) ?: 1;
}

#endif
