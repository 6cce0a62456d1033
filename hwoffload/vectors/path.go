// SPDX-License-Identifier: Apache-2.0

package vectors

// This file is traffic of a card that has registers but no data path, such as the simulated
// RTL: a sender that always has data sends at the rate in the registers through a bottleneck. Data
// is a fluid; only the feedback consists of packets.

import (
	"time"

	"github.com/softroce/softroce-xdp/hwoffload"
	"github.com/softroce/softroce-xdp/hwoffload/card"
	"github.com/softroce/softroce-xdp/hwoffload/regs"
	"github.com/softroce/softroce-xdp/rocev2"
)

// ClockedCard is a card whose packets and whose clock are the caller's.
type ClockedCard interface {
	hwoffload.Device
	Receive(node int, p *card.Packet, now uint64)
}

// Path is the way to a destination behind a bottleneck.
type Path struct {
	Node     int
	Capacity float64 // capacity of the bottleneck, bit/s
	Token    uint64  // token of the destination's stamps: rx_token of its entry

	Queue   float64 // queue in front of the bottleneck, bytes
	Sent    float64 // bytes
	Arrived float64 // bytes

	echoes []pathEcho // echoes that have not arrived yet
}

// pathEcho is data that left at t1, and took delay to the receiver.
type pathEcho struct{ t1, delay uint64 }

const (
	pathDelay   = 10_000 // ns, each direction
	pathPacket  = 4096   // bytes
	pathSamples = 8      // echoes in a call of Send
)

// Delay is what the queue adds to the delay.
func (p *Path) Delay() time.Duration { return time.Duration(p.Queue * 8e9 / p.Capacity) }

// Send sends from now on for a span of time, and lets the feedback of that time arrive. It returns
// the end of the span. Times are in ns of the card's clock.
func (p *Path) Send(c ClockedCard, now uint64, span time.Duration) uint64 {
	d := regs.DestOf(c, p.Node-1)
	dt := span / pathSamples
	for range pathSamples {
		rate, start := float64(d.RateBps()), now
		now += uint64(dt)
		bytes := rate / 8 * dt.Seconds()
		if window := float64(d.PolicyWindowBytes()); window > 0 { // of bytes that are not answered
			bytes = min(bytes, max(window-p.Queue, 0)+p.Capacity/8*dt.Seconds())
		}
		left := min(p.Queue+bytes, p.Capacity/8*dt.Seconds())
		p.Queue, p.Sent, p.Arrived = p.Queue+bytes-left, p.Sent+bytes, p.Arrived+left
		d.SetTxPackets(uint64(p.Sent / pathPacket))
		d.SetTxBytes(uint64(p.Sent))
		d.SetLastTxNs(start)
		d.SetWinPaced(d.WinPaced() + 1)
		d.SetWinDueWord(d.WinDueWord().WithWinDue(1))
		p.echoes = append(p.echoes, pathEcho{start, pathDelay + uint64(p.Delay())})
		for len(p.echoes) > 0 && p.echoes[0].t1+p.echoes[0].delay+pathDelay <= now {
			e := p.echoes[0]
			p.echoes = p.echoes[1:]
			at := e.t1 + e.delay
			c.Receive(p.Node, &card.Packet{Bytes: AckBytes, Feedback: true, Stamp: rocev2.Stamp{
				Flags: rocev2.StampT1 | rocev2.StampEcho, Token: p.Token, T1: at, EchoT1: e.t1, EchoT2: at}}, at+pathDelay)
		}
	}
	return now
}
