// SPDX-License-Identifier: Apache-2.0

package route

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	_ "github.com/softroce/softroce-xdp/internal/platform" // 64-bit Linux only
)

// kernel asks the network namespace in which it was opened, about one interface.
type kernel struct {
	index  int
	handle *netlink.Handle
	sock   *nl.NetlinkSocket // socket for requests that the library has no call for
	socks  map[int]*nl.SocketHandle
	news   *nl.NetlinkSocket

	rdma   sync.Mutex     // held by KernelRDMA, which close waits for
	ns     netns.NsHandle // the namespace
	closed bool
}

// answerTimeout is for a kernel that does not answer; it always does.
const answerTimeout = 5 * time.Second

// newsBuffer holds some thousand messages while the reader is away.
const newsBuffer = 1 << 20

// openKernel subscribes before anything is asked, so that no change is missed.
func openKernel(ifName string) (_ *kernel, _ Link, err error) {
	k := &kernel{ns: netns.None()}
	defer func() {
		if err != nil {
			k.close()
		}
	}()
	if k.news, err = nl.Subscribe(unix.NETLINK_ROUTE, unix.RTNLGRP_LINK, unix.RTNLGRP_NEIGH,
		unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV6_IFADDR,
		unix.RTNLGRP_IPV4_ROUTE, unix.RTNLGRP_IPV6_ROUTE, unix.RTNLGRP_IPV4_RULE, unix.RTNLGRP_IPV6_RULE); err != nil {
		return nil, Link{}, fmt.Errorf("netlink: %w", err)
	}
	_ = k.news.SetReceiveBufferSize(newsBuffer, true) // needs CAP_NET_ADMIN; a lost message is no harm
	if k.handle, err = netlink.NewHandle(unix.NETLINK_ROUTE); err == nil {
		err = k.handle.SetSocketTimeout(answerTimeout)
	}
	if err != nil {
		return nil, Link{}, fmt.Errorf("netlink: %w", err)
	}
	if k.sock, err = nl.GetNetlinkSocketAt(netns.None(), netns.None(), unix.NETLINK_ROUTE); err != nil {
		return nil, Link{}, fmt.Errorf("netlink: %w", err)
	}
	tv := unix.NsecToTimeval(int64(answerTimeout))
	if err = k.sock.SetReceiveTimeout(&tv); err != nil {
		return nil, Link{}, fmt.Errorf("netlink: %w", err)
	}
	k.socks = map[int]*nl.SocketHandle{unix.NETLINK_ROUTE: {Socket: k.sock}}

	l, err := k.handle.LinkByName(ifName)
	if err != nil {
		return nil, Link{}, fmt.Errorf("interface %q: %w; `ip link` lists those of this network namespace", ifName, err)
	}
	if a := l.Attrs(); a.EncapType != "ether" || len(a.HardwareAddr) != 6 {
		return nil, Link{}, fmt.Errorf("interface %q is of type %q: RoCEv2 needs Ethernet", ifName, a.EncapType)
	}
	k.index = l.Attrs().Index
	if k.ns, err = netns.Get(); err != nil {
		return nil, Link{}, fmt.Errorf("network namespace: %w", err)
	}
	return k, linkOf(l), nil
}

func (k *kernel) close() {
	k.rdma.Lock()
	defer k.rdma.Unlock()
	k.closed = true
	if k.news != nil {
		k.news.Close()
	}
	if k.handle != nil {
		k.handle.Close()
	}
	if k.sock != nil {
		k.sock.Close()
	}
	if k.ns.IsOpen() {
		k.ns.Close()
	}
}

func linkOf(l netlink.Link) Link {
	a := l.Attrs()
	link := Link{
		Name: a.Name, MTU: a.MTU,
		Up:      a.RawFlags&unix.IFF_UP != 0,
		Carrier: a.RawFlags&unix.IFF_LOWER_UP != 0,
	}
	copy(link.MAC[:], a.HardwareAddr)
	return link
}

// link returns the interface as it is now.
func (k *kernel) link() (Link, error) {
	l, err := k.handle.LinkByIndex(k.index)
	if errors.As(err, new(netlink.LinkNotFoundError)) {
		return Link{Gone: true}, nil
	}
	if err != nil {
		return Link{}, err
	}
	return linkOf(l), nil
}

// addrs returns the interface's addresses that may be used as source, IPv4 first,
// each in the kernel's order.
func (k *kernel) addrs() ([]netip.Addr, error) {
	var out []netip.Addr
	link := &netlink.Dummy{LinkAttrs: netlink.LinkAttrs{Index: k.index}} // only the index matters
	for _, family := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
		list, err := k.handle.AddrList(link, family)
		if errors.Is(err, unix.EAFNOSUPPORT) {
			continue // a kernel without IPv6
		}
		if err != nil {
			return nil, err
		}
		for _, a := range list {
			unfinished := a.Flags&unix.IFA_F_TENTATIVE != 0 && a.Flags&unix.IFA_F_OPTIMISTIC == 0
			addr, ok := netip.AddrFromSlice(a.IP)
			if addr = addr.Unmap(); ok && !unfinished && a.Flags&unix.IFA_F_DADFAILED == 0 && !slices.Contains(out, addr) {
				out = append(out, addr)
			}
		}
	}
	return out, nil
}

