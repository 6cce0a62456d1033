// SPDX-License-Identifier: Apache-2.0

package rxepeer

import (
	"errors"
	"fmt"
	"os"
	"runtime"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
)

// Net is where machines are plugged in: a bridge in a network namespace. A topology
// that has both fills it in itself; NewNet makes one for machines alone.
type Net struct {
	NS     netns.NsHandle
	Bridge string // empty: the tap stays unattached

	own bool
}

const ownBridge = "br0"

// NewNet makes a namespace of its own with one bridge, both of the given MTU. The
// namespace has no name: it is gone when Close is called or the process ends.
func NewNet(mtu int) (*Net, error) {
	n := &Net{NS: netns.None(), Bridge: ownBridge, own: true}
	err := onThread(func() error {
		ns, err := netns.New()
		if err != nil {
			return fmt.Errorf("rxepeer: new network namespace: %w", err)
		}
		n.NS = ns
		attrs := netlink.NewLinkAttrs()
		attrs.Name, attrs.MTU = ownBridge, mtu
		// Snooping would hold back multicast until someone reports.
		snooping := false
		bridge := &netlink.Bridge{LinkAttrs: attrs, MulticastSnooping: &snooping}
		if err := netlink.LinkAdd(bridge); err != nil {
			return fmt.Errorf("rxepeer: add bridge: %w", err)
		}
		return netlink.LinkSetUp(bridge)
	})
	if err != nil {
		n.Close()
		return nil, err
	}
	return n, nil
}

// Close removes a namespace that NewNet made, and leaves any other alone.
func (n *Net) Close() error {
	if !n.own || !n.NS.IsOpen() {
		return nil
	}
	return n.NS.Close()
}

// addTap makes a tap device in the namespace, enslaves it to the bridge and returns
// one open descriptor per queue. The kernel removes the tap when the last of them is
// closed, so a machine that dies in any way leaves none behind.
func (n *Net) addTap(name string, mtu, queues int) ([]*os.File, error) {
	var fds []*os.File
	err := n.do(func() error {
		// Asking for a tap that exists would join its queues, and share its traffic.
		if _, err := netlink.LinkByName(name); err == nil {
			return fmt.Errorf("rxepeer: interface %s exists already: each machine needs a name of its own", name)
		}
		attrs := netlink.NewLinkAttrs()
		attrs.Name = name
		tap := &netlink.Tuntap{
			LinkAttrs: attrs, Mode: netlink.TUNTAP_MODE_TAP, Queues: queues, NonPersist: true,
			Flags: netlink.TUNTAP_MULTI_QUEUE | netlink.TUNTAP_NO_PI | netlink.TUNTAP_VNET_HDR,
		}
		if err := netlink.LinkAdd(tap); err != nil {
			return fmt.Errorf("rxepeer: add tap %s: %w", name, err)
		}
		fds = tap.Fds
		if err := steerToFirst(fds[0]); err != nil {
			return err
		}
		if err := netlink.LinkSetMTU(tap, mtu); err != nil {
			return fmt.Errorf("rxepeer: tap %s: MTU %d: %w", name, mtu, err)
		}
		if err := netlink.LinkSetTxQLen(tap, tapQueue); err != nil {
			return fmt.Errorf("rxepeer: tap %s: queue of %d packets: %w", name, tapQueue, err)
		}
		if n.Bridge != "" {
			bridge, err := netlink.LinkByName(n.Bridge)
			if err != nil {
				return fmt.Errorf("rxepeer: bridge %s: %w", n.Bridge, err)
			}
			if err := netlink.LinkSetMaster(tap, bridge); err != nil {
				return fmt.Errorf("rxepeer: tap %s: add to bridge %s: %w", name, n.Bridge, err)
			}
		}
		return netlink.LinkSetUp(tap)
	})
	if err != nil {
		closeAll(fds)
		return nil, err
	}
	return fds, nil
}

// tapQueue is how many packets wait for a machine that the host has paused; the kernel's
// default of 1000 is less than an exchange sends in a burst.
const tapQueue = 10_000

// Drops tells how many packets the host has dropped in front of a machine because it did not
// fetch them in time. Iface is its tap (TapName).
func (n *Net) Drops(iface string) (drops uint64, err error) {
	err = n.do(func() error {
		link, err := netlink.LinkByName(iface)
		if err != nil {
			return fmt.Errorf("rxepeer: interface %s: %w", iface, err)
		}
		// The kernel sends the statistics of every interface.
		drops = link.Attrs().Statistics.TxDropped
		return nil
	})
	return drops, err
}

// Do runs f on a thread that is inside the namespace of the bridge.
func (n *Net) Do(f func() error) error { return n.do(f) }

// do runs f on a thread that is inside the namespace.
func (n *Net) do(f func() error) error {
	return onThread(func() error {
		if err := netns.Set(n.NS); err != nil {
			return fmt.Errorf("rxepeer: enter network namespace: %w", err)
		}
		return f()
	})
}

// onThread runs f on a thread of its own, which ends with it: whatever f does to
// the thread's namespace meets no other goroutine.
func onThread(f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked, so the thread is not used again
		done <- f()
	}()
	return <-done
}

func closeAll(files []*os.File) error {
	var errs []error
	for _, f := range files {
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}
