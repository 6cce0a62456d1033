// SPDX-License-Identifier: Apache-2.0

// Package cardside makes the model of the card, with the driver of package queue, one side of
// package oracle. The model's ports are packet sockets on interfaces.
package cardside

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/hwoffload"
	"github.com/softroce/softroce-xdp/hwoffload/card"
	"github.com/softroce/softroce-xdp/hwoffload/card/wire"
	"github.com/softroce/softroce-xdp/hwoffload/queue"
	"github.com/softroce/softroce-xdp/hwoffload/regs"
	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/testenv/lab/rxepeer"
	"github.com/softroce/softroce-xdp/testenv/oracle"
)

// Side is a model of a card. Close it before the hosts of its interfaces.
type Side struct {
	Model *card.Model

	name    string
	addrs   []netip.Addr
	card    *hwoffload.Card
	dev     *queue.Device
	running *card.Running
	sink    []net.PacketConn

	mu       sync.Mutex
	srqs     map[*sharedQueue]bool
	pages    []uint64 // free pages of card memory
	nextPage uint64
}

var _ oracle.Hub = (*Side)(nil)

// Memory of the card: rings first, then pages of regions.
const (
	ringBytes = 64 << 20
	firstPage = 1 << 30
)

// Port is what a port of a card is connected to.
type Port struct {
	Iface string
	MAC   net.HardwareAddr
	Do    func(func() error) error        // has a function run in the namespace of Iface
	Peers map[netip.Addr]net.HardwareAddr // whom the port leads to
}

// Attach has a new model send and receive on eth0 of the host. macs are the Ethernet addresses of
// the peers.
func Attach(host *rxepeer.Host, macs map[netip.Addr]net.HardwareAddr) (*Side, error) {
	var addrs []netip.Addr
	for _, p := range host.Config.Addrs {
		addrs = append(addrs, p.Addr())
	}
	return New(host.Config.Name, addrs, Port{Iface: rxepeer.HostIface, MAC: host.Config.MAC, Do: host.Do, Peers: macs})
}

// New has a new model with these addresses send and receive on one to four ports. Only the
// namespace of port 0 may have the addresses too.
func New(name string, addrs []netip.Addr, ports ...Port) (*Side, error) {
	s := &Side{Model: card.New(), name: name, addrs: addrs, srqs: map[*sharedQueue]bool{}, nextPage: firstPage}
	var err error
	if s.card, err = hwoffload.Open(s.Model); err != nil {
		return nil, err
	}
	s.dev, err = queue.New(s.card, queue.Config{Bytes: ringBytes, Resolve: func(dst netip.Addr) (queue.Hop, error) {
		for i, p := range ports {
			if mac := p.Peers[dst]; len(mac) == 6 {
				return queue.Hop{MAC: [6]byte(mac), Port: i}, nil
			}
		}
		return queue.Hop{}, fmt.Errorf("there is no peer %v", dst)
	}})
	if err != nil {
		return nil, err
	}
	var wires [regs.PortsCount]card.Wire
	for i, p := range ports {
		if err = s.dev.SetPort(i, [6]byte(p.MAC)); err != nil {
			break
		}
		if err = p.Do(func() (err error) {
			if i == 0 {
				err = s.listen()
			}
			if err == nil {
				wires[i], err = wire.Ethernet(p.Iface)
			}
			return err
		}); err != nil {
			break
		}
	}
	s.running = card.Start(s.Model, wires)
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// listen binds port 4791 so that the kernel, which has the same addresses, does not refuse RoCEv2
// packets by ICMP.
func (s *Side) listen() error {
	for _, network := range []string{"udp4", "udp6"} {
		c, err := net.ListenPacket(network, fmt.Sprintf(":%d", rocev2.UDPPort))
		if err != nil {
			return err
		}
		s.sink = append(s.sink, c)
		raw, err := c.(*net.UDPConn).SyscallConn()
		if err != nil {
			return err
		}
		err = raw.Control(func(fd uintptr) { // what arrives is dropped soon
			_ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, 1)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Close stops the model.
func (s *Side) Close() error {
	var errs []error
	if s.running != nil {
		errs = append(errs, s.running.Close())
	}
	for _, c := range s.sink {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

// Name is the host's.
func (s *Side) Name() string { return s.name }

// Addr is the first address of a family.
func (s *Side) Addr(v6 bool) (netip.Addr, error) {
	for _, a := range s.addrs {
		if a.Is6() == v6 {
			return a, nil
		}
	}
	return netip.Addr{}, fmt.Errorf("%s has no address of the family (IPv6: %v)", s.Name(), v6)
}
