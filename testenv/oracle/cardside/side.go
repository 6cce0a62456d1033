// SPDX-License-Identifier: Apache-2.0

// Package cardside makes the model of the card, with the driver of package queue, one side of
// package oracle. The model's port 0 is a packet socket on the interface of a host.
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

// Side is a model of a card on a host. Close it before the host.
type Side struct {
	Model *card.Model

	host    *rxepeer.Host
	card    *hwoffload.Card
	dev     *queue.Device
	running *card.Running
	sink    []net.PacketConn

	mu       sync.Mutex
	srqs     map[*sharedQueue]bool
	pages    []uint64 // free pages of card memory
	nextPage uint64
}

var _ oracle.Side = (*Side)(nil)

// Memory of the card: rings first, then pages of regions.
const (
	ringBytes = 64 << 20
	firstPage = 1 << 30
)

// Attach has a new model send and receive on eth0 of the host. macs are the Ethernet addresses of
// the peers.
func Attach(host *rxepeer.Host, macs map[netip.Addr]net.HardwareAddr) (*Side, error) {
	s := &Side{Model: card.New(), host: host, srqs: map[*sharedQueue]bool{}, nextPage: firstPage}
	var err error
	if s.card, err = hwoffload.Open(s.Model); err != nil {
		return nil, err
	}
	s.dev, err = queue.New(s.card, queue.Config{Bytes: ringBytes, Resolve: func(dst netip.Addr) (queue.Hop, error) {
		mac, ok := macs[dst]
		if !ok || len(mac) != 6 {
			return queue.Hop{}, fmt.Errorf("there is no peer %v", dst)
		}
		return queue.Hop{MAC: [6]byte(mac)}, nil
	}})
	if err != nil {
		return nil, err
	}
	if err := s.dev.SetPort(0, [6]byte(host.Config.MAC)); err != nil {
		return nil, err
	}
	var w card.Wire
	if err := host.Do(func() (err error) {
		w, err = wire.Ethernet(rxepeer.HostIface)
		return errors.Join(err, s.listen())
	}); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	s.running = card.Start(s.Model, [regs.PortsCount]card.Wire{w})
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
func (s *Side) Name() string { return s.host.Config.Name }

// Addr is the host's first address of a family.
func (s *Side) Addr(v6 bool) (netip.Addr, error) {
	for _, p := range s.host.Config.Addrs {
		if p.Addr().Is6() == v6 {
			return p.Addr(), nil
		}
	}
	return netip.Addr{}, fmt.Errorf("%s has no address of the family (IPv6: %v)", s.Name(), v6)
}
