// SPDX-License-Identifier: Apache-2.0

package ooobench

// This file returns the least completion times that the rules of S3.3 allow: data, response and
// notification are three trips. The benchmarks of out-of-order mode compare with them.

import "math/rand/v2"

// Wire is what carries messages that come at random times, one after the other.
type Wire struct {
	Rate         float64 // bit/s
	Burst        float64 // us of the rate that may be sent at once after a pause
	Trip         float64 // us, from one end to the other
	Loss         float64 // share of the packets
	Delayed      float64 // share of the packets, by up to Late
	Late         float64 // us
	Packets      int     // packets of a message
	PacketBytes  int     // bytes of each packet on the wire
	MessageBytes int     // payload of a message
}

// Times returns the completion times in us of n messages at a load, the share of the rate that is payload, for a
// source that sends no packet again on suspicion. The source knows each loss one base RTT after it sent the
// packet. No response is lost or late. arrivals is asked for one pause (ExpFloat64) for each message.
func (w *Wire) Times(arrivals, faults *rand.Rand, n int, load float64) []float64 {
	arrive := func() (after float64) { // of a packet, after it was first sent
		for faults.Float64() < w.Loss {
			after += 2 * w.Trip
		}
		if faults.Float64() < w.Delayed {
			after += faults.Float64() * w.Late
		}
		return after + w.Trip
	}
	send := float64(w.PacketBytes) * 8 / w.Rate * 1e6
	interval := float64(w.MessageBytes) * 8 / (load * w.Rate) * 1e6
	due, free := 0.0, -w.Burst
	all := make([]float64, n)
	for i := range all {
		due += arrivals.ExpFloat64() * interval
		free = max(due-w.Burst, free)
		inMemory := 0.0
		for range w.Packets {
			free += send
			inMemory = max(inMemory, max(due, free)+arrive())
		}
		all[i] = inMemory + w.Trip + arrive() - due
	}
	return all
}
