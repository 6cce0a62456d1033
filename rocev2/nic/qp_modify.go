// SPDX-License-Identifier: Apache-2.0

package nic

import (
	"fmt"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/engine"
	"github.com/softroce/softroce-xdp/rocev2/nic/internal/route"
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
	toRTR := mask&verbs.MaskState != 0 && a.State == verbs.StateRTR && x.Type() != verbs.UD && x.State() == verbs.StateInit
	if toRTR && mask&verbs.MaskAV == 0 {
		return fmt.Errorf("nic: to RTR a %s queue pair needs an address: set AV.Dst and MaskAV", x.Type())
	}
	if mask&verbs.MaskAV != 0 && !toRTR {
		return fmt.Errorf("nic: the address of a queue pair is set from INIT to RTR; this one is in %s (UD has an address handle for each message)", x.State())
	}
	var path *route.Path
	if toRTR {
		var err error
		if path, err = x.dev().resolve(a.AV.Src, a.AV.Dst); err != nil {
			return err
		}
		if mask&verbs.MaskPMTU != 0 {
			if err := x.dev().fits(a.PMTU, path.Current()); err != nil {
				path.Release()
				return err
			}
		}
	}
	var left []*engine.Path
	err := x.dev().do(func() (err error) {
		left, err = x.dev().eng.modify(x, &a, mask, path)
		return err
	})
	if err != nil && path != nil {
		path.Release()
	}
	release(left)
	return err
}

// modify is Modify in the engine's thread.
func (e *runner) modify(x *QP, a *verbs.Attr, mask verbs.AttrMask, path *route.Path) ([]*engine.Path, error) {
	var to *engine.Path
	if path != nil {
		to = &path.Path
	}
	e.posts.mu.Lock() // who sees the new state posts by the new limits
	defer e.posts.mu.Unlock()
	left, err := e.core.Modify(&x.core, a, mask, to)
	if err != nil {
		return nil, err
	}
	attr, err := x.core.Attr()
	x.pmtu, x.rdAtomic = attr.PMTU, attr.MaxRdAtomic
	return left, err
}

// release gives back paths. It may wait for the table, which asks the
// kernel about thousands of paths when routes change: never in the engine's thread.
func release(paths []*engine.Path) {
	for _, p := range paths {
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
