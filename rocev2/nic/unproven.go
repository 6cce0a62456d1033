// SPDX-License-Identifier: Apache-2.0

package nic

import (
	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

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
func (e *engine) dropUnproven(d *dest, k unprovenKind) {
	e.count.unproven[k]++
	e.ask(d, answerHolds)
}

// ofUnproven are the counters of packets without the token of a peer that stamps.
func ofUnproven(c *engineCounters) []verbs.Counter {
	return []verbs.Counter{
		{Name: "unproven_data", Value: c.unproven[unprovenData], Text: "requests and READ responses without the token of a peer that stamps, dropped"},
		{Name: "unproven_ack", Value: c.unproven[unprovenAck], Text: "ACKs and SACKs without the token of a peer that stamps, dropped"},
		{Name: "unproven_nak", Value: c.unproven[unprovenNak], Text: "NAKs without the token of a peer that stamps, dropped"},
		{Name: "unproven_cnp", Value: c.unproven[unprovenCNP], Text: "CNPs without the token of a peer that stamps, dropped"},
		{Name: "unproven_oack", Value: c.unproven[unprovenOAck], Text: "OACKs without the token of a peer that stamps, dropped"},
		{Name: "unproven_onotify", Value: c.unproven[unprovenONotify], Text: "notifications without the token of a peer that stamps, dropped"},
		{Name: "unproven_mad", Value: c.unproven[unprovenMAD], Text: "packets to queue pair 1 without the token of a peer that stamps, dropped"},
		{Name: "stamp_questions", Value: c.questions, Text: "questions to peers whether they stamp, after packets without their token"},
		{Name: "stamp_silent", Value: c.silent, Text: "times that a peer answered no question: only exact PSNs count since then"},
	}
}
