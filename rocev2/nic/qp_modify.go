// SPDX-License-Identifier: Apache-2.0

package nic

import (
	"fmt"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/nic/internal/route"
	"github.com/softroce/softroce-xdp/rocev2/seal"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Modify sets the attributes that mask names and goes to a.State if MaskState is among
// them (package qp has the table). From INIT to RTR it waits until the peer's
// neighbour is known, for up to Options.ResolveTimeout.
//
// The PMTU must fit the path. Whether SACK is used is the engine's decision: MaskSelective is
// refused.
func (x *QP) Modify(a verbs.Attr, mask verbs.AttrMask) error {
	if mask&verbs.MaskSelective != 0 {
		return fmt.Errorf("nic: Selective is negotiated, not set")
	}
	toRTR := mask&verbs.MaskState != 0 && a.State == verbs.StateRTR && x.typ != verbs.UD && x.State() == verbs.StateInit
	if toRTR && mask&verbs.MaskAV == 0 {
		return fmt.Errorf("nic: to RTR a %s queue pair needs an address: set AV.Dst and MaskAV", x.typ)
	}
	if mask&verbs.MaskAV != 0 && !toRTR {
		return fmt.Errorf("nic: the address of a queue pair is set from INIT to RTR; this one is in %s (UD has an address handle for each message)", x.State())
	}
	var path *route.Path
	if toRTR {
		var err error
		if path, err = x.dev.resolve(a.AV.Src, a.AV.Dst); err != nil {
			return err
		}
		if mask&verbs.MaskPMTU != 0 {
			if err := x.dev.fits(a.PMTU, path.Current()); err != nil {
				path.Release()
				return err
			}
		}
	}
	unused := path
	err := x.dev.do(func() (err error) {
		var left *route.Path
		if left, err = x.dev.eng.modify(x, &a, mask, path); err == nil {
			unused = left
		}
		return err
	})
	release(unused)
	return err
}

// release gives back a path, if there is one. It may wait for the table, which asks the
// kernel about thousands of paths when routes change: never in the engine's thread.
func release(p *route.Path) {
	if p != nil {
		p.Release()
	}
}

// fits judges a PMTU by the path and by the frames that the device has.
func (d *Device) fits(m rocev2.PMTU, to *route.State) error {
	need := m.Bytes() + rocev2.PMTUOverhead
	switch {
	case m > to.PMTU:
		return fmt.Errorf("nic: a PMTU of %d does not fit the path to %s, which has an MTU of %d: at most %d, or raise the MTU to %d",
			m.Bytes(), to.Dst, to.MTU, to.PMTU.Bytes(), need)
	case need > d.mtu:
		return fmt.Errorf("nic: a PMTU of %d does not fit the device's frames: %s had an MTU of %d when it was opened; open the device again",
			m.Bytes(), d.opts.Interface, d.mtu)
	}
	return nil
}

// modify is Modify in the engine's thread. It takes the path over unless it fails, and
// returns the one that the queue pair has no more.
func (e *engine) modify(x *QP, a *verbs.Attr, mask verbs.AttrMask, path *route.Path) (left *route.Path, err error) {
	if x.dead {
		return nil, errQPDestroyed
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
		left = e.unroute(x)
		x.address = address{path, e.destination(path), flow{
			TClass: a.AV.TClass, HopLimit: a.AV.HopLimit, port: rocev2.SourcePort(rocev2.FlowLabel(x.num, a.DestQPN)),
		}}
		x.home, x.src = x.dest, path.Current().Src
		x.q.SetFlight(&x.dest.flight)
		x.q.SetReorderPool(x.dest.reorderShare(e))
	}
	attr := x.q.Attr()
	if path != nil && e.hooks != nil && x.ooo == nil {
		e.hooks.onConnect(x, &attr)
	}
	if attr.State == verbs.StateReset {
		left = e.unroute(x)
		e.leaveRails(x)
		x.forgetKeys()
	}
	switch x.pkey = attr.PKey; {
	case x.crypt != nil:
		x.pkey = seal.PKey
	case x.pkey == 0:
		x.pkey = rocev2.DefaultPKey
	}
	e.posts.mu.Lock()
	x.pmtu, x.rdAtomic = attr.PMTU, attr.MaxRdAtomic
	e.posts.mu.Unlock()
	x.publish()
	e.markDirty(x)
	return left, nil
}

// unroute removes a queue pair's address, and the queue pair from the queue there: the
// pacer of that destination is not the one of the next. It returns the path, for
// release.
func (e *engine) unroute(x *QP) (left *route.Path) {
	if x.drr.Queued() {
		x.home.remove(&x.egress)
	}
	if x.internal != nil {
		x.internal.disconnect()
	}
	if left = x.path; left != nil {
		if x.hooked {
			e.hooks.onDisconnect(x)
		}
		x.q.SetFlight(nil)
		if x.dest.probe.qp == x {
			x.dest.probe = probe{} // no answer comes to it any more
		}
		e.enqueueUnblocked(x.dest)
		e.drop(x.dest)
		x.path, x.dest, x.home, x.selective = nil, nil, nil, false
	}
	if x.typ == verbs.UD {
		x.home = &e.datagrams
	}
	return left
}
