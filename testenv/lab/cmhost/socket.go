// SPDX-License-Identifier: Apache-2.0

package cmhost

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/testenv/lab/rxepeer"
)

// open opens the sockets; it runs in the namespace of the host.
func (h *Host) open(host *rxepeer.Host) error {
	link, err := net.InterfaceByName(rxepeer.HostIface)
	if err != nil {
		return fmt.Errorf("cmhost: %w", err)
	}
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return fmt.Errorf("cmhost: packet socket: %w", err)
	}
	h.packets = os.NewFile(uintptr(fd), "packet socket")
	all := binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, unix.ETH_P_ALL))
	if err := unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: link.Index}); err != nil {
		return fmt.Errorf("cmhost: packet socket on %s: %w", link.Name, err)
	}
	for _, p := range host.Config.Addrs {
		if h.sockets[p.Addr()], err = udpSocket(p.Addr()); err != nil {
			return err
		}
	}
	return nil
}

// udpSocket opens a socket whose datagrams have no UDP checksum and, with IPv4, an identification
// of 0, which the ICRC covers.
func udpSocket(a netip.Addr) (*net.UDPConn, error) {
	conn, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(a, rocev2.UDPPort)))
	if err != nil {
		return nil, fmt.Errorf("cmhost: %w", err)
	}
	options := [][3]int{
		{unix.SOL_SOCKET, unix.SO_NO_CHECK, 1},
		{unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DO},
	}
	if a.Is6() {
		options = [][3]int{{unix.IPPROTO_UDP, unix.UDP_NO_CHECK6_TX, 1}, {unix.IPPROTO_UDP, unix.UDP_NO_CHECK6_RX, 1}}
	}
	raw, err := conn.SyscallConn()
	if err == nil {
		var errs []error
		err = raw.Control(func(fd uintptr) {
			for _, o := range options {
				errs = append(errs, unix.SetsockoptInt(int(fd), o[0], o[1], o[2]))
			}
		})
		err = errors.Join(append(errs, err)...)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("cmhost: socket %s: %w", a, err), conn.Close())
	}
	return conn, nil
}

func (h *Host) closeSockets() error {
	var errs []error
	if h.packets != nil {
		errs = append(errs, h.packets.Close())
	}
	for _, s := range h.sockets {
		if s != nil {
			errs = append(errs, s.Close())
		}
	}
	return errors.Join(errs...)
}
