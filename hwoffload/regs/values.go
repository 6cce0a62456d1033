// SPDX-License-Identifier: Apache-2.0

package regs

import (
	"encoding/binary"
	"net/netip"
)

// Kinds of a region: field kind of register control of block mr.
const (
	MrKindPlain        = 0
	MrKindDistribution = 1
	MrKindTaskQueue    = 2
	MrKindWindow       = 3
)

// AddrWords returns an IP address as two registers hold it: bytes 0 to 7 of its 16 in network byte
// order, the first in bits 0 to 7, and bytes 8 to 15. IPv4 is ::ffff:a.b.c.d.
func AddrWords(a netip.Addr) (high, low uint64) {
	b := a.As16()
	return binary.LittleEndian.Uint64(b[:8]), binary.LittleEndian.Uint64(b[8:])
}

// AddrOf is the inverse of AddrWords.
func AddrOf(high, low uint64) netip.Addr {
	var b [16]byte
	binary.LittleEndian.PutUint64(b[:8], high)
	binary.LittleEndian.PutUint64(b[8:], low)
	return netip.AddrFrom16(b).Unmap()
}

// MACWord returns an Ethernet address as registers hold it: its first byte in bits 40 to 47.
func MACWord(mac [6]byte) (v uint64) {
	for _, b := range mac {
		v = v<<8 | uint64(b)
	}
	return v
}

// MACOf is the inverse of MACWord.
func MACOf(v uint64) (mac [6]byte) {
	for i := range mac {
		mac[i] = byte(v >> (40 - 8*i))
	}
	return mac
}
