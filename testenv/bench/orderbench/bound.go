// SPDX-License-Identifier: Apache-2.0

package orderbench

import (
	"math/rand/v2"

	"github.com/softroce/softroce-xdp/testenv/wiretest"
)

// Bytes on the wire for each packet, besides its payload: Ethernet with preamble and gap, IPv4,
// UDP, BTH, ICRC, and the stamp option.
const packetOverhead = 38 + 20 + 8 + 12 + 4 + 40

const (
	oethLen   = 24 // on each OWRITE
	notifyLen = 24
)

func packets(message, payload int) int { return (message + payload - 1) / payload }

// leastOutOfOrder returns the bytes of a message on the wire without loss, in out-of-order mode.
func leastOutOfOrder(message, payload int) int {
	return packets(message, payload)*(packetOverhead+oethLen) + message + packetOverhead + notifyLen
}

// bound returns completion times that no transport with the rules of S3.3 is below, unless it sends
// packets more than once on suspicion. The source is told of each loss one base RTT after the
// packet, responses are neither lost nor late, and nothing but the port delays a packet.
func bound(seed uint64, c cell, n int, load float64) times {
	arrivals := rand.New(rand.NewPCG(seed, 5))
	faults := rand.New(rand.NewPCG(seed, 6))
	late := func() (at float64) { // us, from when a packet is first sent until it arrives
		for faults.Float64() < c.loss {
			at += 2 * float64(delay) / 1000
		}
		if faults.Float64() < c.reorder {
			at += faults.Float64() * float64(reorderBy) / 1000
		}
		return at + float64(delay)/1000
	}
	wireTime := func(bytes int) float64 { return float64(bytes) * 8 / portRate * 1e6 }
	interval := messageLen * 8 / (load * portRate) * 1e6
	count := packets(messageLen, payload)
	due, free := 0.0, 0.0
	all := make([]float64, n)
	for i := range all {
		due += arrivals.ExpFloat64() * interval
		free = max(due, free)
		complete := 0.0
		for range count {
			free += wireTime(packetOverhead + oethLen + payload)
			complete = max(complete, free+late())
		}
		all[i] = complete + float64(delay)/1000 + late() - due
	}
	return percentiles(all)
}

const payload = 1024

var _ = wiretest.Microsecond
