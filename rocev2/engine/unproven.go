// SPDX-License-Identifier: Apache-2.0

package engine

import "github.com/softroce/softroce-xdp/rocev2"

// unprovenKind is a kind of packet that was dropped because it had no token.
type unprovenKind uint8

const (
	unprovenData unprovenKind = iota // requests and READ responses
	unprovenAck
	unprovenNak
	unprovenCNP
	unprovenOAck
	unprovenONotify
	unprovenMAD

	unprovenKinds
)

// kindOf returns the kind of a packet to a queue pair other than 1.
func kindOf(p *rocev2.Packet) unprovenKind {
	switch p.Opcode() {
	case rocev2.RCAck, rocev2.OpSACK:
		if p.AETH().Syndrome().Type() != rocev2.AckPositive {
			return unprovenNak
		}
		return unprovenAck
	case rocev2.RCAtomicAck:
		return unprovenAck
	case rocev2.CNP:
		return unprovenCNP
	case rocev2.OpOAck:
		return unprovenOAck
	case rocev2.OpONak:
		return unprovenNak
	case rocev2.OpONotify, rocev2.OpONotifyAck:
		return unprovenONotify
	}
	return unprovenData
}

// dropUnproven counts a dropped packet. The peer is asked whether it still stamps.
func (s *destinations) dropUnproven(d *dest, k unprovenKind) {
	s.e.count.unproven[k]++
	s.ask(d, answerHolds)
}
