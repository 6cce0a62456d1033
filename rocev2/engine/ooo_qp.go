// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"errors"
	"fmt"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/ooo"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Out-of-order mode (S3, package ooo, docs/change/out-of-order.md) of a queue pair of RC: what its transport
// needs of the engine.
//
// HELLO announces the mode for a host, the number of a queue pair that it is in the mode. A queue pair
// refuses a peer's number without that mark at once.

// oooQP is what a queue pair in out-of-order mode has in addition to its transport.
type oooQP struct {
	x       *QP
	payload int   // most data of a packet, 0 = that of the PMTU
	refused error // reason why the peer is refused, nil while it is not

	rails []egress // egresses of the further interfaces
}

var _ ooo.Peer = (*oooQP)(nil)

// oooState is what the engine has for the queue pairs in the mode.
type oooState struct {
	packet ooo.Outbound // latest packet, used again and again
	count  ooo.Counters
}

// CheckOutOfOrder refuses what a queue pair in out-of-order mode cannot have.
func CheckOutOfOrder(init *verbs.QPInit) error {
	switch {
	case !init.OutOfOrder && init.Payload != 0:
		return errors.New("nic: Payload is of out-of-order mode: leave it out, or set OutOfOrder")
	case !init.OutOfOrder:
		return nil
	case init.Type != verbs.RC:
		return fmt.Errorf("nic: out-of-order mode with %s: choose RC", init.Type)
	case init.MaxSendSGE > 1 || init.MaxInline > 0:
		return fmt.Errorf("nic: out-of-order mode has lists of one element and no inline data: MaxSendSGE is %d, MaxInline %d", init.MaxSendSGE, init.MaxInline)
	}
	if init.Payload != 0 {
		if err := ooo.CheckPayload(init.Payload); err != nil {
			return fmt.Errorf("nic: %w", err)
		}
	}
	return nil
}

// check refuses attributes that the mode cannot have: a peer that is not in it, and packets that do not fit the
// path of a new connection.
func (o *oooQP) check(a *verbs.Attr, mask verbs.AttrMask, path *Path) error {
	if mask&verbs.MaskDestQPN != 0 && !isOutOfOrder(a.DestQPN) {
		return fmt.Errorf("nic: queue pair %#x of the peer is not in out-of-order mode: create it with QPInit.OutOfOrder", a.DestQPN)
	}
	if path != nil && mask&verbs.MaskPMTU != 0 {
		return o.fits(a.PMTU, path)
	}
	return nil
}

// fits judges the packets of the mode by the path of a new connection, the paths of further interfaces, and the
// frames of each.
func (o *oooQP) fits(m rocev2.PMTU, path *Path) error {
	own := o.x.core.dests.rails[0]
	if err := o.fitsPath(m, path.Current(), own.mtu, own.name); err != nil {
		return err
	}
	for i := range o.rails {
		r := &o.rails[i]
		p := o.x.core.dests.of(r.dest)
		if err := o.fitsPath(m, r.Path.Current(), p.mtu, p.name); err != nil {
			return err
		}
	}
	return nil
}

func (o *oooQP) fitsPath(m rocev2.PMTU, to *PathState, frame int, name string) error {
	mtu := min(to.MTU, frame)
	if o.payload == 0 {
		if need := m.Bytes() + max(rocev2.PMTUOverhead, ooo.Overhead(to.Dst.Is6())); need > mtu {
			return fmt.Errorf("nic: a PMTU of %d does not fit interface %s, which needs an MTU of %d: choose less", m.Bytes(), name, need)
		}
		return nil
	}
	most, _ := ooo.PayloadForMTU(mtu, to.Dst.Is6())
	if to.Loopback { // without the stamp
		most = mtu - ooo.Overhead(to.Dst.Is6())
	}
	if o.payload > most {
		return fmt.Errorf("nic: Payload is %d, and the MTU of %d of interface %s has room for %d: choose less", o.payload, mtu, name, most)
	}
	return nil
}

// Rails implements ooo.Peer.
func (o *oooQP) Rails() int { return 1 + len(o.rails) }

// egress returns the egress that is a rail of package ooo.
func (o *oooQP) egress(rail int) *egress {
	if rail == 0 {
		return &o.x.egress
	}
	return &o.rails[rail-1]
}

// Announced implements ooo.Peer.
func (o *oooQP) Announced(rail int) bool {
	g := o.egress(rail)
	return g.Path != nil && (g.dest.ooo || g.Path.Current().Loopback && rail == 0)
}

// Ask implements ooo.Peer.
func (o *oooQP) Ask(rail int) {
	if d := o.egress(rail).dest; d != nil {
		o.x.core.dests.queueForSync(d)
	}
}

// StampOffset implements ooo.Peer.
func (o *oooQP) StampOffset(rail int) ooo.Time {
	e := o.x.core
	if rail == 0 {
		return ooo.Time(e.dests.rails[0].config.ClockOffset)
	}
	return ooo.Time(e.dests.of(o.egress(rail).dest).config.ClockOffset)
}

// Refuse implements ooo.Peer.
func (o *oooQP) Refuse() {
	o.x.publish() // the state is visible before the event
	o.refused = fmt.Errorf("nic: %s: %w", o.x.dest.addr, ErrNotOutOfOrder)
	o.x.notify(verbs.EventQPFatal)
	o.refused = nil // other events have other reasons
}

// ErrNotOutOfOrder is wrapped by QP.FatalReason when the peer has not announced out-of-order mode.
var ErrNotOutOfOrder = fmt.Errorf("the host has not announced out-of-order mode within %d s: attach it with a softroce engine that has it, or use RC", ooo.AskTime/1e9)
