// SPDX-License-Identifier: Apache-2.0

// Package topo builds small networks out of network namespaces: hosts, one
// switch that joins them, and a bottleneck per link.
//
//	h1 [eth0]──veth──[port1]┐
//	h2 [eth0]──veth──[port2]┼ bridge "br0" in the switch's namespace
//	h3 [eth0]──veth──[port3]┘
//
// A bottleneck is a TBF on the switch's port, so it shapes what travels towards
// the host and its queue is where congestion builds. The namespaces are visible
// to `ip netns`; nothing is ever created in the namespace of the caller. The
// package needs root (CAP_NET_ADMIN and CAP_SYS_ADMIN).
package topo

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/vishvananda/netlink"
)

// Spec describes a topology. The zero value of every field is usable, except
// that there must be at least one host.
type Spec struct {
	Hosts []HostSpec

	// MTU of every link in bytes of IP; 0 means 1500.
	MTU int

	// StaticNeighbours fills every host's neighbour tables, so that neither ARP
	// nor neighbour discovery appears on the wire.
	StaticNeighbours bool
}

// HostSpec describes one host and its link to the switch.
type HostSpec struct {
	// Name must be unique in the topology; empty means h1, h2, ...
	Name string

	// MTU overrides Spec.MTU for this link.
	MTU int

	// Bottleneck of the direction switch -> host; nil means none.
	Bottleneck *Bottleneck

	// NoOffload leaves no checksum and no segmentation to the device, so that what
	// crosses the veth looks like what crosses a cable. Without it the kernel leaves
	// TCP and UDP checksums partial. TCP segmentation is off in any case.
	NoOffload bool

	// Tap makes the link a tap device in the switch's namespace instead of a veth
	// pair: the host is a virtual machine, started with Switch().Command and
	// Host.Port().Name() as its tap. Do and Command then fail.
	Tap bool
}

// Hosts returns n default hosts, for Spec.Hosts.
func Hosts(n int) []HostSpec { return make([]HostSpec, n) }

// Topology is a running network. Close takes it down.
type Topology struct {
	hosts []*Host
	sw    *Host
	close sync.Once
	err   error
}

// serial makes names unique within the process.
var serial atomic.Int64

