// SPDX-License-Identifier: Apache-2.0

// What stands in the memory of a region.
#include "judge.h"

#include <string.h>

#define PEEK_MAX (64 * 1024)

// place returns the address of off, for len bytes that lie within the region.
static uint8_t *place(struct call *c, uint64_t len)
{
	struct mr *m = object(c, "mr", MR);
	uint64_t off = need(c, "off");

	if (c->error)
		return NULL;
	if (off > m->len || len > m->len - off) {
		fail(c, ERANGE, "bytes %llu to %llu of a region of %llu", (unsigned long long)off,
		     (unsigned long long)(off + len), (unsigned long long)m->len);
		return NULL;
	}
	return (uint8_t *)m->mr->addr + off;
}

void do_fill(struct call *c)
{
	uint64_t len = need(c, "len"), seed = need(c, "seed"), skip = number(c, "skip", 0);
	uint8_t *p = place(c, len);

	if (parsed(c))
		pattern_fill(p, len, seed, skip);
}

void do_check(struct call *c)
{
	uint64_t len = need(c, "len"), seed = need(c, "seed"), skip = number(c, "skip", 0), bad;
	uint8_t *p = place(c, len);

	if (!parsed(c))
		return;
	int64_t first = pattern_check(p, len, seed, skip, &bad);
	if (first >= 0)
		say(c, " bad=%llu first=%lld", (unsigned long long)bad, (long long)first);
	else
		say(c, " bad=0");
}

void do_peek(struct call *c)
{
	uint64_t len = need(c, "len");
	uint8_t *p = place(c, len);

	if (len > PEEK_MAX)
		fail(c, E2BIG, "len=%llu, at most %d", (unsigned long long)len, PEEK_MAX);
	if (!parsed(c))
		return;
	say(c, " data=");
	for (uint64_t i = 0; i < len; i++)
		say(c, "%02x", p[i]);
}

void do_poke(struct call *c)
{
	static uint8_t bytes[PEEK_MAX];
	const char *hex = text(c, "data");
	int n = hex ? from_hex(hex, bytes, sizeof(bytes)) : -1;

	if (n < 0)
		fail(c, EINVAL, "data= must be an even number of hex digits, at most %d", 2 * PEEK_MAX);
	uint8_t *p = place(c, n < 0 ? 0 : n);
	if (parsed(c))
		memcpy(p, bytes, n);
}
