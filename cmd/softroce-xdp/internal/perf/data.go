// SPDX-License-Identifier: Apache-2.0

package perf

import (
	"fmt"
	"slices"
)

// data is the part of the memory that a message of queue pair i fills.
func (e *end) data(i int) []byte {
	return e.buf[uint64(i)*e.stride:][:e.plan.Size]
}

// fill writes the pattern that the check expects.
func fill(b []byte, seed uint64) {
	x := seed*0x9E3779B97F4A7C15 + 1
	for i := range b {
		if i&7 == 0 {
			x ^= x << 13
			x ^= x >> 7
			x ^= x << 17
		}
		b[i] = byte(x >> (8 * (i & 7)))
	}
}

// fillAll gives the memory of every queue pair its pattern.
func (e *end) fillAll() {
	for i := range e.qps {
		fill(e.data(i), uint64(i))
	}
}

// differs returns where b is not the pattern, or -1.
func differs(b []byte, seed uint64) int {
	want := make([]byte, len(b))
	fill(want, seed)
	for i := range b {
		if b[i] != want[i] {
			return i
		}
	}
	return -1
}

// compare returns the first place at which the memory differs from the sender's, or "". Idle
// queue pairs are not compared.
func (e *end) compare(idle []int) string {
	for i := range e.qps {
		if slices.Contains(idle, i) {
			continue
		}
		if at := differs(e.data(i), uint64(i)); at >= 0 {
			return fmt.Sprintf("queue pair %d: byte %d differs", i, at)
		}
	}
	return ""
}
