// SPDX-License-Identifier: Apache-2.0

package precredit

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"time"
)

// Params are the parameters of a receiver and of the senders that it grants to. A
// sender needs LifeNs alone, which the grant carries.
type Params struct {
	// BufferBytes is the budget: what may be in flight or waiting unasked for.
	// Take the smaller of the receive buffer and what the last hop's switch
	// gives one port.
	BufferBytes uint32
	// ShareBytes is the most that one sender gets. More than a bandwidth-delay
	// product is of no use, it is more than a first round trip.
	ShareBytes uint32
	// MinBytes: less than this is no pre-credit worth a packet.
	MinBytes uint32
	// LifeNs is how long a sender may keep pre-credit that it does not use.
	LifeNs int64
	// DelayNs is the longest that a packet lives in the network. What was sent
	// longer ago and has not arrived is lost. Too short a value breaks the
	// budget, too long a one keeps lost bytes off it for longer.
	DelayNs int64
	// RetryNs is when an unanswered grant is sent again.
	RetryNs int64
}

// Limits that keep running totals modulo 2^32 in order.
const (
	maxBuffer = 1 << 30
	maxTime   = int64(time.Hour)
)

// Plan gives parameters for a receiver behind a link of linkBps bits per second,
// rttNs away from its senders, with buffer bytes for them. senders is how many are
// expected to start within one round trip, 0 = whatever fits: each then gets a
// bandwidth-delay product. packet is the payload of a full packet.
func Plan(linkBps uint64, rttNs int64, buffer, packet uint32, senders int) Params {
	share := BDP(linkBps, rttNs)
	if senders > 0 {
		share = min(share, buffer/uint32(min(senders, math.MaxInt32)))
	}
	share = max(share-share%max(packet, 1), packet)
	return Params{
		BufferBytes: buffer,
		ShareBytes:  min(share, buffer),
		MinBytes:    packet,
		LifeNs:      int64(time.Second),
		DelayNs:     max(20*rttNs, int64(time.Millisecond)),
		RetryNs:     max(2*rttNs, int64(100*time.Microsecond)),
	}
}

// BDP is the bandwidth-delay product in bytes, at most 1 GiB: what a sender alone
// can send before its first ACK.
func BDP(linkBps uint64, rttNs int64) uint32 {
	if rttNs <= 0 {
		return 0
	}
	hi, lo := bits.Mul64(linkBps, uint64(rttNs))
	if hi >= 8e9 {
		return maxBuffer
	}
	bytes, _ := bits.Div64(hi, lo, 8e9)
	return uint32(min(bytes, maxBuffer))
}

// Validate returns an error that says what is wrong with the parameters, and what to do.
func (p *Params) Validate() error {
	switch {
	case p.BufferBytes == 0 || p.BufferBytes > maxBuffer:
		return fmt.Errorf("pre-credit buffer is %d: set it between 1 and %d bytes", p.BufferBytes, maxBuffer)
	case p.ShareBytes == 0 || p.ShareBytes > p.BufferBytes:
		return fmt.Errorf("pre-credit share is %d: set it between 1 and the buffer, %d bytes", p.ShareBytes, p.BufferBytes)
	case p.MinBytes == 0 || p.MinBytes > p.ShareBytes:
		return fmt.Errorf("least pre-credit is %d: set it between 1 and the share, %d bytes; a packet is usual", p.MinBytes, p.ShareBytes)
	}
	return checkTimes(duration{"life", p.LifeNs}, duration{"delay", p.DelayNs}, duration{"retry", p.RetryNs})
}

// duration is a parameter in ns.
type duration struct {
	name string
	ns   int64
}

func checkTimes(list ...duration) error {
	for _, t := range list {
		if t.ns <= 0 || t.ns > maxTime {
			return fmt.Errorf("pre-credit %s is %d: set it between 1 and %d ns (one hour)", t.name, t.ns, maxTime)
		}
	}
	return nil
}

// Validate returns an error that says what is wrong with the parameters, and what to do.
func (p *SenderParams) Validate() error {
	switch {
	case p.LinkBps == 0:
		return errors.New("pre-credit link is 0: set its rate in bit/s")
	case p.BDPBytes == 0 || p.BDPBytes > maxBuffer:
		return fmt.Errorf("bandwidth-delay product is %d: set it between 1 and %d bytes", p.BDPBytes, maxBuffer)
	case p.FlowBytes > maxBuffer:
		return fmt.Errorf("pre-credit of a flow is %d: set it to at most %d bytes, or 0 for the bandwidth-delay product", p.FlowBytes, maxBuffer)
	case p.Bound > BoundNone:
		return fmt.Errorf("bound is %d: set it between %d and %d", p.Bound, BoundLarge, BoundNone)
	}
	return checkTimes(duration{"RTT", p.RTTNs}, duration{"wait", p.MaxWaitNs})
}
