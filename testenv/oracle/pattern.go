// SPDX-License-Identifier: Apache-2.0

package oracle

import "encoding/binary"

// patternWord is word i of the pattern of a seed: splitmix64, as helper/pattern.c has it.
func patternWord(seed, i uint64) uint64 {
	z := seed + (i+1)*0x9E3779B97F4A7C15
	z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
	z = (z ^ z>>27) * 0x94D049BB133111EB
	return z ^ z>>31
}

// fillPattern writes bytes skip, skip+1, ... of a seed's pattern: the words of a splitmix64
// sequence, little-endian. The helper in the machine knows the same pattern.
func fillPattern(b []byte, seed, skip uint64) {
	for i := 0; i < len(b); {
		at := skip + uint64(i)
		w := patternWord(seed, at/8)
		if at%8 == 0 && len(b)-i >= 8 {
			binary.LittleEndian.PutUint64(b[i:], w)
			i += 8
			continue
		}
		b[i] = byte(w >> (8 * (at % 8)))
		i++
	}
}

// checkPattern counts the bytes that differ from the pattern and returns the offset of the first,
// or -1.
func checkPattern(b []byte, seed, skip uint64) mismatch {
	m := mismatch{First: -1}
	for i, c := range b {
		at := skip + uint64(i)
		if c != byte(patternWord(seed, at/8)>>(8*(at%8))) {
			if m.First < 0 {
				m.First = i
			}
			m.Bad++
		}
	}
	return m
}

// mismatch is how memory differs from a pattern.
type mismatch struct {
	Bad   int // bytes
	First int // offset of the first of them; -1 if none
}
