// SPDX-License-Identifier: Apache-2.0

package ooo

// Counters counts events of all queue pairs of an engine.
type Counters struct {
	// Source.
	SentPackets   uint64 // OWRITE, OREAD_REQ and ONOTIFY, with retransmissions
	SentBytes     uint64 // payload of OWRITE
	Resent        uint64 // packets of SentPackets that were sent before
	Probes        uint64 // packets of Resent that were sent on suspicion
	Answered      uint64 // packets whose answer is known, each once
	Repeated      uint64 // answers for a packet that was answered before
	LostReorder   uint64 // packets found lost by a later answer of the same path
	LostTimeout   uint64 // packets found lost without one
	LostPath      uint64 // packets in flight on a path that was replaced
	Spurious      uint64 // retransmissions whose original was answered
	PathsReplaced uint64
	NotReady      uint64 // notifications that the target could not take yet
	Naks          uint64 // other refusals received
	Stray         uint64 // responses that belong to no outstanding packet
	ReadPlaced    uint64 // OREAD_RESP that were written to memory
	Failed        uint64 // messages that ended with an error

	// Target.
	Placed       uint64 // OWRITE that were written to memory
	PlacedBytes  uint64
	Duplicates   uint64 // packets that had arrived before: memory is not changed again
	Stale        uint64 // packets from before the PSN window, dropped
	Beyond       uint64 // packets after the PSN window, dropped
	Refused      uint64 // packets answered with ONAK
	Merged       uint64 // OACKs that were not sent, because a later one contains them
	NoRoom       uint64 // responses dropped because the queue was full
	Notified     uint64 // notifications put on a queue
	NotifyRepeat uint64 // notifications that were on a queue before
	ReadSent     uint64 // OREAD_RESP

	Malformed uint64
}
