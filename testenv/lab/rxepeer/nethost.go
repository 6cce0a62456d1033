// SPDX-License-Identifier: Apache-2.0

package rxepeer

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/testenv/lab/topo"
)

// HostConfig describes a host that is not a machine: a namespace on this kernel, linked to the
// bridge of a Net by a veth pair.
type HostConfig struct {
	Name  string // name of the bridge's end, with "-v" behind it; short
	Addrs []netip.Prefix
	MTU   int              // MTU of both ends; default 1500; the bridge's must allow it
	MAC   net.HardwareAddr // default: from Name
	// NS is the namespace of the host's end; the zero value and None ask for a new one, which
	// Close removes.
	NS netns.NsHandle
}

// HostIface is the name of a Host's interface in its own namespace.
const HostIface = "eth0"

// Host is where a process of this kernel, such as the engine with its AF_XDP sockets, meets the
// machines of a Net. Packets keep their order on the way, and XDP works in native mode.
type Host struct {
	Config HostConfig // configuration with defaults filled in
	NS     netns.NsHandle

	net *Net
	own bool
}

// AddHost links a host to the bridge. Close it before the Net.
func (n *Net) AddHost(c HostConfig) (*Host, error) {
	if !nameRE.MatchString(c.Name) {
		return nil, fmt.Errorf("rxepeer: host %q: the name must match %s, since it names an interface too", c.Name, nameRE)
	}
	if n.Bridge == "" {
		return nil, fmt.Errorf("rxepeer: host %s: the Net has no bridge to link it to", c.Name)
	}
	if c.MTU == 0 {
		c.MTU = 1500
	}
	if c.MAC == nil {
		c.MAC = macOf(c.Name, 0)
	}
	h := &Host{Config: c, NS: c.NS, net: n}
	if c.NS <= 0 {
		h.own = true
		err := onThread(func() (err error) {
			h.NS, err = netns.New()
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("rxepeer: host %s: new network namespace: %w", c.Name, err)
		}
	}
	if err := errors.Join(h.link(), h.configure(), h.plug()); err != nil {
		return nil, errors.Join(fmt.Errorf("rxepeer: host %s: %w", c.Name, err), h.Close())
	}
	return h, nil
}

// Port is the name of the bridge's end of the host's link.
func (h *Host) Port() string { return h.portName() }

func (h *Host) portName() string { return h.Config.Name + "-v" }

func (h *Host) link() error {
	return h.net.do(func() error {
		attrs := netlink.NewLinkAttrs()
		attrs.Name, attrs.MTU = h.portName(), h.Config.MTU
		err := netlink.LinkAdd(&netlink.Veth{
			LinkAttrs: attrs, PeerName: HostIface, PeerMTU: uint32(h.Config.MTU),
			PeerHardwareAddr: h.Config.MAC, PeerNamespace: netlink.NsFd(h.NS),
		})
		if err != nil {
			return fmt.Errorf("veth %s: %w", attrs.Name, err)
		}
		return topo.UpInOrder(0, attrs.Name)
	})
}

func (h *Host) configure() error {
	return h.Do(func() error {
		// Addresses are usable at once; nobody else is on the wire to collide with.
		if err := os.WriteFile("/proc/sys/net/ipv6/conf/"+HostIface+"/accept_dad", []byte("0"), 0); err != nil {
			return err
		}
		link, err := netlink.LinkByName(HostIface)
		if err != nil {
			return err
		}
		for _, p := range h.Config.Addrs {
			a := &netlink.Addr{IPNet: &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}}
			if p.Addr().Is6() {
				a.Flags = unix.IFA_F_NODAD
			}
			if err := netlink.AddrAdd(link, a); err != nil {
				return fmt.Errorf("address %s: %w", p, err)
			}
		}
		lo, err := netlink.LinkByName("lo")
		if err == nil {
			err = netlink.LinkSetUp(lo)
		}
		return errors.Join(err, topo.UpInOrder(0, HostIface))
	})
}

// plug adds the link to the bridge once it has its carrier: the bridge then forwards from the
// first packet on.
func (h *Host) plug() error {
	return h.net.do(func() error {
		link, err := awaitUp(h.portName())
		if err != nil {
			return err
		}
		bridge, err := netlink.LinkByName(h.net.Bridge)
		if err != nil {
			return fmt.Errorf("bridge %s: %w", h.net.Bridge, err)
		}
		return netlink.LinkSetMaster(link, bridge)
	})
}

// awaitUp waits until the kernel has noticed a link's carrier; what is sent before is lost.
func awaitUp(name string) (netlink.Link, error) {
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(time.Millisecond) {
		link, err := netlink.LinkByName(name)
		if err != nil || link.Attrs().OperState == netlink.OperUp {
			return link, err
		}
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("%s is still %s", name, link.Attrs().OperState)
		}
	}
}

// Do runs f on a thread inside the host's namespace. Sockets that f opens stay there.
func (h *Host) Do(f func() error) error {
	return (&Net{NS: h.NS}).do(f)
}

// Close removes the link, and the namespace if AddHost made it. It may be called more than once.
func (h *Host) Close() error {
	var errs []error
	if h.net.NS.IsOpen() {
		errs = append(errs, h.net.do(func() error {
			link, err := netlink.LinkByName(h.portName())
			if errors.As(err, new(netlink.LinkNotFoundError)) {
				return nil
			}
			if err != nil {
				return err
			}
			return netlink.LinkDel(link)
		}))
	}
	if h.own && h.NS.IsOpen() {
		errs = append(errs, h.NS.Close())
	}
	return errors.Join(errs...)
}
