// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"errors"
	"fmt"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/ooo"
	"github.com/softroce/softroce-xdp/rocev2/qp"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// A queue pair in out-of-order mode on several interfaces. It has one more egress for each further
// interface. Package ooo is asked for the packets of that rail when the egress is in service.
//
// HELLO announces the mode on each interface. Data does not use a rail before.

// RailPath is a path on a further interface.
type RailPath struct {
	Rail int // index of Config.Rails
	Path *Path
	Flow Flow
}

// UseRails has a queue pair in out-of-order mode, in RESET or INIT, send and receive on further interfaces, too. The
// core uses the paths until it is returned them by Modify or RemoveQP; after an error it does not use them.
func (e *Core) UseRails(x *QP, to []RailPath) error {
	switch s := x.q.State(); {
	case x.dead:
		return ErrQPRemoved
	case s != verbs.StateReset && s != verbs.StateInit:
		return fmt.Errorf("nic: UseRails comes before RTR; the queue pair is in %s", s)
	case len(x.ooo.rails) > 0:
		return errors.New("nic: the queue pair has its interfaces already; only RESET takes them back")
	}
	x.ooo.rails = make([]egress, len(to))
	for i, p := range to {
		g := &x.ooo.rails[i]
		*g = egress{qp: x, Address: Address{Path: p.Path, Flow: p.Flow}, src: p.Path.Current().Src}
		g.dest = e.dests.destinationOn(uint8(p.Rail), p.Path)
		g.home = g.dest
	}
	return nil
}

// leaveRails takes the queue pair from its further interfaces, and returns its paths there.
func (e *Core) leaveRails(x *QP) (left []*Path) {
	if x.ooo == nil {
		return nil
	}
	for i := range x.ooo.rails {
		g := &x.ooo.rails[i]
		if g.drr.Queued() {
			g.home.remove(g)
		}
		e.dests.drop(g.dest)
		left = append(left, g.Path)
	}
	x.ooo.rails = nil
	return left
}

// rails returns the egresses of the further interfaces. Only a queue pair in out-of-order mode has some.
func (x *QP) rails() []egress {
	if x.ooo == nil {
		return nil
	}
	return x.ooo.rails
}

// otherRail returns the further interface to which the peer has sent the packet, or nil.
func (x *QP) otherRail(p *rocev2.Packet) *egress {
	rails := x.rails()
	for i := range rails {
		if r := &rails[i]; p.Src() == r.dest.addr && p.Dst() == r.src {
			return r
		}
	}
	return nil
}

// egressAt returns the egress that sends to a destination, or nil.
func (x *QP) egressAt(d *dest) *egress {
	if x.home == d {
		return &x.egress
	}
	rails := x.rails()
	for i := range rails {
		if rails[i].home == d {
			return &rails[i]
		}
	}
	return nil
}

// rail returns which rail of package ooo an egress is.
func (o *oooQP) rail(g *egress) int {
	for i := range o.rails {
		if &o.rails[i] == g {
			return i + 1
		}
	}
	return 0
}

// arrivedOn returns the rail of package ooo by which a packet has come.
func (x *QP) arrivedOn(p *rocev2.Packet) uint8 {
	if g := x.otherRail(p); g != nil {
		return uint8(x.ooo.rail(g))
	}
	return 0
}

// answerBy returns the egress whose port has room for a response, or nil.
func (t *transmitter) answerBy(x *QP) *egress {
	if t.hasFrame(&x.Address) {
		return &x.egress
	}
	rails := x.rails()
	for i := range rails {
		if t.hasFrame(&rails[i].Address) {
			return &rails[i]
		}
	}
	return nil
}

// forAnswer returns by which egress a response leaves: in out-of-order mode on the interface on which its packet has
// come, or on another one if the port of that is full. One of them has room.
func (t *transmitter) forAnswer(x *QP, o *qp.Outbound) *egress {
	if x.ooo == nil || len(x.ooo.rails) == 0 {
		return &x.egress
	}
	if g := x.ooo.egress(int(o.Rail)); t.hasFrame(&g.Address) {
		return g
	}
	return t.answerBy(x)
}

// RTO returns after what time the queue pair in out-of-order mode finds a packet lost if nothing is answered, of
// its path whose RTT is the largest. It is doubled for each such time so far.
func (x *QP) RTO() (qp.Time, error) {
	t, ok := x.transport.(*ooo.Transport)
	if !ok || t.QP() == nil {
		return 0, errors.New("nic: only a queue pair in out-of-order mode that is connected has this RTO")
	}
	return qp.Time(t.QP().RTO()), nil
}
