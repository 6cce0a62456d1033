// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/bpf"
)

// linkWatch reports changes of an interface.
type linkWatch struct {
	index int
	// changes receives the present state of the interface, then each change, and nil when the
	// interface is deleted. It is closed when the kernel has dropped reports (ENOBUFS); subscribe
	// starts again then.
	changes chan netlink.Link
	done    chan struct{} // nil = there is no subscription
}

// watchLink watches an interface of the calling thread's network namespace.
func watchLink(index int) (*linkWatch, error) {
	w := &linkWatch{index: index}
	return w, w.subscribe()
}

// subscribe replaces the subscription. It reads the present state after it has subscribed, so
// that no change is missed in between.
func (w *linkWatch) subscribe() error {
	w.close()
	updates := make(chan netlink.LinkUpdate, 16)
	w.changes, w.done = make(chan netlink.Link, 16), make(chan struct{})
	if err := netlink.LinkSubscribe(updates, w.done); err != nil {
		return fmt.Errorf("watch the interface: %w", err)
	}
	l, err := netlink.LinkByIndex(w.index)
	var deleted netlink.LinkNotFoundError
	switch {
	case errors.As(err, &deleted):
		l = nil
	case err != nil:
		w.close()
		return fmt.Errorf("read the state of the interface: %w", err)
	}
	w.changes <- l
	go forward(updates, w.index, w.changes, w.done)
	return nil
}

// forward passes the reports of one interface on until the subscription ends.
func forward(updates <-chan netlink.LinkUpdate, index int, changes chan<- netlink.Link, done <-chan struct{}) {
	defer close(changes)
	for u := range updates {
		// A bridge reports its ports too: RTM_DELLINK of AF_BRIDGE means that the interface has left it.
		if u.Attrs().Index != index || u.IfInfomsg.Family != unix.AF_UNSPEC {
			continue
		}
		l := u.Link
		if u.Header.Type == unix.RTM_DELLINK {
			l = nil
		}
		select {
		case changes <- l:
		case <-done: // the rest is discarded, so that the subscription can end
		}
	}
}

// close ends the subscription.
func (w *linkWatch) close() {
	if w.done != nil {
		close(w.done)
		w.done = nil
	}
}

// linkChanged follows the name, the MTU and the MAC address.
func (a *Agent) linkChanged(l netlink.Link) {
	attrs := l.Attrs()
	if attrs.Name != a.iface.Name {
		a.log.Info("interface renamed", "from", a.iface.Name, "to", attrs.Name)
		a.iface.Name = attrs.Name
	}
	if uint32(attrs.MTU) != a.cfg.Mtu {
		a.log.Info("MTU changed", "from", a.cfg.Mtu, "to", attrs.MTU)
		a.cfg.Mtu = uint32(attrs.MTU)
	}
	if len(attrs.HardwareAddr) == len(a.cfg.Mac) && [6]byte(attrs.HardwareAddr) != a.cfg.Mac {
		a.log.Info("MAC address changed", "to", attrs.HardwareAddr)
		bpf.SetMAC(a.cfg.Config, [6]byte(attrs.HardwareAddr))
	}
}

// lockPeriod is the time between two checks of the lease's file.
const lockPeriod = time.Second

// keepLock creates the file of the lease again if somebody has removed it: the other commands find
// the agent by it.
func (a *Agent) keepLock(now uint64) {
	if a.lock == nil || now < a.lockAfter {
		return
	}
	a.lockAfter = now + uint64(lockPeriod)
	if err := a.lock.Restore(); err != nil {
		a.log.Warn("the lease of the agent cannot be restored", "err", err)
	}
}

// isLocal reports whether an interface of this host has the address.
func (a *Agent) isLocal(addr netip.Addr) bool {
	list, err := netlink.AddrList(nil, netlink.FAMILY_ALL)
	if err != nil {
		return false
	}
	for _, x := range list {
		if ip, ok := netip.AddrFromSlice(x.IP); ok && ip.Unmap() == addr.Unmap() {
			return true
		}
	}
	return false
}
