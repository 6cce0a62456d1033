// SPDX-License-Identifier: Apache-2.0

// The same bytes as ../pattern.go: word i of a pattern, little-endian, is splitmix64 of
// seed + (i+1) times the golden ratio.
#include "judge.h"

#include <string.h>

static inline uint64_t word(uint64_t seed, uint64_t i)
{
	uint64_t z = seed + (i + 1) * 0x9E3779B97F4A7C15ull;

	z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
	z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
	return z ^ (z >> 31);
}

void pattern_fill(uint8_t *p, uint64_t len, uint64_t seed, uint64_t skip)
{
	for (uint64_t i = 0; i < len;) {
		uint64_t at = skip + i, w = word(seed, at / 8);

		if (at % 8 == 0 && len - i >= 8) {
			memcpy(p + i, &w, 8); // both ends of the judge are little-endian
			i += 8;
		} else {
			p[i++] = w >> (8 * (at % 8));
		}
	}
}

// pattern_check returns the offset of the first byte that differs, or -1, and counts all of them.
int64_t pattern_check(const uint8_t *p, uint64_t len, uint64_t seed, uint64_t skip, uint64_t *bad)
{
	int64_t first = -1;

	*bad = 0;
	for (uint64_t i = 0; i < len;) {
		uint64_t at = skip + i, w = word(seed, at / 8);

		if (at % 8 == 0 && len - i >= 8 && !memcmp(p + i, &w, 8)) {
			i += 8;
			continue;
		}
		if (p[i] != (uint8_t)(w >> (8 * (at % 8)))) {
			if (first < 0)
				first = i;
			++*bad;
		}
		i++;
	}
	return first;
}