// New builds a topology. Namespaces of processes that died without closing
// theirs are removed on the way.
func New(spec Spec) (_ *Topology, err error) {
	if err := spec.check(); err != nil {
		return nil, err
	}
	if os.Geteuid() != 0 {
		return nil, errors.New("topo: building network namespaces needs root; run with sudo")
	}
	if err := prepareDir(); err != nil {
		return nil, err
	}
	// What resists being swept does not stand in our way: names are unique.
	_ = Sweep()
	prefix := fmt.Sprintf("%s%d-%d-", namePrefix, os.Getpid(), serial.Add(1))

	t := &Topology{}
	defer func() {
		if err != nil {
			err = errors.Join(err, t.Close())
		}
	}()
	if t.sw, err = newSwitch(prefix + "switch"); err != nil {
		return nil, err
	}
	for i, hs := range spec.Hosts {
		h, err := t.newHost(prefix, i+1, hs)
		if err != nil {
			return nil, fmt.Errorf("topo: host %s: %w", hs.Name, err)
		}
		t.hosts = append(t.hosts, h)
	}
	if spec.StaticNeighbours {
		if err := t.fillNeighbours(); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// check validates the spec and fills in defaults.
func (s *Spec) check() error {
	if len(s.Hosts) == 0 || len(s.Hosts) > 1000 {
		return fmt.Errorf("topo: %d hosts; a topology has 1 to 1000", len(s.Hosts))
	}
	if s.MTU == 0 {
		s.MTU = 1500
	}
	s.Hosts = append([]HostSpec(nil), s.Hosts...)
	seen := map[string]bool{"switch": true}
	for i := range s.Hosts {
		h := &s.Hosts[i]
		if h.Name == "" {
			h.Name = fmt.Sprintf("h%d", i+1)
		}
		if !validName(h.Name) {
			return fmt.Errorf("topo: host name %q: use 1 to 32 of a-z, A-Z, 0-9, '_'", h.Name)
		}
		if seen[h.Name] {
			return fmt.Errorf("topo: host name %q is taken; names are unique and \"switch\" is reserved", h.Name)
		}
		seen[h.Name] = true
		if h.MTU == 0 {
			h.MTU = s.MTU
		}
		if h.MTU < 1280 || h.MTU > 65535 {
			return fmt.Errorf("topo: host %s: MTU %d; IPv6 needs 1280, a veth carries at most 65535", h.Name, h.MTU)
		}
		if h.Bottleneck != nil {
			if err := h.Bottleneck.check(h.MTU); err != nil {
				return fmt.Errorf("topo: host %s: %w", h.Name, err)
			}
		}
	}
	return nil
}

func validName(s string) bool {
	for _, c := range s {
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_') {
			return false
		}
	}
	return len(s) > 0 && len(s) <= 32
}

// Hosts returns the hosts in the order of the spec.
func (t *Topology) Hosts() []*Host { return t.hosts }

// Host returns host i, counted from 1 as in its default name, address and port.
func (t *Topology) Host(i int) *Host { return t.hosts[i-1] }

// Switch returns the switch: a host without addresses whose namespace holds the
// bridge and every port.
func (t *Topology) Switch() *Host { return t.sw }

// Close kills what Command started, deletes every link and namespace, and
// returns what went wrong with that. Later calls return the same.
func (t *Topology) Close() error {
	t.close.Do(func() {
		var errs []error
		for _, h := range t.hosts {
			errs = append(errs, h.close())
		}
		if t.sw != nil {
			errs = append(errs, t.sw.close())
		}
		t.err = errors.Join(errs...)
	})
	return t.err
}

const bridgeName = "br0"

func newSwitch(nsName string) (_ *Host, err error) {
	sw, err := newNamespaceHost("switch", nsName)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, sw.close())
		}
	}()
	// The switch forwards frames and speaks no IP: no router solicitations, no
	// multicast reports, no iptables hooks for bridged packets (a module, if at all).
	for key, value := range map[string]string{
		"net/ipv6/conf/all/disable_ipv6":      "1",
		"net/ipv6/conf/default/disable_ipv6":  "1",
		"net/bridge/bridge-nf-call-iptables":  "0",
		"net/bridge/bridge-nf-call-ip6tables": "0",
		"net/bridge/bridge-nf-call-arptables": "0",
	} {
		err := sw.Sysctl(key, value)
		if err != nil && !(errors.Is(err, fs.ErrNotExist) && strings.HasPrefix(key, "net/bridge/")) {
			return nil, err
		}
	}
	snooping := false
	bridge := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: bridgeName}, MulticastSnooping: &snooping}
	if err := sw.nl.LinkAdd(bridge); err != nil {
		return nil, fmt.Errorf("topo: add bridge: %w", err)
	}
	if err := sw.nl.LinkSetUp(bridge); err != nil {
		return nil, fmt.Errorf("topo: bridge up: %w", err)
	}
	return sw, nil
}

func (t *Topology) newHost(prefix string, index int, hs HostSpec) (_ *Host, err error) {
	var h *Host
	if hs.Tap {
		h = &Host{name: hs.Name}
	} else if h, err = newNamespaceHost(hs.Name, prefix+hs.Name); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, h.close())
		}
	}()
	h.mtu = hs.MTU
	h.mac = net.HardwareAddr{0x02, 0x53, 0x52, 0, byte(index >> 8), byte(index)}
	h.v4 = netip.AddrFrom4([4]byte{10, 53, byte(index >> 8), byte(index)})
	v6 := netip.MustParseAddr("fd53:52::").As16()
	v6[14], v6[15] = byte(index>>8), byte(index)
	h.v6 = netip.AddrFrom16(v6)

	if h.port, err = t.addPort(fmt.Sprintf("port%d", index), h, hs); err != nil {
		return nil, err
	}
	if !hs.Tap {
		if err := h.configure(hs); err != nil {
			return nil, err
		}
	}
	return h, h.port.plug(h)
}
