// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"net/netip"

	"github.com/softroce/softroce-xdp/rocev2/qp"
)

// destinations are those of all interfaces, by address. The program's table of destinations has their rates and what
// their peers understand (dataplane_sync.go).
type destinations struct {
	e       *Core
	rails   []*rail
	entries map[entryKey]*dest // those with an entry (entry.go)
	ordered []*dest            // the same, in the order of their first use
	waiting []*dest            // those of them that wait for their entry
	timers  wheel[*dest]       // ends of waits for pacers
	onTimer func(*dest)        // transmitter.unblock
}

func (s *destinations) init(rails []RailConfig) {
	s.onTimer = s.e.tx.unblock
	for _, c := range rails {
		s.rails = append(s.rails, &rail{name: c.Name, mtu: c.MTU, ports: c.Ports, config: c.Runtime, dests: map[netip.Addr]*dest{}})
	}
}

// A destination that nothing is known of is reported so often without having sent
// anything, until HELLO has announced what it understands.
const initialSyncReports = 25

// destination returns the entry of the address that a path of the device's own interface leads to. The
// caller must drop it.
func (s *destinations) destination(p *Path) *dest { return s.destinationOn(0, p) }

// destinationOn is destination for a path of a rail.
func (s *destinations) destinationOn(rail uint8, p *Path) *dest {
	d := s.destinationFor(rail, p, false)
	s.endAnswers(d)
	return d
}

// destinationFor is destinationOn. answers: a new one is for answers of the communication manager only.
func (s *destinations) destinationFor(rail uint8, p *Path, answers bool) *dest {
	to := p.Current()
	if to.Entry != nil {
		return s.entryDest(to)
	}
	addr, r := to.Dst, s.rails[rail]
	d := r.dests[addr]
	if d == nil {
		d = &dest{addr: addr, rail: rail, answers: answers, pacer: newBucket(r.config.InitialRate), initialSyncs: initialSyncReports, flight: qp.NewFlight()}
		if len(r.ports) > 0 {
			d.port = r.ports[addressHash(addr)%uint32(len(r.ports))]
		}
		d.timer.Owner = d
		d.report.Addr = addr
		r.dests[addr] = d
		if !to.Loopback {
			d.waitsUntil = s.e.now + answerPatience
			s.queueForSync(d)
		}
	}
	if !to.Loopback {
		s.tokenFor(d, to.Src) // asked for before the first packet
	}
	d.refs++
	return d
}

// reorderShare is the share that the peer has of the memory for packets behind gaps.
func (d *dest) reorderShare(e *Core) *qp.ReorderPool {
	if d.reorder == nil {
		d.reorder = e.reorder.Share()
	}
	return d.reorder
}

func addressHash(a netip.Addr) uint32 {
	h := uint32(2166136261) // FNV-1a
	for _, b := range a.As16() {
		h = (h ^ uint32(b)) * 16777619
	}
	return h
}

// drop releases a reference. What is in queues stays there until it is served: queue
// pairs of UD, which have messages for others and must not wait for a pacer that
// no report updates any more.
func (s *destinations) drop(d *dest) {
	if d.refs--; d.refs == 0 {
		if d.entry != nil {
			s.dropEntry(d)
		} else {
			delete(s.of(d).dests, d.addr)
		}
		s.timers.Stop(&d.timer)
		d.setRate(s.e, 0)
		s.e.tx.unblock(d)
	}
}

// of returns the rail of a destination.
func (s *destinations) of(d *dest) *rail { return s.rails[d.rail] }

// queueForSync has the destination reported to the data plane.
func (s *destinations) queueForSync(d *dest) {
	if !d.syncQueued && d.entry == nil {
		d.syncQueued = true
		r := s.of(d)
		r.syncQueue = append(r.syncQueue, d)
	}
}
