// SPDX-License-Identifier: Apache-2.0

package rocev2

// UDPPort is the destination port of every RoCEv2 packet (annex A17).
const UDPPort = 4791

// FlowLabel derives the 20-bit flow label of a connection from its two queue
// pair numbers, the same way for both directions.
func FlowLabel(localQPN, remoteQPN uint32) uint32 {
	v := uint64(localQPN&PSNMask) * uint64(remoteQPN&PSNMask)
	v ^= v >> 20
	v ^= v >> 40
	return uint32(v) & 0xFFFFF
}

// SourcePort folds a 20-bit flow label into the dynamic port range 0xC000..0xFFFF,
// so that equal-cost paths are chosen by connection. A receiver never judges it.
func SourcePort(flowLabel uint32) uint16 {
	fl := flowLabel & 0xFFFFF
	return uint16(0xC000 | ((fl & 0x3FFF) ^ (fl >> 14)))
}
