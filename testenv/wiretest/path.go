// SPDX-License-Identifier: Apache-2.0

package wiretest

import (
	"bytes"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/qp"
)

// Faults are what happens to packets on their way, each with a probability 0..1.
type Faults struct {
	Loss      float64
	Duplicate float64
	Reorder   float64 // held back by up to ReorderBy, so that others overtake
	Corrupt   float64 // one to three bits flipped
	ReorderBy qp.Time
	Jitter    qp.Time // up to this much later, without overtaking
}

// Path is the way from one node to another. Fields may change while packets are on
// their way.
type Path struct {
	Delay qp.Time
	Rate  int64   // rate of a link on the path, bit/s; 0: none is slower than the port
	Queue qp.Time // the longest time in the queue of that link; more is lost; 0: no bound
	Faults
	Drop func(p *rocev2.Packet) bool // scripted loss, or nil
	Tap  func(p *rocev2.Packet)      // observer, or nil; gets all sent packets, before any fault

	Sent, Bytes                          int // packets and bytes sent by the node
	Lost, Duplicated, Delayed, Corrupted int // packets that the path treated so, Lost with Overflow
	Overflow                             int // lost as the queue was full
	Harmless                             int // corrupted where the ICRC does not look

	w        *Wire
	to       receiver
	lastTime qp.Time // time of the last arrival, of packets that were not held back
	free     qp.Time // time at which the link can take the next frame
}

// send takes a frame that leaves the port now.
func (p *Path) send(frame []byte) {
	p.Sent++
	p.Bytes += len(frame)
	if p.w.Trace != nil {
		p.trace(frame)
	}
	if p.Tap != nil || p.Drop != nil {
		pkt, err := rocev2.ParseIP(frame)
		if err != nil {
			p.w.Failf("node sends what does not parse: %v", err)
			return
		}
		if p.Tap != nil {
			p.Tap(&pkt)
		}
		if p.Drop != nil && p.Drop(&pkt) {
			p.lose(frame)
			return
		}
	}
	if p.hit(p.Loss) {
		p.lose(frame)
		return
	}
	if p.hit(p.Duplicate) {
		p.Duplicated++
		p.deliver(append(p.w.frame(), frame...))
	}
	if p.hit(p.Corrupt) {
		p.corrupt(frame)
	}
	p.deliver(frame)
}

// corrupt flips bits, and fails the run if a receiver could take the result for the
// packet of somebody else: the ICRC covers all but what routers change.
func (p *Path) corrupt(frame []byte) {
	p.Corrupted++
	good := append(p.w.frame(), frame...)
	defer func() { p.w.frames = append(p.w.frames, good) }()
	for range 1 + p.w.Rand.IntN(3) {
		bit := p.w.Rand.IntN(len(frame) * 8)
		frame[bit/8] ^= 1 << (bit % 8)
	}
	pkt, err := rocev2.ParseIP(frame)
	if err != nil || pkt.VerifyICRC() != nil {
		return
	}
	p.Harmless++
	was, _ := rocev2.ParseIP(good)
	if pkt.Src() != was.Src() || pkt.SrcPort() != was.SrcPort() ||
		!bytes.Equal(pkt.BTH()[:4], was.BTH()[:4]) || !bytes.Equal(pkt.BTH()[5:], was.BTH()[5:]) ||
		!bytes.Equal(pkt.Payload(), was.Payload()) {
		p.w.Failf("ICRC did not notice that\n%x became\n%x", good, frame)
	}
}

func (p *Path) lose(frame []byte) {
	p.Lost++
	p.w.frames = append(p.w.frames, frame)
}

func (p *Path) deliver(frame []byte) {
	at, ok := p.queue(frame)
	if !ok {
		p.Overflow++
		p.lose(frame)
		return
	}
	at += p.Delay
	if p.Jitter > 0 {
		at += qp.Time(p.w.Rand.Int64N(int64(p.Jitter)))
	}
	if p.ReorderBy > 0 && p.hit(p.Reorder) {
		p.Delayed++
		at += 1 + qp.Time(p.w.Rand.Int64N(int64(p.ReorderBy)))
	} else {
		at = max(at, p.lastTime)
		p.lastTime = at
	}
	p.w.push(event{at: at, to: p.to, frame: frame})
}

// queue returns when the frame has passed the link, or false if its queue is full.
func (p *Path) queue(frame []byte) (qp.Time, bool) {
	if p.Rate == 0 {
		return p.w.now, true
	}
	start := max(p.free, p.w.now)
	if p.Queue > 0 && start-p.w.now > p.Queue {
		return 0, false
	}
	p.free = start + serialize(frame, p.Rate)
	return p.free, true
}

// serialize is how long a frame takes at a rate in bit/s.
func serialize(frame []byte, rate int64) qp.Time {
	const ethernetPerPacket = 14 + 4 + 20 // header, FCS, preamble and gap
	return qp.Time(int64(len(frame)+ethernetPerPacket) * 8 * int64(Second) / rate)
}

func (p *Path) hit(probability float64) bool {
	return probability > 0 && p.w.Rand.Float64() < probability
}
