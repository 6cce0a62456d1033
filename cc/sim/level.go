// SPDX-License-Identifier: Apache-2.0

package sim

import "math/bits"

// level is one ring of buckets.
type level struct {
	shift uint // a bucket is 1<<shift ps wide
	mask  int64
	count int      // events, stale ones included
	heads []int32  // chunks
	words []uint64 // bits of the buckets that hold something
	sums  []uint64 // bits of the words that are not 0
}

func (l *level) clear(b int64) {
	l.words[b>>6] &^= 1 << (b & 63)
	if l.words[b>>6] == 0 {
		l.sums[b>>12] &^= 1 << (b >> 6 & 63)
	}
}

// find returns the first bucket from b on that holds something, up to the end of
// the ring, or -1.
func (l *level) find(b int64) int64 {
	if b > l.mask {
		return -1
	}
	i := b >> 6
	if v := l.words[i] >> (b & 63); v != 0 {
		return b + int64(bits.TrailingZeros64(v))
	}
	i++
	for j := i >> 6; j < int64(len(l.sums)); j++ {
		v := l.sums[j]
		if j == i>>6 {
			v &^= 1<<(i&63) - 1
		}
		if v != 0 {
			k := j<<6 + int64(bits.TrailingZeros64(v))
			return k<<6 + int64(bits.TrailingZeros64(l.words[k]))
		}
	}
	return -1
}

// after is the number of the first bucket after b that holds something, -1 = none.
func (l *level) after(b int64) int64 {
	b++
	i := b & l.mask
	if j := l.find(i); j >= 0 {
		return b + j - i
	}
	if j := l.find(0); j >= 0 {
		return b + l.mask + 1 - i + j
	}
	return -1
}

// take empties a bucket and returns its first chunk.
func (l *level) take(b int64) int32 {
	head := l.heads[b]
	if head >= 0 {
		l.heads[b] = noIndex
		l.clear(b)
	}
	return head
}
