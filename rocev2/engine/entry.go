// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"net/netip"
	"slices"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/qp"
)

// Entry is a destination's entry of a table that the program keeps up to date with each packet, as the registers of a
// card are. It takes the place of reports and replies: rate and stamps are those of the entry at each moment. Times are
// those of Begin. The entry calls no function of the core.
type Entry interface {
	// ID is the number of the destination for pre-credit; 0: it has none.
	ID() uint32
	// Rate is the rate in bit/s; 0: unpaced.
	Rate() uint64
	// Wait returns how long the next packet of data has to wait, in ns; 0 or less: it may leave.
	Wait(now qp.Time) qp.Time
	// Charge counts a frame of n bytes of data, without the option. waited: time that the pacer has kept it, ns.
	// ahead: it has left ahead of the rate.
	Charge(now qp.Time, n int, waited qp.Time, ahead bool)
	// Stamp counts a packet of size bytes of IP without the option, and fills in the option except for credit. mtu: longest
	// packet of the path. False: the packet has no option.
	Stamp(now qp.Time, size, mtu int, s *rocev2.Stamp) bool
	// Proof fills in the option of a control packet, which has no echo and is not counted. False: none can be sent.
	Proof(now qp.Time, s *rocev2.Stamp) bool
	// Understands returns what the peer understands: stamps, and pre-credit.
	Understands() (stamps, credit bool)
}

// entryKey is what a destination with an entry is found by.
type entryKey struct {
	entry Entry
	addr  netip.Addr
}

// entryDest returns the destination of a path with an entry.
func (s *destinations) entryDest(to *PathState) *dest {
	k := entryKey{to.Entry, to.Dst}
	d := s.entries[k]
	if d == nil {
		d = &dest{addr: to.Dst, entry: to.Entry, flight: qp.NewFlight()}
		d.stamps, d.offersCredit = to.Entry.Understands()
		if s.entries == nil {
			s.entries = map[entryKey]*dest{}
		}
		s.entries[k] = d
		s.ordered = append(s.ordered, d)
	}
	d.refs++
	return d
}

// dropEntry forgets such a destination.
func (s *destinations) dropEntry(d *dest) {
	delete(s.entries, entryKey{d.entry, d.addr})
	for _, list := range [...]*[]*dest{&s.ordered, &s.waiting} {
		*list = slices.DeleteFunc(*list, func(w *dest) bool { return w == d })
	}
}

// EntriesChanged has the core ask all entries again for what their peers understand, in the order of their first use.
func (e *Core) EntriesChanged() {
	for _, d := range e.dests.ordered {
		d.stamps, d.offersCredit = d.entry.Understands()
		if e.hooks != nil {
			e.hooks.onPeer(d, &DestSync{Known: true, Stamps: d.stamps, Credit: d.offersCredit})
		}
	}
}

// blockOnEntry takes a destination out of service until its next packet may leave.
func (s *destinations) blockOnEntry(d *dest) {
	if d.paceBlocked == 0 {
		d.paceBlocked = s.e.now
		s.waiting = append(s.waiting, d)
	}
	d.waitsUntil = s.e.now + d.entry.Wait(s.e.now)
}

// releaseEntries puts destinations back into service whose time has come, or whose rate has changed.
func (s *destinations) releaseEntries() {
	waiting := s.waiting
	s.waiting = s.waiting[:0]
	for _, d := range waiting {
		wait := d.entry.Wait(s.e.now)
		if wait > 0 {
			d.waitsUntil = s.e.now + wait
			s.waiting = append(s.waiting, d)
			continue
		}
		waited := s.e.now - d.paceBlocked
		d.paceBlocked, d.waitsUntil = 0, 0
		if !d.drr.Empty() {
			d.waited += waited
			s.e.tx.enqueueDest(d)
		}
	}
	clear(waiting[len(s.waiting):])
}

// charge counts a frame of n bytes that has left.
func (d *dest) charge(e *Core, n int, ahead bool) {
	if n == 0 { // nothing has left
		return
	}
	waited := d.waited
	if !ahead {
		d.waited = 0
	}
	d.entry.Charge(e.now, n, waited, ahead)
}
