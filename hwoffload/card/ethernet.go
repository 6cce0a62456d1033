// SPDX-License-Identifier: Apache-2.0

package card

import (
	"errors"
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// ethernet is a packet socket on an interface.
type ethernet struct{ f *os.File }

// Ethernet connects a port to an Ethernet interface of this network namespace. It needs CAP_NET_RAW.
// The kernel receives the same frames: if it has the port's IP address too, it answers to ARP and
// neighbour discovery for the card, and a UDP socket must be bound to port 4791 so that the kernel
// does not refuse RoCEv2 packets by ICMP.
func Ethernet(iface string) (Wire, error) {
	w, err := openEthernet(iface)
	if err != nil {
		return nil, fmt.Errorf("wire: %s: %w", iface, err)
	}
	return w, nil
}

func openEthernet(iface string) (*ethernet, error) {
	i, err := net.InterfaceByName(iface)
	if err != nil {
		return nil, err
	}
	all := uint16(unix.ETH_P_ALL)<<8 | uint16(unix.ETH_P_ALL)>>8 // network byte order
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("packet socket: %w", err)
	}
	// Buffers for a few thousand packets; the kernel may grant less.
	const buffer = 16 << 20
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, buffer)
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, buffer)
	err = errors.Join(
		unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1),
		unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: i.Index}),
	)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("packet socket: %w", err), unix.Close(fd))
	}
	return &ethernet{os.NewFile(uintptr(fd), "packet socket of "+iface)}, nil
}

// Send implements Wire.
func (e *ethernet) Send(frame []byte) error {
	_, err := e.f.Write(frame)
	return err
}

// Receive implements Wire. The socket reports once that the interface has gone down, and
// receives again when it is up.
func (e *ethernet) Receive(buf []byte) (int, error) {
	for {
		n, err := e.f.Read(buf)
		if !errors.Is(err, unix.ENETDOWN) {
			return n, err
		}
	}
}

// Close implements Wire.
func (e *ethernet) Close() error { return e.f.Close() }
