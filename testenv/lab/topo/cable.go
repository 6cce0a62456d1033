// SPDX-License-Identifier: Apache-2.0

package topo

import (
	"fmt"
	"net"

	"github.com/vishvananda/netlink"
)

// CableSpec describes a second link of two hosts.
type CableSpec struct {
	Name   string // of the interface in both hosts
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
	macs := [2]net.HardwareAddr{{0x02, 0x53, 0x52, 0xca, 0, 1}, {0x02, 0x53, 0x52, 0xca, 0, 2}}
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU, attrs.HardwareAddr = spec.Name, spec.MTU, macs[0]
	attrs.NumTxQueues, attrs.NumRxQueues = spec.Queues, spec.Queues
	err = a.nl.LinkAdd(&netlink.Veth{
		LinkAttrs: attrs, PeerName: spec.Name, PeerMTU: uint32(spec.MTU), PeerHardwareAddr: macs[1],
		PeerNumTxQueues: uint32(spec.Queues), PeerNumRxQueues: uint32(spec.Queues),
		PeerNamespace: netlink.NsFd(b.ns),
	})
	if err != nil {
		return ends, fmt.Errorf("topo: cable %s: %w", spec.Name, err)
	}
	for i, h := range []*Host{a, b} {
		if err := h.Sysctl("net/ipv6/conf/"+spec.Name+"/disable_ipv6", "1"); err != nil {
			return ends, err
		}
		if err := h.features(spec.Name, inOrder); err != nil {
			return ends, fmt.Errorf("topo: cable: %w", err)
		}
		l, err := h.nl.LinkByName(spec.Name)
		if err == nil {
			err = h.nl.LinkSetUp(l)
		}
		if err != nil {
			return ends, fmt.Errorf("topo: cable %s in %s: %w", spec.Name, h.name, err)
		}
		ends[i] = CableEnd{Host: h, Name: spec.Name, Index: l.Attrs().Index, MAC: macs[i]}
	}
	for _, h := range []*Host{a, b} {
		if err := waitUp(h, spec.Name); err != nil {
			return ends, fmt.Errorf("topo: cable: %w", err)
		}
	}
	return ends, nil
}
