// SPDX-License-Identifier: Apache-2.0

package topo

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"sync"

	"github.com/safchain/ethtool"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// IfName is the name of a host's only interface, in its own namespace.
const IfName = "eth0"

// prefixes of the one subnet that every host is in.
const (
	prefixV4 = 16
	prefixV6 = 64
)

// Host is a network namespace with one interface, or the switch.
type Host struct {
	name   string
	nsName string
	ns     netns.NsHandle
	nl     *netlink.Handle
	thread *thread
	port   *Port
	mtu    int
	mac    net.HardwareAddr
	v4, v6 netip.Addr

	mu     sync.Mutex
	closed bool
	cmds   map[*Cmd]struct{}
}

func newNamespaceHost(name, nsName string) (*Host, error) {
	th, ns, err := newNamespace(nsName)
	if err != nil {
		return nil, err
	}
	h := &Host{name: name, nsName: nsName, ns: ns, thread: th, cmds: map[*Cmd]struct{}{}}
	if h.nl, err = netlink.NewHandleAt(ns, unix.NETLINK_ROUTE); err != nil {
		return nil, errors.Join(fmt.Errorf("topo: netlink in %s: %w", nsName, err), h.close())
	}
	lo, err := h.nl.LinkByName("lo")
	if err == nil {
		err = h.nl.LinkSetUp(lo)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("topo: loopback of %s: %w", nsName, err), h.close())
	}
	return h, nil
}

// Name returns the name of the spec; "switch" for the switch.
func (h *Host) Name() string { return h.name }

// Namespace returns the name that `ip netns` shows; empty for a tap.
func (h *Host) Namespace() string { return h.nsName }

// NamespacePath returns the file that names the namespace, for `nsenter --net=`
// (`ip netns exec` would hide /sys/fs/bpf).
func (h *Host) NamespacePath() string { return filepath.Join(netnsDir, h.nsName) }

// IPv4 returns the host's address, 10.53.0.i/16.
func (h *Host) IPv4() netip.Addr { return h.v4 }

// IPv6 returns the host's address, fd53:52::i/64.
func (h *Host) IPv6() netip.Addr { return h.v6 }

// MAC returns the hardware address of eth0. A virtual machine behind a tap must
// be given this one if neighbours are static.
func (h *Host) MAC() net.HardwareAddr { return h.mac }

// Port returns the switch's end of the link; nil for the switch itself.
func (h *Host) Port() *Port { return h.port }

// Netlink returns a route netlink handle inside the namespace.
func (h *Host) Netlink() *netlink.Handle { return h.nl }

// Do runs f inside the namespace, on the calling goroutine, locked to its
// thread. Sockets and files that f opens stay in the namespace; goroutines that
// it starts do not run in it.
func (h *Host) Do(f func() error) error {
	if h.thread == nil {
		return fmt.Errorf("topo: %s is a tap: its namespace is inside the virtual machine", h.name)
	}
	runtime.LockOSThread()
	old, err := netns.Get()
	if err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("topo: current namespace: %w", err)
	}
	defer old.Close()
	if err := netns.Set(h.ns); err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("topo: enter %s: %w", h.nsName, err)
	}
	// Deferred, so that t.FailNow and panics inside f leave the thread clean. A
	// thread that cannot return stays locked and dies with its goroutine.
	defer func() {
		if netns.Set(old) == nil {
			runtime.UnlockOSThread()
		}
	}()
	return f()
}

// Sysctl writes a value under /proc/sys of the namespace, for example
// Sysctl("net/ipv4/ip_forward", "1").
func (h *Host) Sysctl(key, value string) error {
	return h.Do(func() error {
		if err := os.WriteFile(filepath.Join("/proc/sys", key), []byte(value), 0); err != nil {
			return fmt.Errorf("topo: sysctl in %s: %w", h.nsName, err)
		}
		return nil
	})
}

// configure gives eth0 its addresses and offloads and brings it up.
func (h *Host) configure(hs HostSpec) error {
	link, err := h.nl.LinkByName(IfName)
	if err != nil {
		return fmt.Errorf("find %s: %w", IfName, err)
	}
	for key, value := range map[string]string{
		"net/ipv6/conf/eth0/accept_dad":           "0",
		"net/ipv6/conf/eth0/accept_ra":            "0",
		"net/ipv6/conf/eth0/router_solicitations": "0",
	} {
		if err := h.Sysctl(key, value); err != nil {
			return err
		}
	}
	for addr, bits := range map[netip.Addr]int{h.v4: prefixV4, h.v6: prefixV6} {
		a := &netlink.Addr{IPNet: &net.IPNet{IP: addr.AsSlice(), Mask: net.CIDRMask(bits, addr.BitLen())}}
		if addr.Is6() {
			a.Flags = unix.IFA_F_NODAD // usable at once
		}
		if err := h.nl.AddrAdd(link, a); err != nil {
			return fmt.Errorf("address %s: %w", addr, err)
		}
	}
	if err := h.features(IfName, inOrder); err != nil {
		return err
	}
	if err := h.nl.LinkSetUp(link); err != nil {
		return fmt.Errorf("%s up: %w", IfName, err)
	}
	if !hs.NoOffload {
		return nil
	}
	return h.features(IfName, map[string]bool{
		"tx-checksum-ip-generic":     false,
		"tx-checksum-sctp":           false,
		"tx-udp-segmentation":        false,
		"tx-generic-segmentation":    false,
		"tx-scatter-gather-fraglist": false,
	})
}

