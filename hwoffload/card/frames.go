// SPDX-License-Identifier: Apache-2.0

package card

import (
	"encoding/binary"

	"github.com/softroce/softroce-xdp/hwoffload/regs"
	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/qp"
	"github.com/softroce/softroce-xdp/rocev2/seal"
)

// Frames of the model: Deliver, NextFrame, Expire and Deadline have no clock and no goroutine, so
// tests run on virtual time. Start (run.go) calls them for a model with real wires. Times are in
// nanoseconds of any clock that does not run backwards; 0 is no time.

// FrameLen is the length of a buffer that holds every frame of NextFrame, in bytes.
const FrameLen = etherLen + 4096 + rocev2.PMTUOverhead + seal.Overhead + rocev2.StampLen

const etherLen = 14

// Deliver has a port receive an Ethernet frame. Frames to other addresses, and packets that no
// queue pair takes, are dropped.
func (m *Model) Deliver(port int, frame []byte, now qp.Time) {
	m.lock.Lock()
	defer m.lock.Unlock()
	m.data.deliver(port, frame, now)
	m.data.failOverruns()
	signal(m.wake)
}

// NextFrame writes the next frame to send to buf, which has FrameLen bytes. It returns the port
// and the length, and false if there is none now: Deliver, Expire and writes of the driver may
// change that.
func (m *Model) NextFrame(now qp.Time, buf []byte) (port, n int, ok bool) {
	m.lock.Lock()
	defer m.lock.Unlock()
	port, n, ok = m.data.next(now, buf)
	m.data.failOverruns()
	return port, n, ok
}

// Expire handles the timers that have expired at now.
func (m *Model) Expire(now qp.Time) {
	m.lock.Lock()
	defer m.lock.Unlock()
	m.data.expire(now)
}

// Deadline returns when Expire and then NextFrame must be called, or 0.
func (m *Model) Deadline() qp.Time {
	m.lock.Lock()
	defer m.lock.Unlock()
	return m.data.deadline()
}

// Work returns a channel that gets a value when there may be frames to send: after writes of the
// driver, frames that arrived, and tasks that have ended. It is for one receiver: Start, or a network
// on virtual time.
func (m *Model) Work() <-chan struct{} { return m.wake }

// Interrupt returns a channel that gets a value when a cause activates the interrupt line (block
// interrupts).
func (m *Model) Interrupt() <-chan struct{} { return m.interrupt }

// Counters returns what the transport has counted.
func (m *Model) Counters() qp.Counters {
	m.lock.Lock()
	defer m.lock.Unlock()
	return m.data.count
}

func (d *dataPath) deliver(i int, frame []byte, now qp.Time) {
	to := d.port(i)
	if !to.enable || len(frame) < etherLen || [6]byte(frame[:6]) != to.mac {
		return
	}
	p, err := rocev2.ParseFrame(frame)
	if err != nil {
		return
	}
	at := regs.PortsBase + uint64(i)*regs.PortsStride
	d.in.add(at+regs.PortsRxPacketsOffset, 1)
	d.in.add(at+regs.PortsRxBytesOffset, uint64(p.IPLen()))
	if p.VerifyICRC() != nil {
		d.in.add(at+regs.PortsRxIcrcErrorsOffset, 1)
		return
	}
	of := d.measure(&p, now)
	if d.credits != nil && p.BTH().DestQP() == rocev2.ControlQPN {
		d.credits.onControl(&p, &of, now)
		return
	}
	x := d.qps[p.BTH().DestQP()]
	if x == nil || !d.accepts(x, &p) || x.crypt != nil && !d.open(x, &p, now) {
		return
	}
	if x.credit == nil {
		x.q.Receive(now, &p)
	} else {
		inFlight, taken := x.credit.peer.flight.Bytes(), d.count.Taken()
		x.q.Receive(now, &p)
		d.credits.onReceived(x, &p, &of, inFlight, d.count.Taken() != taken, now)
	}
	if x.srq != nil {
		d.fetchShared(x.srq)
	} else {
		d.fetchRecv(x)
	}
	d.touch(x)
}

// build writes the packet in d.out as a frame. It returns length 0 if nothing leaves: the queue
// pair takes a packet without a way to its destination for lost.
func (d *dataPath) build(g *egress, buf []byte, now qp.Time, how kind) (i, n int) {
	o, x := &d.out, g.qp
	a := g.addressOf(o)
	i, ok := d.portOf(a)
	if !ok {
		o.Drop()
		return 0, 0
	}
	from := d.port(i)
	o.Src, o.Dst, o.TOS, o.TTL, o.FlowLabel, o.SrcPort = a.src, a.dst, a.tclass, a.hopLimit, 0, 0
	o.Stamp = nil
	room := g.payloadRoom(o)
	size := o.Len(room)
	if from.enable && size <= int(from.mtu) {
		o.Stamp = d.stampFor(a.node, size, int(from.mtu), now)
		if x.credit != nil {
			d.credits.onSend(x, o, how == kindCredited, now)
		}
		if how != kindAnswer {
			d.charge(g, a.node, etherLen+size, how == kindCredited, now)
		}
	}
	payload, err := o.Begin(buf[etherLen:], room)
	if err != nil || !from.enable || size > int(from.mtu) {
		o.Drop()
		return 0, 0
	}
	if !d.fill(g, o, buf[etherLen:], payload) {
		d.touchState(x)
		return 0, 0
	}
	return d.finish(i, &from, a, &o.Datagram, size, buf, now)
}

// finish completes the frame of a packet whose size is that of its IP datagram without the option.
// It returns length 0 if the port receives it itself.
func (d *dataPath) finish(i int, from *port, a *address, o *rocev2.Datagram, size int, buf []byte, now qp.Time) (port, n int) {
	n = etherLen + o.Seal(buf[etherLen:])
	copy(buf, a.mac[:])
	copy(buf[6:], from.mac[:])
	etherType := uint16(0x0800)
	if a.src.Is6() {
		etherType = 0x86dd
	}
	binary.BigEndian.PutUint16(buf[12:], etherType)
	at := regs.PortsBase + uint64(i)*regs.PortsStride
	d.in.add(at+regs.PortsTxPacketsOffset, 1)
	d.in.add(at+regs.PortsTxBytesOffset, uint64(size))
	if from.loopback {
		copy(buf, from.mac[:])
		d.deliver(i, buf[:n], now)
		return i, 0
	}
	return i, n
}
