// SPDX-License-Identifier: Apache-2.0

package nic

import (
	"net/netip"
	"slices"
	"time"

	"github.com/softroce/softroce-xdp/rocev2/cm"
)

// Messages of the communication manager that belong to no listener and no connection of this device
// are the kernel's if it has an RDMA device on the interface. If it has none, nobody would answer
// them, and a peer that connects to a port without a listener would wait for ten seconds. So the
// manager of this device answers them then. The kernel is asked once a second.

const (
	// restInterval is how often the kernel is asked.
	restInterval = time.Second
	// restRecent is for how long its answer holds for messages that come: a device may just have been added.
	restRecent = 10 * time.Millisecond
)

// restOwner says who owns the messages that no key of the manager matches. All functions may be called
// at any time.
type restOwner struct {
	addresses func() []netip.Addr // addresses of the interface; some may be invalid
	steer     func(s cm.Steer) error

	on []netip.Addr // addresses with a KeyRest
}

// kernelRDMA reports whether the kernel has an RDMA device on the interface.
func (d *Device) kernelRDMA() bool { return d.routes != nil && d.routes.KernelRDMA() }

// alone returns cm.Config.Alone.
func (d *Device) alone() func() bool {
	return recent(restRecent, func() bool { return !d.kernelRDMA() })
}

// recent returns f, whose result holds for a time. One goroutine calls it.
func recent(life time.Duration, f func() bool) func() bool {
	var at time.Time
	var result bool
	return func() bool {
		if time.Since(at) > life {
			result, at = f(), time.Now()
		}
		return result
	}
}

// followKernelCM gives these messages to the manager or to the kernel until the device has ended.
func (d *Device) followKernelCM() {
	if d.routes == nil { // a loopback device is alone
		<-d.done
		return
	}
	r := restOwner{addresses: d.GIDs, steer: d.dataplane.SteerMAD}
	t := time.NewTicker(restInterval)
	defer t.Stop()
	for {
		r.update(d.kernelRDMA())
		select {
		case <-t.C:
		case <-d.done:
			return
		}
	}
}

// update writes what has changed; kernel: the kernel has an RDMA device on the interface. What fails is tried again the next time.
func (r *restOwner) update(kernel bool) {
	var want []netip.Addr
	if !kernel {
		for _, a := range r.addresses() {
			if a.IsValid() {
				want = append(want, a.Unmap())
			}
		}
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
