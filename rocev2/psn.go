// SPDX-License-Identifier: Apache-2.0

package rocev2

// PSNMask keeps the 24 bits of a packet sequence number.
const PSNMask = 1<<24 - 1

// PSN is a packet sequence number, 0..0xFFFFFF, in circular order (IBTA 9.7).
type PSN uint32

// Add returns the PSN n packets further, modulo 2^24; n may be negative.
func (p PSN) Add(n int) PSN { return PSN(uint32(p)+uint32(n)) & PSNMask }

// Diff returns how far p is ahead of q, in -2^23..2^23-1.
func (p PSN) Diff(q PSN) int { return int(int32((uint32(p)-uint32(q))<<8) >> 8) }

// Before reports whether p precedes q on the circle.
func (p PSN) Before(q PSN) bool { return p.Diff(q) < 0 }

// After reports whether p follows q on the circle.
func (p PSN) After(q PSN) bool { return p.Diff(q) > 0 }