// inOrder makes a veth keep the order of packets, and take XDP_TX and XDP_REDIRECT
// from its peer. Both need NAPI on the receiving end, which GRO turns on, and
// which the kernel bypasses for datagrams when the sending end has TSO. Without
// NAPI packets pass through a backlog per CPU, and overtake each other when the
// sender moves to another CPU: a go-back-N transport takes that for loss.
var inOrder = map[string]bool{
	"rx-gro":                       true,
	"tx-tcp-segmentation":          false,
	"tx-tcp-ecn-segmentation":      false,
	"tx-tcp-mangleid-segmentation": false,
	"tx-tcp6-segmentation":         false,
}

// UpInOrder sets the MTU of interfaces, 0: as it is, and brings them up. Done to both ends of a veth pair,
// packets keep their order, and XDP_TX and XDP_REDIRECT of the peer arrive. It acts in the network
// namespace of the calling thread.
func UpInOrder(mtu int, names ...string) error {
	e, err := ethtool.NewEthtool()
	if err != nil {
		return fmt.Errorf("ethtool: %w", err)
	}
	defer e.Close()
	for _, name := range names {
		if err := e.Change(name, inOrder); err != nil {
			return fmt.Errorf("ethtool features of %s: %w", name, err)
		}
		link, err := netlink.LinkByName(name)
		if err != nil {
			return err
		}
		if mtu != 0 {
			if err := netlink.LinkSetMTU(link, mtu); err != nil {
				return err
			}
		}
		if err := netlink.LinkSetUp(link); err != nil {
			return err
		}
	}
	return nil
}

// features switches ethtool features; names that this kernel does not know are
// an error.
func (h *Host) features(ifName string, want map[string]bool) error {
	return h.Do(func() error {
		e, err := ethtool.NewEthtool()
		if err != nil {
			return fmt.Errorf("ethtool: %w", err)
		}
		defer e.Close()
		if err := e.Change(ifName, want); err != nil {
			return fmt.Errorf("ethtool features of %s: %w", ifName, err)
		}
		return nil
	})
}

// close is safe on a half-built host.
func (h *Host) close() error {
	h.mu.Lock()
	if h.closed {
		h.mu.Unlock()
		return nil
	}
	h.closed = true
	var running []*Cmd
	for c := range h.cmds {
		running = append(running, c)
	}
	h.mu.Unlock()
	if h.thread == nil {
		return nil
	}
	for _, c := range running {
		c.kill()
	}
	var errs []error
	if h.nl != nil {
		// Explicitly, because the kernel deletes a namespace's links some time
		// after the last reference is gone, and a stray process would hold one.
		errs = append(errs, deleteLinks(h.nl))
		h.nl.Close()
	}
	h.thread.stop()
	errs = append(errs, h.ns.Close())
	if err := netns.DeleteNamed(h.nsName); err != nil {
		errs = append(errs, fmt.Errorf("topo: delete namespace %s: %w", h.nsName, err))
	}
	return errors.Join(errs...)
}

// fillNeighbours makes every host know every other's hardware address.
func (t *Topology) fillNeighbours() error {
	for _, h := range t.hosts {
		if h.thread == nil {
			continue
		}
		link, err := h.nl.LinkByName(IfName)
		if err != nil {
			return fmt.Errorf("topo: %s: %w", h.name, err)
		}
		for _, peer := range t.hosts {
			if peer == h {
				continue
			}
			for _, addr := range []netip.Addr{peer.v4, peer.v6} {
				err := h.nl.NeighSet(&netlink.Neigh{
					LinkIndex:    link.Attrs().Index,
					State:        netlink.NUD_PERMANENT,
					IP:           addr.AsSlice(),
					HardwareAddr: peer.mac,
				})
				if err != nil {
					return fmt.Errorf("topo: %s: neighbour %s: %w", h.name, addr, err)
				}
			}
		}
	}
	return nil
}
