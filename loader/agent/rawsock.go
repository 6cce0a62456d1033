// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/loader"
	"github.com/softroce/softroce-xdp/rocev2"
)

// rawSockets send whole IP datagrams through one interface: the ICRC covers the IP header,
// so the agent builds it. The kernel still finds the route and the neighbour. The sockets are
// bound by the index of the interface, which a change of its name does not change.
type rawSockets struct {
	ifindex  int
	fd4, fd6 int // fd6 is -1 without IPv6
	routes   routes
}

func openRawSockets(ifindex int) (*rawSockets, error) {
	s := &rawSockets{ifindex: ifindex, fd6: -1}
	var err error
	if s.fd4, err = rawSocket(unix.AF_INET, ifindex); err != nil {
		return nil, err
	}
	if s.fd6, err = rawSocket(unix.AF_INET6, ifindex); err != nil && !errors.Is(err, unix.EAFNOSUPPORT) {
		s.close()
		return nil, err
	}
	return s, nil
}

func rawSocket(family, ifindex int) (int, error) {
	fd, err := unix.Socket(family, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.IPPROTO_RAW)
	if err != nil {
		return -1, fmt.Errorf("raw socket for HELLO: %w", err)
	}
	if err := bindToInterface(fd, ifindex); err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("bind the HELLO socket to interface %d: %w", ifindex, err)
	}
	return fd, nil
}

func bindToInterface(fd, ifindex int) error {
	return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_BINDTOIFINDEX, ifindex)
}

func (s *rawSockets) close() {
	for _, fd := range []int{s.fd4, s.fd6} {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
}

// send sends a control packet to the peer. A zero src is the address from which the route leads
// there.
func (s *rawSockets) send(src, peer netip.Addr, build packetBuilder) (err error) {
	if !src.IsValid() {
		if src, err = s.routes.get(peer, loader.Monotonic(), s.source); err != nil {
			return err
		}
	}
	var buf [rocev2.MaxHelloLen]byte
	n, err := build(buf[:], src, peer)
	if err != nil {
		return err
	}
	if peer.Is4() {
		return unix.Sendto(s.fd4, buf[:n], 0, &unix.SockaddrInet4{Addr: peer.As4()})
	}
	return unix.Sendto(s.fd6, buf[:n], 0, &unix.SockaddrInet6{Addr: peer.As16()})
}

// source returns the address from which this host sends to the peer through the
// interface. A connected socket knows it, at a fraction of the cost of a netlink request.
func (s *rawSockets) source(peer netip.Addr) (src netip.Addr, err error) {
	err = s.connected(peer, func(fd int) error {
		sa, err := unix.Getsockname(fd)
		if err != nil {
			return err
		}
		switch sa := sa.(type) {
		case *unix.SockaddrInet4:
			src = netip.AddrFrom4(sa.Addr)
		case *unix.SockaddrInet6:
			src = netip.AddrFrom16(sa.Addr)
		default:
			return errors.New("it has none")
		}
		return nil
	})
	if err != nil {
		return netip.Addr{}, fmt.Errorf("source address: %w", err)
	}
	return src, nil
}

// pathMTU returns the MTU of the path to the peer in bytes of IP, as the kernel knows it from the route and
// from ICMP; 0 if it does not.
func (s *rawSockets) pathMTU(peer netip.Addr) (mtu int) {
	level, option := unix.IPPROTO_IPV6, unix.IPV6_MTU
	if peer.Is4() {
		level, option = unix.IPPROTO_IP, unix.IP_MTU
	}
	if s.connected(peer, func(fd int) (err error) {
		mtu, err = unix.GetsockoptInt(fd, level, option)
		return err
	}) != nil {
		return 0
	}
	return mtu
}

// connected calls use with a UDP socket of the interface that is connected to the peer.
func (s *rawSockets) connected(peer netip.Addr, use func(fd int) error) error {
	family, to := unix.AF_INET6, unix.Sockaddr(&unix.SockaddrInet6{Addr: peer.As16(), Port: rocev2.UDPPort})
	if peer.Is4() {
		family, to = unix.AF_INET, &unix.SockaddrInet4{Addr: peer.As4(), Port: rocev2.UDPPort}
	}
	fd, err := unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := bindToInterface(fd, s.ifindex); err != nil {
		return err
	}
	if err := unix.Connect(fd, to); err != nil {
		return fmt.Errorf("not reached through interface %d: %w", s.ifindex, err)
	}
	return use(fd)
}

// routes caches for a second the address from which this host sends to each peer. To ask
// the kernel costs as much as to send, and some peers get an ECHO every few milliseconds.
type routes struct {
	of    map[netip.Addr]netip.Addr
	since uint64 // monotonic ns
}

const sourceTime = uint64(time.Second)

func (s *routes) get(peer netip.Addr, now uint64, ask func(netip.Addr) (netip.Addr, error)) (src netip.Addr, err error) {
	if s.of == nil || now-s.since > sourceTime {
		s.of, s.since = map[netip.Addr]netip.Addr{}, now
	}
	src, known := s.of[peer]
	if !known {
		if src, err = ask(peer); err == nil {
			s.of[peer] = src
		}
	}
	return src, err
}