// hopTo is the kernel's answer to where a packet goes.
type hopTo struct {
	src, next netip.Addr
	mtu       int // 0: the link's
}

// route asks where packets to dst go if they must go through the interface. Its
// errors wrap ErrNoRoute.
func (k *kernel) route(key pathKey) (hopTo, error) {
	opts := &netlink.RouteGetOptions{OifIndex: k.index}
	if key.src.IsValid() {
		opts.SrcAddr = key.src.AsSlice()
	}
	if key.dst.Is4() {
		// Bound to an interface and without a route, IPv4 takes every destination for
		// a neighbour. Asked for the entry of the table, it admits that there is none.
		match := *opts
		match.FIBMatch = true
		if _, err := k.handle.RouteGetWithOptions(key.dst.AsSlice(), &match); err != nil {
			return hopTo{}, fmt.Errorf("%w (%w)", ErrNoRoute, err)
		}
	}
	routes, err := k.handle.RouteGetWithOptions(key.dst.AsSlice(), opts)
	if err != nil {
		return hopTo{}, fmt.Errorf("%w (%w)", ErrNoRoute, err)
	}
	if len(routes) != 1 {
		return hopTo{}, fmt.Errorf("%w: the kernel gave %d answers", ErrNoRoute, len(routes))
	}
	r := routes[0]
	switch {
	case r.Type == unix.RTN_LOCAL:
		return hopTo{}, fmt.Errorf("%w: the address is this host's, on another interface", ErrNoRoute)
	case r.Type != unix.RTN_UNICAST:
		return hopTo{}, fmt.Errorf("%w: the kernel has a route of type %d, not unicast", ErrNoRoute, r.Type)
	case r.LinkIndex != k.index:
		return hopTo{}, fmt.Errorf("%w: it leads through another interface", ErrNoRoute)
	}
	out := hopTo{src: key.src, next: key.dst, mtu: r.MTU}
	if !out.src.IsValid() {
		src, ok := netip.AddrFromSlice(r.Src)
		if !ok {
			return hopTo{}, fmt.Errorf("%w: no source address for it; give the interface one", ErrNoRoute)
		}
		out.src = src.Unmap()
	}
	if gw, ok := netip.AddrFromSlice(r.Gw); ok {
		out.next = gw.Unmap()
	} else if via, ok := r.Via.(*netlink.Via); ok {
		if gw, ok := netip.AddrFromSlice(via.Addr); ok { // IPv4 by an IPv6 gateway
			out.next = gw.Unmap()
		}
	}
	return out, nil
}

// neighbour returns the kernel's entry; the zero value if there is none.
func (k *kernel) neighbour(addr netip.Addr) (neighbour, error) {
	req := nl.NewNetlinkRequest(unix.RTM_GETNEIGH, 0)
	req.Sockets = k.socks
	req.AddData(&netlink.Ndmsg{Family: family(addr), Index: uint32(k.index)})
	req.AddData(nl.NewRtAttr(netlink.NDA_DST, addr.AsSlice()))
	msgs, err := req.Execute(unix.NETLINK_ROUTE, unix.RTM_NEWNEIGH)
	if errors.Is(err, unix.ENOENT) {
		return neighbour{}, nil
	}
	if err != nil {
		return neighbour{}, err
	}
	if len(msgs) != 1 {
		return neighbour{}, fmt.Errorf("the kernel gave %d answers", len(msgs))
	}
	_, n, err := parseNeighbour(msgs[0], false)
	return n, err
}

// parseNeighbour reads the body of an RTM_NEWNEIGH or RTM_DELNEIGH message.
func parseNeighbour(body []byte, removed bool) (*netlink.Neigh, neighbour, error) {
	m, err := netlink.NeighDeserialize(body)
	if err != nil || removed {
		return m, neighbour{}, err
	}
	n := neighbour{state: m.State}
	if len(m.HardwareAddr) != 6 {
		n.state &^= usable // nothing to send to
	}
	copy(n.mac[:], m.HardwareAddr)
	return m, n, nil
}

// use makes the kernel resolve the neighbour, or confirm it. It must not be called
// for a permanent entry, which would no longer be one.
func (k *kernel) use(addr netip.Addr) error {
	return k.handle.NeighSet(&netlink.Neigh{
		LinkIndex: k.index, Family: int(family(addr)), IP: addr.AsSlice(), Flags: netlink.NTF_USE,
	})
}

func family(a netip.Addr) uint8 {
	if a.Is4() {
		return unix.AF_INET
	}
	return unix.AF_INET6
}
