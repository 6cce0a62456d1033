// SPDX-License-Identifier: Apache-2.0

package card

import (
	"math"

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
	m.data.begin(now)
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
	return m.data.next(now, buf)
}

// Expire handles the timers that have expired at now.
func (m *Model) Expire(now qp.Time) {
	m.lock.Lock()
	defer m.lock.Unlock()
	m.data.begin(now)
	m.data.work()
}

// Deadline returns when Expire and then NextFrame must be called, or 0.
func (m *Model) Deadline() qp.Time {
	m.lock.Lock()
	defer m.lock.Unlock()
	const never = math.MaxInt64
	if at := m.data.net.core.Deadline(m.data.net.core.Now(), never); at != never {
		return at
	}
	return 0
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
	to := d.net.port(i)
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
	n := p.BTH().DestQP()
	d.net.core.Packet(&p, d.net.measure(&p, now))
	switch x := d.qps[n]; {
	case x == nil:
	case x.srq != nil:
		d.fetchShared(x.srq)
	default:
		d.fetchRecv(x)
	}
}

// beginWrite is begin for a write of the driver, whose time a model knows that runs (Start). For others it is that of the
// last call of Deliver, NextFrame or Expire.
func (d *dataPath) beginWrite() {
	if d.m.running != nil {
		d.begin(d.m.running())
	}
}

// begin has the engine count what follows as done at now.
func (d *dataPath) begin(now qp.Time) {
	d.net.core.Begin(max(now, d.net.core.Now()))
	d.net.renewRoutes()
	if d.net.entriesStale {
		d.net.entriesStale = false
		d.net.core.EntriesChanged()
	}
	d.control.shown.stale = true
}

// work has the engine do what there is to do. It returns false if that was nothing.
func (d *dataPath) work() (did bool) {
	list := d.fetching
	d.fetching = d.spare[:0]
	for _, x := range list {
		x.fetching = false
		did = d.qps[x.num] == x && d.fetchSend(x) || did
	}
	d.spare = list[:0]
	n := d.net.core.Run(false)
	return d.failOverruns() || did || n > 0 || len(d.fetching) > 0
}

// next returns the next frame. Those of a port in loopback are received here.
func (d *dataPath) next(now qp.Time, buf []byte) (port, n int, ok bool) {
	d.begin(now)
	for {
		for len(d.net.out.frames) > 0 {
			f := d.net.out.pop()
			from := d.net.port(f.port)
			n := copy(buf, f.b[:f.n])
			d.net.out.recycle(f)
			if !from.enable {
				continue // the port was disabled since the frame was built
			}
			if !from.loopback {
				return f.port, n, true
			}
			copy(buf, from.mac[:])
			d.deliver(f.port, buf[:n], now)
		}
		if !d.work() && len(d.net.out.frames) == 0 {
			return 0, 0, false
		}
	}
}
