// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"encoding/binary"

	"github.com/softroce/softroce-xdp/rocev2/qp"
)

// Meta is what was measured on a received frame: struct rx_meta of bpf/lib/abi.h, which ingress puts in front of it.
type Meta struct {
	Flags  uint8  // flags of the stamp (rocev2.StampT1 ...), 0 = the packet had none
	Proven bool   // a stamp with the right token: the packet is the peer's
	CE     bool   // the packet had the CE mark
	exact  bool   // the packet may be forged, and takes effect with the exact PSN only (guard.go); not of ingress
	T1, T2 uint64 // send and arrival time, ns, on the clocks of the stamps of the peer and of this host
	// Credit and CreditSeq are those of the stamp, with rocev2.StampCredit.
	Credit    uint32
	CreditSeq uint16
	RTT       qp.Time // round trip that the echo of the stamp has measured, ns; 0 = none, or the program measures none
}

const metaMagic = 0x53524d31 // "SRM1"

// ParseMeta reads metadata in host byte order; ok is false if there is none of ingress.
func ParseMeta(b []byte) (m Meta, ok bool) {
	if len(b) < 32 || binary.NativeEndian.Uint32(b) != metaMagic {
		return m, false
	}
	return Meta{
		Flags: b[6], Proven: b[28] != 0, CE: b[7] != 0,
		T1: binary.NativeEndian.Uint64(b[8:]), T2: binary.NativeEndian.Uint64(b[16:]),
		Credit: binary.NativeEndian.Uint32(b[24:]), CreditSeq: binary.NativeEndian.Uint16(b[4:]),
	}, true
}
