// SPDX-License-Identifier: Apache-2.0

package topo

import (
	"fmt"
	"net"

	"github.com/vishvananda/netlink"
)

// CableSpec describes a second link of two hosts.
type CableSpec struct {
	Name   string // name of the interface in both hosts
	MTU    int    // 0 means 1500
	Queues int    // receive and transmit queues of each end; 0 means 1
}

// CableEnd is one end of a cable.
type CableEnd struct {
	Host  *Host
	Name  string
	Index int
	MAC   net.HardwareAddr
}

// Cable joins two hosts by a veth pair of their own, past the switch: what one
// end sends on queue i the other receives on queue i. The ends are up, without IP
// addresses, and take XDP_REDIRECT from each other. They go with the hosts.
func Cable(a, b *Host, spec CableSpec) (ends [2]CableEnd, err error) {
	if spec.MTU == 0 {
		spec.MTU = 1500
	}
	if spec.Queues == 0 {
		spec.Queues = 1
	}
	return veth([2]*Host{a, b}, [2]string{spec.Name, spec.Name}, [2]net.HardwareAddr{cableMAC(1), cableMAC(2)}, spec)
}

// cableMAC is the address of the n-th end of a cable.
func cableMAC(n byte) net.HardwareAddr { return net.HardwareAddr{0x02, 0x53, 0x52, 0xca, 0, n} }

// veth makes the pair of a cable, by the names of its ends.
func veth(hosts [2]*Host, names [2]string, macs [2]net.HardwareAddr, spec CableSpec) (ends [2]CableEnd, err error) {
	a, b := hosts[0], hosts[1]
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU, attrs.HardwareAddr = names[0], spec.MTU, macs[0]
	attrs.NumTxQueues, attrs.NumRxQueues = spec.Queues, spec.Queues
	err = a.nl.LinkAdd(&netlink.Veth{
		LinkAttrs: attrs, PeerName: names[1], PeerMTU: uint32(spec.MTU), PeerHardwareAddr: macs[1],
		PeerNumTxQueues: uint32(spec.Queues), PeerNumRxQueues: uint32(spec.Queues),
		PeerNamespace: netlink.NsFd(b.ns),
	})
	if err != nil {
		return ends, fmt.Errorf("topo: cable %s: %w", spec.Name, err)
	}
	for i, h := range hosts {
		if err := h.Sysctl("net/ipv6/conf/"+names[i]+"/disable_ipv6", "1"); err != nil {
			return ends, err
		}
		if err := h.features(names[i], inOrder); err != nil {
			return ends, fmt.Errorf("topo: cable: %w", err)
		}
		l, err := h.nl.LinkByName(names[i])
		if err == nil {
			err = h.nl.LinkSetUp(l)
		}
		if err != nil {
			return ends, fmt.Errorf("topo: cable %s in %s: %w", names[i], h.name, err)
		}
		ends[i] = CableEnd{Host: h, Name: names[i], Index: l.Attrs().Index, MAC: macs[i]}
	}
	for i, h := range hosts {
		if err := waitUp(h, names[i]); err != nil {
			return ends, fmt.Errorf("topo: cable: %w", err)
		}
	}
	return ends, nil
}

// SwitchedCable is Cable over a switch of its own, in the namespace of the topology's switch. The port of the
// n-th host there has the name of the cable and n; its link is cut by Cut.
func (t *Topology) SwitchedCable(spec CableSpec) (ends [2]CableEnd, err error) {
	if spec.MTU == 0 {
		spec.MTU = 1500
	}
	if spec.Queues == 0 {
		spec.Queues = 1
	}
	snooping := false
	name := "br-" + spec.Name
	if err := t.sw.nl.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: name, MTU: spec.MTU}, MulticastSnooping: &snooping}); err != nil {
		return ends, fmt.Errorf("topo: add bridge: %w", err)
	}
	bridge, err := t.sw.nl.LinkByName(name)
	if err == nil {
		err = t.sw.nl.LinkSetUp(bridge)
	}
	if err != nil {
		return ends, fmt.Errorf("topo: bridge up: %w", err)
	}
	for i := range ends {
		n := byte(i + 1)
		port := fmt.Sprint(spec.Name, "-", n)
		pair, err := veth([2]*Host{t.Host(i + 1), t.sw}, [2]string{spec.Name, port}, [2]net.HardwareAddr{cableMAC(n), cableMAC(n + 2)}, spec)
		if err != nil {
			return ends, err
		}
		if err := t.Cut(name, port, false); err != nil {
			return ends, err
		}
		ends[i] = pair[0]
	}
	return ends, nil
}

// Cut takes a port out of a bridge of the switch, or puts it in. The carrier stays.
func (t *Topology) Cut(bridge, port string, cut bool) error {
	l, err := t.sw.nl.LinkByName(port)
	if err != nil {
		return fmt.Errorf("topo: port %s: %w", port, err)
	}
	if cut {
		return t.sw.nl.LinkSetNoMaster(l)
	}
	b, err := t.sw.nl.LinkByName(bridge)
	if err != nil {
		return fmt.Errorf("topo: bridge %s: %w", bridge, err)
	}
	return t.sw.nl.LinkSetMaster(l, b)
}
