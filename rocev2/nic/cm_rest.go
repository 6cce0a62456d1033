// SPDX-License-Identifier: Apache-2.0

package nic

import (
	"net/netip"
	"slices"
	"time"

	"github.com/softroce/softroce-xdp/rocev2/cm"
	"github.com/softroce/softroce-xdp/rocev2/nic/internal/cmservice"
)

// Messages of the communication manager that belong to no listener and no connection of this device
// are the kernel's if it has an RDMA device on the interface. If it has none, nobody would answer
// them, and a peer that connects to a port without a listener would wait for ten seconds. So the
// manager of this device answers them then. The kernel is asked once a second.

// restInterval is how often the kernel is asked.
const restInterval = time.Second

// restOwner says who owns the messages that no key of the manager matches. All functions may be called
// at any time.
type restOwner struct {
	kernel    func() bool         // the kernel has an RDMA device on the interface
	addresses func() []netip.Addr // addresses of the interface; some may be invalid
	steer     func(s cm.Steer) error
	alone     func(on bool) // switch of the manager

	on      []netip.Addr // addresses with a KeyRest
	isAlone bool
}

// followKernelCM gives these messages to the manager or to the kernel until the device has ended.
func (d *Device) followKernelCM(svc *cmservice.Service) {
	if d.routes == nil { // a loopback device is alone
		<-d.done
		return
	}
	r := restOwner{kernel: d.routes.KernelRDMA, addresses: d.GIDs, steer: d.dataplane.SteerMAD, alone: svc.SetAlone}
	t := time.NewTicker(restInterval)
	defer t.Stop()
	for {
		r.update()
		select {
		case <-t.C:
		case <-d.done:
			return
		}
	}
}

// update asks the kernel, and writes what has changed. What fails is tried again the next time.
func (r *restOwner) update() {
	var want []netip.Addr
	if !r.kernel() {
		for _, a := range r.addresses() {
			if a.IsValid() {
				want = append(want, a.Unmap())
			}
		}
	}
	// Before the first message comes, and not while some still come that are the kernel's.
	if is := len(want) > 0; is != r.isAlone {
		r.isAlone = is
		r.alone(is)
	}
	var on []netip.Addr
	for _, a := range r.on {
		if slices.Contains(want, a) || r.steer(cm.Steer{Key: cm.KeyRest{Local: a}, Off: true}) != nil {
			on = append(on, a)
		}
	}
	for _, a := range want {
		if !slices.Contains(on, a) && r.steer(cm.Steer{Key: cm.KeyRest{Local: a}}) == nil {
			on = append(on, a)
		}
	}
	r.on = on
}
