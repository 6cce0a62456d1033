// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/seal"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Modify sets the attributes that mask names and goes to a.State if MaskState is among them (package qp has the
// table). From INIT to RTR, RC and UC need a path to the peer, which the core uses until it is returned by a later
// Modify or by RemoveQP; after an error it does not use it. left are the paths that the queue pair has no more.
func (e *Core) Modify(x *QP, a *verbs.Attr, mask verbs.AttrMask, path *Path) (left []*Path, err error) {
	if x.dead {
		return nil, ErrQPRemoved
	}
	if path == nil && x.typ != verbs.UD && mask&verbs.MaskState != 0 && a.State == verbs.StateRTR && x.q.State() == verbs.StateInit {
		return nil, fmt.Errorf("nic: the queue pair has come to %s during the call: repeat it", verbs.StateInit)
	}
	if err := x.checkCrypt(a, mask, path); err != nil {
		return nil, err
	}
	if x.ooo != nil {
		if err := x.ooo.check(a, mask, path); err != nil {
			return nil, err
		}
	}
	if err := x.transport.Modify(*a, mask); err != nil {
		return nil, err
	}
	if path != nil {
		left = e.connect(x, a, path)
	}
	attr := x.q.Attr()
	if path != nil && e.hooks != nil && x.ooo == nil {
		e.hooks.onConnect(x, &attr)
	}
	if attr.State == verbs.StateReset {
		left = append(left, e.leave(x)...)
		x.crypt = nil
	}
	switch x.pkey = attr.PKey; {
	case x.crypt != nil:
		x.pkey = seal.PKey
	case x.pkey == 0:
		x.pkey = rocev2.DefaultPKey
	}
	x.publish()
	e.tx.markDirty(x)
	return left, nil
}

// connect gives a queue pair an address, and returns the path that it had.
func (e *Core) connect(x *QP, a *verbs.Attr, path *Path) (left []*Path) {
	if p := e.unroute(x); p != nil {
		left = append(left, p)
	}
	x.Address = Address{path, e.dests.destination(path), Flow{
		TClass: a.AV.TClass, HopLimit: a.AV.HopLimit, port: rocev2.SourcePort(rocev2.FlowLabel(x.num, a.DestQPN)),
	}}
	x.home, x.src = x.dest, path.Current().Src
	x.q.SetFlight(&x.dest.flight)
	x.q.SetReorderPool(x.dest.reorderShare(e))
	return left
}

// unroute removes a queue pair's address, and the queue pair from the queue there: the
// pacer of that destination is not the one of the next. It returns the path.
func (e *Core) unroute(x *QP) (left *Path) {
	if x.drr.Queued() {
		x.home.remove(&x.egress)
	}
	if x.internal != nil {
		x.internal.disconnect()
	}
	if left = x.Path; left != nil {
		if x.hooked {
			e.hooks.onDisconnect(x)
		}
		x.q.SetFlight(nil)
		if x.dest.probe.qp == x {
			x.dest.probe = probe{} // no answer comes to it any more
		}
		e.tx.enqueueUnblocked(x.dest)
		e.dests.drop(x.dest)
		x.Path, x.dest, x.home, x.selective = nil, nil, nil, false
	}
	if x.typ == verbs.UD {
		x.home = &e.datagrams
	}
	return left
}
