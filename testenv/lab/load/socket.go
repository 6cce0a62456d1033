// SPDX-License-Identifier: Apache-2.0

package load

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"golang.org/x/net/ipv4"
	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/rocev2"
)

const (
	udpHeaderLen  = 8
	receiveBuffer = 16 << 20
)

// headerLen is the length of the IP and UDP headers, which sockets do not show.
func headerLen(a netip.Addr) int {
	if a.Is4() {
		return 20 + udpHeaderLen
	}
	return 40 + udpHeaderLen
}

// socket is a UDP socket whose IP and UDP headers are known in advance.
type socket struct {
	conn  *net.UDPConn
	batch *ipv4.PacketConn // sendmmsg and recvmmsg work for IPv6 too
	local netip.AddrPort
}

// listen opens a socket on the address. It must stay unconnected: a connected one
// counts up the IPv4 identification, which the ICRC covers.
func listen(local netip.AddrPort, sendBuffer, tos int) (*socket, error) {
	conn, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(local))
	if err != nil {
		return nil, fmt.Errorf("load: %w", err)
	}
	raw, err := conn.SyscallConn()
	if err == nil {
		ctlErr := raw.Control(func(fd uintptr) { err = setOptions(int(fd), local.Addr().Is4(), sendBuffer, tos) })
		err = errors.Join(err, ctlErr)
	}
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("load: socket %s: %w", local, err)
	}
	return &socket{conn, ipv4.NewPacketConn(conn), conn.LocalAddr().(*net.UDPAddr).AddrPort()}, nil
}

func setOptions(fd int, v4 bool, sendBuffer, tos int) error {
	type option struct{ level, name, value int }
	opts := []option{
		{unix.SOL_SOCKET, unix.SO_NO_CHECK, 1},
		{unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DO},
		{unix.IPPROTO_IP, unix.IP_RECVERR, 1}, // ENOBUFS instead of silence when a qdisc drops
		{unix.IPPROTO_IP, unix.IP_TOS, tos},
	}
	if !v4 {
		opts = []option{
			{unix.IPPROTO_UDP, unix.UDP_NO_CHECK6_TX, 1},
			{unix.IPPROTO_UDP, unix.UDP_NO_CHECK6_RX, 1},
			{unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_DO},
			{unix.IPPROTO_IPV6, unix.IPV6_RECVERR, 1},
			{unix.IPPROTO_IPV6, unix.IPV6_TCLASS, tos},
		}
	}
	for _, o := range opts {
		if err := unix.SetsockoptInt(fd, o.level, o.name, o.value); err != nil {
			return fmt.Errorf("setsockopt(%d, %d): %w", o.level, o.name, err)
		}
	}
	// Buffers beyond the system's limit need CAP_NET_ADMIN; without it take what
	// there is.
	for _, o := range []struct{ force, plain, size int }{
		{unix.SO_RCVBUFFORCE, unix.SO_RCVBUF, receiveBuffer},
		{unix.SO_SNDBUFFORCE, unix.SO_SNDBUF, sendBuffer},
	} {
		if unix.SetsockoptInt(fd, unix.SOL_SOCKET, o.force, o.size) == nil {
			continue
		}
		if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, o.plain, o.size); err != nil {
			return fmt.Errorf("set buffer size: %w", err)
		}
	}
	return nil
}

// putHeaders writes the IP and UDP headers that a datagram of n bytes of UDP
// payload had on the wire, as far as the ICRC needs them, and returns their length.
func putHeaders(b []byte, src, dst netip.AddrPort, n int) int {
	udpLen := udpHeaderLen + n
	head := headerLen(dst.Addr())
	ip, udp := b[:head-udpHeaderLen], b[head-udpHeaderLen:head]
	clear(b[:head])
	if dst.Addr().Is4() {
		ip[0] = 0x45
		binary.BigEndian.PutUint16(ip[2:], uint16(len(ip)+udpLen))
		ip[6] = 0x40 // don't fragment
		ip[8], ip[9] = rocev2.DefaultTTL, unix.IPPROTO_UDP
		s, d := src.Addr().As4(), dst.Addr().As4()
		copy(ip[12:], s[:])
		copy(ip[16:], d[:])
	} else {
		ip[0] = 0x60
		binary.BigEndian.PutUint16(ip[4:], uint16(udpLen))
		ip[6], ip[7] = unix.IPPROTO_UDP, rocev2.DefaultTTL
		s, d := src.Addr().As16(), dst.Addr().As16()
		copy(ip[8:], s[:])
		copy(ip[24:], d[:])
	}
	binary.BigEndian.PutUint16(udp[0:], src.Port())
	binary.BigEndian.PutUint16(udp[2:], dst.Port())
	binary.BigEndian.PutUint16(udp[4:], uint16(udpLen))
	return head
}

// unmap is AddrPort with IPv4 addresses as such.
func unmap(a netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(a.Addr().Unmap().WithZone(""), a.Port())
}

// batchSize is the number of packets per system call.
const batchSize = 32

// outbox collects datagrams for one sendmmsg. Its buffers are allocated once.
type outbox struct {
	bufs [batchSize][]byte
	msgs [batchSize]ipv4.Message
	n    int
}

func newOutbox(packet int) *outbox {
	o := &outbox{}
	slab := make([]byte, batchSize*packet)
	for i := range o.bufs {
		o.bufs[i] = slab[i*packet : i*packet : (i+1)*packet]
		o.msgs[i].Buffers = make([][]byte, 1)
	}
	return o
}

func (o *outbox) full() bool { return o.n == batchSize }

// add builds a packet for the address.
func (o *outbox) add(d *rocev2.Datagram, to *net.UDPAddr) ([]byte, error) {
	b, err := d.AppendTo(o.bufs[o.n])
	if err != nil {
		return nil, fmt.Errorf("load: build %s: %w", d.Opcode, err)
	}
	m := &o.msgs[o.n]
	m.Buffers[0], m.Addr = b[headerLen(d.Dst):], to
	o.n++
	return b, nil
}

// flush sends everything. It blocks while the socket's buffer is full, and returns
// how many packets the kernel took before an error.
func (o *outbox) flush(s *socket) (sent int, err error) {
	for sent < o.n {
		n, err := s.batch.WriteBatch(o.msgs[sent:o.n], 0)
		if errors.Is(err, unix.ECONNREFUSED) || errors.Is(err, unix.EHOSTUNREACH) {
			// An ICMP error about an earlier packet, reported once. Whether anyone
			// listens there shows in the ACKs, or their absence.
			continue
		}
		if err != nil {
			o.n = 0
			return sent, err
		}
		sent += n
	}
	o.n = 0
	return sent, nil
}
