// SPDX-License-Identifier: Apache-2.0

package nic

import (
	"fmt"
	"net/netip"
	"sync/atomic"

	"github.com/softroce/softroce-xdp/rocev2/nic/route"
	"github.com/softroce/softroce-xdp/rocev2/qp"
)

// AH is an address handle: the route to a destination of datagrams (IBTA 10.2.2).
type AH struct {
	dev  *Device
	pd   *PD
	path *route.Path
	dest *dest // engine; nil after Destroy
	flow Flow
	gone atomic.Bool
}

// CreateAH makes an address handle. src is one of the device's GIDs, or not valid:
// the kernel's choice. It waits until the neighbour is known, for up to
// Options.ResolveTimeout.
func (d *Device) CreateAH(pd *PD, src, dst netip.Addr, flow Flow) (*AH, error) {
	if err := d.acquirePD(pd); err != nil {
		return nil, err
	}
	path, err := d.resolve(src, dst)
	if err != nil {
		d.mem.ReleasePD(pd.num)
		return nil, err
	}
	a := &AH{dev: d, pd: pd, path: path, flow: flow}
	if err := d.do(func() error { a.dest = d.eng.destination(path); return nil }); err != nil {
		path.Release()
		d.mem.ReleasePD(pd.num)
		return nil, err
	}
	return a, nil
}

// To is the queue pair qpn there, for SendWR.AH. The Q_Key is that of the receiver.
func (a *AH) To(qpn, qkey uint32) *qp.AH { return &qp.AH{QPN: qpn, QKey: qkey, Path: a} }

// Destroy ends the handle. Messages that were posted and have not left are dropped.
func (a *AH) Destroy() error {
	if !a.gone.CompareAndSwap(false, true) {
		return fmt.Errorf("nic: address handle %w", ErrDestroyed)
	}
	a.dev.mem.ReleasePD(a.pd.num)
	a.dev.eng.do(func() {
		a.dev.eng.drop(a.dest)
		a.dest = nil
	})
	a.path.Release() // not in the engine's thread, see release
	return nil
}
