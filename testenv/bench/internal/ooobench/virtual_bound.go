// SPDX-License-Identifier: Apache-2.0

package ooobench

import (
	"math/rand/v2"

	"github.com/softroce/softroce-xdp/rocev2"
)

// Bytes of each packet on the wire besides its payload and extended headers: Ethernet with preamble
// and gap, IPv4, UDP, BTH, ICRC, stamp option.
const packetOverhead = 38 + 20 + 8 + rocev2.BTHLen + rocev2.ICRCLen + rocev2.StampLen

const (
	rcPayload   = 1024   // bytes; the largest PMTU on an Ethernet MTU of 1500
	mtuPayload  = 1392   // bytes; ooo.PayloadForMTU(1500)
	rcHeaders   = 16 + 4 // RETH and immediate, of each message
	oooOfPacket = packetOverhead + rocev2.OETHLen
	notifyBytes = packetOverhead + rocev2.ONotifyLen
)

func packets(payload int) int { return (messageLen + payload - 1) / payload }

// oooShare and rcShare return the payload's share of the wire, without loss.
func oooShare(payload int) float64 {
	return messageLen / float64(messageLen+packets(payload)*oooOfPacket+notifyBytes)
}

func rcShare(payload int) float64 {
	return messageLen / float64(messageLen+packets(payload)*packetOverhead+rcHeaders)
}

// leastMean returns the mean completion time in us with outstanding messages at all times (Little's
// law), if the port sends all the time, and the packets of the share that is lost once more. What
// transport it is does not matter.
func leastMean(share, loss float64) float64 {
	return virtualOutstanding * messageLen * 8 / (portRate * share * (1 - loss)) * 1e6
}

// leastTimes returns the least completion times at a load.
func leastTimes(seed uint64, c cell, n int, load float64) times {
	w := Wire{
		Rate: portRate, Trip: float64(delay) / 1000, Loss: c.loss, Delayed: c.reorder, Late: float64(reorderBy) / 1000,
		Packets: packets(rcPayload), PacketBytes: oooOfPacket + rcPayload, MessageBytes: messageLen,
	}
	return percentiles(w.Times(rand.New(rand.NewPCG(seed, 5)), rand.New(rand.NewPCG(seed, 6)), n, load))
}
