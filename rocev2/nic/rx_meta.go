// SPDX-License-Identifier: Apache-2.0

package nic

import "encoding/binary"

// rxMeta is what ingress puts in front of a steered frame: struct rx_meta of
// bpf/lib/abi.h, host byte order.
type rxMeta struct {
	flags  uint8 // flags of the stamp, 0 = the packet had none
	proven bool  // a stamp with the right token: the packet is the peer's
	ce     bool
	exact  bool // the packet may be forged, and takes effect with the exact PSN only (guard.go); not of ingress
	t1, t2 uint64

	credit    uint32 // credit of the stamp, with rocev2.StampCredit
	creditSeq uint16
}

const metaMagic = 0x53524d31 // "SRM1"

// parseMeta reads the metadata; ok is false if there is none of ours.
func parseMeta(b []byte) (m rxMeta, ok bool) {
	if len(b) < 32 || binary.NativeEndian.Uint32(b) != metaMagic {
		return m, false
	}
	return rxMeta{
		flags: b[6], proven: b[28] != 0, ce: b[7] != 0,
		t1: binary.NativeEndian.Uint64(b[8:]), t2: binary.NativeEndian.Uint64(b[16:]),
		credit: binary.NativeEndian.Uint32(b[24:]), creditSeq: binary.NativeEndian.Uint16(b[4:]),
	}, true
}
