// SPDX-License-Identifier: Apache-2.0

package nic

import (
	"fmt"

	"github.com/softroce/softroce-xdp/rocev2/engine"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// CreateAH makes an address handle. It waits until the neighbour is known, for up to
// Options.ResolveTimeout.
func (p *PD) CreateAH(av verbs.AddressVector) (verbs.AH, error) {
	d := p.dev
	if err := p.acquire(); err != nil {
		return nil, err
	}
	path, err := d.resolve(av.Src, av.Dst)
	if err != nil {
		d.mem.ReleasePD(p.num)
		return nil, err
	}
	a := &AH{dev: d, pd: p, address: engine.Address{Path: &path.Path, Flow: engine.Flow{TClass: av.TClass, HopLimit: av.HopLimit}}}
	if err := d.do(func() error { d.eng.core.Open(&a.address); return nil }); err != nil {
		path.Release()
		d.mem.ReleasePD(p.num)
		return nil, err
	}
	return a, nil
}

// Destroy ends the handle. Messages that were posted and have not left are dropped.
func (a *AH) Destroy() error {
	if !a.gone.CompareAndSwap(false, true) {
		return fmt.Errorf("nic: address handle %w", verbs.ErrDestroyed)
	}
	a.dev.mem.ReleasePD(a.pd.num)
	a.dev.eng.do(func() { a.dev.eng.core.Close(&a.address) })
	a.address.Path.Release() // not in the engine's thread, see release
	return nil
}
