// SPDX-License-Identifier: Apache-2.0

package topo

import (
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Port is the switch's end of a host's link.
type Port struct {
	name  string
	index int
	sw    *Host
	mtu   int

	mu   sync.Mutex
	conf *Bottleneck // nil: none installed
}

// addPort creates the link of host h, both ends; plug joins it to the bridge.
func (t *Topology) addPort(name string, h *Host, hs HostSpec) (*Port, error) {
	attrs := netlink.NewLinkAttrs()
	attrs.Name = name
	attrs.MTU = hs.MTU
	if err := t.addLink(attrs, h, hs.Tap); err != nil {
		return nil, fmt.Errorf("link: %w", err)
	}
	link, err := t.sw.nl.LinkByName(name)
	if err != nil {
		return nil, fmt.Errorf("find %s: %w", name, err)
	}
	p := &Port{name: name, index: link.Attrs().Index, sw: t.sw, mtu: hs.MTU}
	if !hs.Tap {
		if err := t.sw.features(name, inOrder); err != nil {
			return nil, err
		}
	}
	if err := t.sw.nl.LinkSetUp(link); err != nil {
		return nil, fmt.Errorf("%s up: %w", name, err)
	}
	if hs.Bottleneck != nil {
		return p, p.SetBottleneck(hs.Bottleneck)
	}
	return p, nil
}

// plug makes the port part of the bridge. Both ends must be up and running
// before: the bridge then forwards from the first packet on, while a port that
// gets its carrier later starts forwarding some time after it.
func (p *Port) plug(h *Host) error {
	if h.thread != nil { // a tap has no carrier before the virtual machine starts
		if err := waitUp(h, IfName); err != nil {
			return err
		}
		if err := waitUp(p.sw, p.name); err != nil {
			return err
		}
		if err := waitLocal(h); err != nil {
			return err
		}
	}
	bridge, err := p.sw.nl.LinkByName(bridgeName)
	if err != nil {
		return fmt.Errorf("find bridge: %w", err)
	}
	link, err := p.sw.nl.LinkByIndex(p.index)
	if err != nil {
		return fmt.Errorf("find %s: %w", p.name, err)
	}
	if err := p.sw.nl.LinkSetMaster(link, bridge); err != nil {
		return fmt.Errorf("plug %s into the bridge: %w", p.name, err)
	}
	// A bridge floods what goes to an address that has not spoken yet, and so would
	// put the first window towards one host into the queues of all others.
	err = p.sw.nl.NeighSet(&netlink.Neigh{
		LinkIndex:    p.index,
		Family:       unix.AF_BRIDGE,
		Flags:        netlink.NTF_MASTER,
		State:        netlink.NUD_NOARP,
		HardwareAddr: h.mac,
	})
	if err != nil {
		return fmt.Errorf("forwarding entry of %s: %w", p.name, err)
	}
	return nil
}

// settle is how long the kernel's deferred work may take. It only ends what has failed: on a machine that stalls, the
// work is done late.
const settle = 5 * time.Minute

// waitUp waits until the kernel has noticed an interface's carrier.
func waitUp(h *Host, ifName string) error {
	for deadline := time.Now().Add(settle); ; time.Sleep(time.Millisecond) {
		link, err := h.nl.LinkByName(ifName)
		if err != nil {
			return fmt.Errorf("find %s: %w", ifName, err)
		}
		if link.Attrs().OperState == netlink.OperUp {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s is still %s after %v", ifName, link.Attrs().OperState, settle)
		}
	}
}

// waitLocal waits until the host accepts packets to its IPv6 address: the kernel
// adds the local route some time after address and carrier, even without duplicate
// address detection.
func waitLocal(h *Host) error {
	for deadline := time.Now().Add(settle); ; time.Sleep(time.Millisecond) {
		routes, err := h.nl.RouteGet(h.v6.AsSlice())
		if err == nil && len(routes) == 1 && routes[0].Type == unix.RTN_LOCAL {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s is still not local after %v (%v, %v)", h.v6, settle, routes, err)
		}
	}
}

func (t *Topology) addLink(attrs netlink.LinkAttrs, h *Host, tap bool) error {
	if !tap {
		return t.sw.nl.LinkAdd(&netlink.Veth{
			LinkAttrs:        attrs,
			PeerName:         IfName,
			PeerMTU:          uint32(attrs.MTU),
			PeerHardwareAddr: h.mac,
			PeerNamespace:    netlink.NsFd(h.ns),
		})
	}
	if _, err := os.Stat("/dev/net/tun"); err != nil {
		return fmt.Errorf("taps need the tun module: %w", err)
	}
	return t.sw.Do(func() error { // taps are made by ioctl, where the thread is
		mtu := attrs.MTU
		attrs.MTU = 0
		tuntap := &netlink.Tuntap{
			LinkAttrs: attrs,
			Mode:      netlink.TUNTAP_MODE_TAP,
			Flags:     netlink.TUNTAP_NO_PI | netlink.TUNTAP_VNET_HDR,
		}
		if err := netlink.LinkAdd(tuntap); err != nil {
			return err
		}
		for _, fd := range tuntap.Fds {
			fd.Close()
		}
		link, err := netlink.LinkByName(attrs.Name)
		if err != nil {
			return err
		}
		return netlink.LinkSetMTU(link, mtu)
	})
}

// Name returns the interface's name in the switch's namespace.
func (p *Port) Name() string { return p.name }
