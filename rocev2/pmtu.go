// SPDX-License-Identifier: Apache-2.0

package rocev2

// PMTU is the path MTU enumeration of verbs and CM: 1..5 for 256..4096 bytes of
// payload a packet.
type PMTU uint8

// The path MTUs.
const (
	PMTU256 PMTU = iota + 1
	PMTU512
	PMTU1024
	PMTU2048
	PMTU4096
)

// PMTUOverhead is what rxe, and so we, take off the interface MTU before choosing
// a PMTU: IPv6, UDP, BTH, the largest extended headers, pad and ICRC.
const PMTUOverhead = 80

// Valid reports whether m is one of the five.
func (m PMTU) Valid() bool { return m >= PMTU256 && m <= PMTU4096 }

// Bytes is the payload size, 0 for an invalid PMTU.
func (m PMTU) Bytes() int {
	if !m.Valid() {
		return 0
	}
	return 128 << m
}

// PMTUForMTU returns the largest PMTU that fits an interface of mtu bytes of IP;
// ok is false if not even 256 fits.
func PMTUForMTU(mtu int) (m PMTU, ok bool) {
	for m = PMTU4096; m >= PMTU256; m-- {
		if m.Bytes() <= mtu-PMTUOverhead {
			return m, true
		}
	}
	return 0, false
}

// Packets is the number of packets, and so of PSNs, that a message of n bytes
// takes: max(1, ceil(n/PMTU)). It is 0 for an invalid PMTU.
func (m PMTU) Packets(n uint32) uint32 {
	if !m.Valid() {
		return 0
	}
	if n == 0 {
		return 1
	}
	return (n-1)>>(7+m) + 1
}
