// SPDX-License-Identifier: Apache-2.0

package engines

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"

	"github.com/softroce/softroce-xdp/loader"
	"github.com/softroce/softroce-xdp/loader/engine"
	"github.com/softroce/softroce-xdp/rocev2/nic"
	"github.com/softroce/softroce-xdp/testenv/lab/topo"
)

// RailName is the second interface of hosts that have two.
const RailName = "rail1"

// Rails are two hosts whose engines have two interfaces each: eth0, past the switch, and rail1, past
// another one.
type Rails struct {
	Hosts  []*Host
	Second [2]netip.Addr // addresses of rail1
	top    *topo.Topology
}

// AttachRail gives two attached hosts rail1, attaches it with these flags, and opens their engines on both
// interfaces. detach takes rail1 and the engines back, also where AttachRail has failed; it comes before
// that of Attach.
func AttachRail(top *topo.Topology, hosts []*Host, flags ...string) (r *Rails, detach func() error, err error) {
	r = &Rails{Hosts: hosts, top: top}
	var attached []*Host
	detach = func() error {
		errs := []error{Close(hosts)}
		for _, h := range attached {
			if out, err := h.Product("detach", RailName); err != nil {
				errs = append(errs, fmt.Errorf("%s: %w\n%s", h.Name(), err, out))
			}
		}
		return errors.Join(errs...)
	}
	ends, err := top.SwitchedCable(topo.CableSpec{Name: RailName})
	if err != nil {
		return r, detach, err
	}
	for i, h := range hosts {
		r.Second[i] = netip.AddrFrom4([4]byte{10, 54, 0, byte(i + 1)})
		link, err := h.Netlink().LinkByIndex(ends[i].Index)
		if err != nil {
			return r, detach, err
		}
		if err := h.Netlink().AddrAdd(link, &netlink.Addr{IPNet: &net.IPNet{IP: r.Second[i].AsSlice(), Mask: net.CIDRMask(24, 32)}}); err != nil {
			return r, detach, err
		}
		if out, err := h.Product(append([]string{"attach", RailName}, flags...)...); err != nil {
			return r, detach, fmt.Errorf("%s: %w\n%s", h.Name(), err, out)
		}
		attached = append(attached, h)
		if err := h.Do(func() (err error) {
			h.Dev, err = engine.OpenRails(topo.IfName, []string{RailName}, h.LoaderOptions(), nic.Options{})
			return err
		}); err != nil {
			return r, detach, err
		}
	}
	return r, detach, nil
}

// Cut ends or restores what the first (0) or the second (1) interfaces of the hosts carry. The carrier stays.
func (r *Rails) Cut(rail int, cut bool) error {
	if rail == 0 {
		return r.top.Cut("br0", r.top.Host(2).Port().Name(), cut)
	}
	return r.top.Cut("br-"+RailName, RailName+"-2", cut)
}

// Sent is what host 0 has sent to host 1 by an interface: packets of RoCEv2, the bytes of their frames as the
// pacer counts them, without FCS and stamp, and the rate in bit/s.
type Sent struct{ Packets, Bytes, Rate uint64 }

// Sent reads the entry of the destination on an interface.
func (r *Rails) Sent(rail int) (s Sent, err error) {
	name, to := topo.IfName, r.Hosts[1].IPv4()
	if rail == 1 {
		name, to = RailName, r.Second[1]
	}
	a, err := loader.Open(name, r.Hosts[0].LoaderOptions())
	if err != nil {
		return s, err
	}
	defer a.Close()
	row, found, err := a.Lookup(to)
	if err != nil || !found {
		return s, errors.Join(err, fmt.Errorf("%s has no destination %s", name, to))
	}
	const ethernet = 14
	return Sent{row.Regs.TxPackets, row.Regs.TxBytes + ethernet*row.Regs.TxPackets, row.Regs.RateBps}, nil
}
