// SPDX-License-Identifier: Apache-2.0

package sides

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/hwoffload"
	"github.com/softroce/softroce-xdp/hwoffload/card"
	"github.com/softroce/softroce-xdp/hwoffload/driver"
	"github.com/softroce/softroce-xdp/hwoffload/regs"
	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/testenv/lab/rxepeer"
	"github.com/softroce/softroce-xdp/testenv/oracle"
)

// Side is a model of a card with its driver (hwoffload/driver). The model's ports are packet sockets on
// interfaces. Close it before their hosts.
type Side struct {
	*Device
	Model *card.Model

	card    *hwoffload.Card
	dev     *driver.Device
	running *card.Running
	sink    []net.PacketConn
}

var _ oracle.Hub = (*Side)(nil)

const ringBytes = 64 << 20

// Port is what a port of a card is connected to.
type Port struct {
	Iface string
	MAC   net.HardwareAddr
	Do    func(func() error) error        // has a function run in the namespace of Iface
	Peers map[netip.Addr]net.HardwareAddr // whom the port leads to
}

// AttachCard has a new model send and receive on eth0 of the host. macs are the Ethernet addresses of
// the peers.
func AttachCard(host *rxepeer.Host, macs map[netip.Addr]net.HardwareAddr) (*Side, error) {
	var addrs []netip.Addr
	for _, p := range host.Config.Addrs {
		addrs = append(addrs, p.Addr())
	}
	return New(host.Config.Name, addrs, Port{Iface: rxepeer.HostIface, MAC: host.Config.MAC, Do: host.Do, Peers: macs})
}

// New has a new model with these addresses send and receive on one to four ports. Only the
// namespace of port 0 may have the addresses too.
func New(name string, addrs []netip.Addr, ports ...Port) (*Side, error) {
	s, err := open(name, addrs, ports)
	if err != nil {
		return nil, err
	}
	var wires [regs.PortsCount]card.Wire
	for i, p := range ports {
		if err = p.Do(func() (err error) {
			if i == 0 {
				err = s.listen()
			}
			if err == nil {
				wires[i], err = card.Ethernet(p.Iface)
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

// open makes a model with its device.
func open(name string, addrs []netip.Addr, ports []Port) (*Side, error) {
	s := &Side{Model: card.New()}
	var err error
	if s.card, err = hwoffload.Open(s.Model); err != nil {
		return nil, err
	}
	s.dev, err = driver.Open(s.card, driver.Config{Addrs: addrs, RingBytes: ringBytes, Resolve: func(dst netip.Addr) (driver.Hop, error) {
		for i, p := range ports {
			if mac := p.Peers[dst]; len(mac) == 6 {
				return driver.Hop{MAC: [6]byte(mac), Port: i}, nil
			}
		}
		return driver.Hop{}, fmt.Errorf("there is no peer %v", dst)
	}})
	if err != nil {
		return nil, err
	}
	s.Device = &Device{s.dev, name, addrs, func(pd verbs.PD, size, offset int, rights verbs.Access) (verbs.DM, error) {
		return s.register(pd, size, offset, rights, nil)
	}}
	for i, p := range ports {
		if err := s.dev.SetPort(i, [6]byte(p.MAC)); err != nil {
			return nil, errors.Join(err, s.Close())
		}
	}
	return s, nil
}

// Cabled returns two models whose ports 0 are joined by a cable.
func Cabled() (a, b *Side, err error) {
	var sides [2]*Side
	var wires [2]card.Wire
	wires[0], wires[1] = card.Cable(256)
	addrs := func(i int) []netip.Addr {
		return []netip.Addr{netip.AddrFrom4([4]byte{10, 0, 0, byte(i + 1)}), netip.MustParseAddr(fmt.Sprintf("fd00::%d", i+1))}
	}
	mac := func(i int) net.HardwareAddr { return net.HardwareAddr{2, 0, 0, 0, 0, byte(i + 1)} }
	for i := range sides {
		p := Port{MAC: mac(i), Peers: map[netip.Addr]net.HardwareAddr{}}
		for _, to := range addrs(1 - i) {
			p.Peers[to] = mac(1 - i)
		}
		if sides[i], err = open([]string{"card a", "card b"}[i], addrs(i), []Port{p}); err != nil {
			return nil, nil, err
		}
		sides[i].running = card.Start(sides[i].Model, [regs.PortsCount]card.Wire{wires[i]})
	}
	return sides[0], sides[1], nil
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
	errs := []error{s.dev.Close()}
	if s.running != nil {
		errs = append(errs, s.running.Close())
	}
	for _, c := range s.sink {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

// Used reports whether card memory is reserved. After Close there is none.
func (s *Side) Used() bool {
	for _, free := range s.card.Allocator().Available() {
		if free != regs.DdrBankBytesReset {
			return true
		}
	}
	return false
}
