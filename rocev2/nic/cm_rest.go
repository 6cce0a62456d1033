// SPDX-License-Identifier: Apache-2.0

package nic

import (
	"net/netip"
	"slices"
	"time"

	"github.com/softroce/softroce-xdp/rocev2/cm"
	"github.com/softroce/softroce-xdp/rocev2/cm/service"
)

// Messages of the communication manager that belong to no listener and no connection of this device
// are the kernel's if it has an RDMA device on the interface. If it has none, nobody would answer
// them, and a peer that connects to a port without a listener would wait for ten seconds. So the
// manager of this device answers them then. The kernel is asked once a second.

// restInterval is how often the kernel is asked.
const restInterval = time.Second

// restOwner says who owns the messages that no key of the manager matches.
type restOwner struct {
	dev *Device
	svc *service.Service
	on  []netip.Addr // addresses with a KeyRest, so that the manager is alone
}

// followKernelCM gives these messages to the manager or to the kernel until the device has ended.
func (d *Device) followKernelCM(svc *service.Service) {
	if d.routes == nil { // a loopback device is alone
		<-d.done
		return
	}
	r := restOwner{dev: d, svc: svc}
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
	if !r.dev.routes.KernelRDMA() {
		for _, a := range r.dev.GIDs() {
			if a.IsValid() {
				want = append(want, a.Unmap())
			}
		}
	}
	if len(want) > 0 && len(r.on) == 0 {
		r.svc.SetAlone(true)
	}
	var on []netip.Addr
	for _, a := range r.on {
		if slices.Contains(want, a) || !r.steer(a, true) {
			on = append(on, a)
		}
	}
	for _, a := range want {
		if !slices.Contains(on, a) && r.steer(a, false) {
			on = append(on, a)
		}
	}
	if r.on = on; len(on) == 0 {
		r.svc.SetAlone(false)
	}
}

func (r *restOwner) steer(a netip.Addr, off bool) bool {
	return r.dev.dataplane.SteerMAD(cm.Steer{Key: cm.KeyRest{Local: a}, Off: off}) == nil
}
