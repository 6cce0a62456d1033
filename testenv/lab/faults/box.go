// SPDX-License-Identifier: Apache-2.0

package faults

// Box is a middle box between the two hosts of a topology, in place of the bridge of its switch (NewDisorder), or in
// the link of one host (NewOnLink). It loses, duplicates and delays RoCEv2 packets at random, each for itself, so that
// packets overtake each other. The kernel here has no netem.

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/testenv/lab/topo"
)

// Spec says what happens to RoCEv2 packets of both directions. Shares are 0 to 1, of all such packets.
type Spec struct {
	Loss       float64       // share that is lost
	Duplicates float64       // share that arrives twice
	Delayed    float64       // share that arrives later
	Delay      time.Duration // longest delay; the shortest is 0
}

// Counts is what a box has done.
type Counts struct {
	Packets, Lost, Duplicated, Delayed uint64 // RoCEv2 packets
	Opcodes                            [256]uint64
}

// Box is a middle box that works until Close.
type Box struct {
	fds    [2]int
	faults atomic.Pointer[Spec]
	stop   atomic.Bool
	loops  sync.WaitGroup
	later  sync.WaitGroup

	mu    sync.Mutex
	rand  *rand.Rand
	count Counts
}

// NewDisorder takes the ports of both hosts from the bridge and begins to forward between them, without faults.
func NewDisorder(top *topo.Topology, seed uint64) (_ *Box, err error) {
	b := &Box{fds: [2]int{-1, -1}, rand: rand.New(rand.NewPCG(seed, 0))}
	b.faults.Store(&Spec{})
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("disorder: %w", err), b.Close())
		}
	}()
	hosts, sw := top.Hosts(), top.Switch()
	if len(hosts) != len(b.fds) {
		return nil, fmt.Errorf("%d hosts: a box is between two", len(hosts))
	}
	for i, h := range hosts {
		if err := b.takePort(i, sw, h); err != nil {
			return nil, err
		}
	}
	for i := range b.fds {
		b.loops.Go(func() { b.forward(b.fds[i], b.fds[1-i]) })
	}
	return b, nil
}

// NewOnLink puts a box into the link of one host of a topology, between its port and the bridge of the switch, and
// begins to forward, without faults.
func NewOnLink(top *topo.Topology, h *topo.Host, seed uint64) (_ *Box, err error) {
	b := &Box{fds: [2]int{-1, -1}, rand: rand.New(rand.NewPCG(seed, 0))}
	b.faults.Store(&Spec{})
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("box on the link of %s: %w", h.Name(), err), b.Close())
		}
	}()
	sw := top.Switch()
	port, err := sw.Netlink().LinkByName(h.Port().Name())
	if err != nil {
		return nil, err
	}
	bridge := port.Attrs().MasterIndex
	if err := b.takePort(0, sw, h); err != nil {
		return nil, err
	}
	inner, outer := "box-"+h.Port().Name(), h.Port().Name()+"-box"
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU = inner, port.Attrs().MTU
	if err := sw.Netlink().LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: outer, PeerMTU: uint32(attrs.MTU)}); err != nil {
		return nil, err
	}
	if err := sw.Do(func() error { return topo.UpInOrder(0, inner, outer) }); err != nil {
		return nil, err
	}
	toBridge, err := sw.Netlink().LinkByName(outer)
	if err != nil {
		return nil, err
	}
	if err := sw.Netlink().LinkSetMasterByIndex(toBridge, bridge); err != nil {
		return nil, err
	}
	own, err := sw.Netlink().LinkByName(inner)
	if err != nil {
		return nil, err
	}
	if err := sw.Do(func() error { return b.open(1, own.Attrs().Index) }); err != nil {
		return nil, err
	}
	for i := range b.fds {
		b.loops.Go(func() { b.forward(b.fds[i], b.fds[1-i]) })
	}
	return b, nil
}

// takePort takes the port of a host from the bridge and makes its packet socket.
func (b *Box) takePort(i int, sw, h *topo.Host) error {
	port, err := sw.Netlink().LinkByName(h.Port().Name())
	if err != nil {
		return err
	}
	if err := sw.Netlink().LinkSetNoMaster(port); err != nil {
		return err
	}
	return sw.Do(func() error { return b.open(i, port.Attrs().Index) })
}

// open makes the packet socket of a port.
func (b *Box) open(i, index int) (err error) {
	const all = unix.ETH_P_ALL<<8&0xFF00 | unix.ETH_P_ALL>>8 // network byte order
	if b.fds[i], err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0); err != nil {
		return err
	}
	const buffer = 16 << 20
	return errors.Join(
		unix.SetsockoptInt(b.fds[i], unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1),
		unix.SetsockoptInt(b.fds[i], unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, buffer),
		unix.SetsockoptInt(b.fds[i], unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, buffer),
		unix.SetsockoptTimeval(b.fds[i], unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 50_000}), // for Close
		unix.SetsockoptInt(b.fds[i], unix.SOL_PACKET, unix.PACKET_QDISC_BYPASS, 1),
		unix.Bind(b.fds[i], &unix.SockaddrLinklayer{Protocol: all, Ifindex: index}),
	)
}

// Set sets the faults from now on.
func (b *Box) Set(f Spec) { b.faults.Store(&f) }

// Counts returns what has happened so far.
func (b *Box) Counts() Counts {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.count
}

// Close ends the box. Nothing connects its two sides after that.
func (b *Box) Close() error {
	b.stop.Store(true)
	b.loops.Wait()
	b.later.Wait()
	var errs []error
	for _, fd := range b.fds {
		if fd >= 0 {
			errs = append(errs, unix.Close(fd))
		}
	}
	return errors.Join(errs...)
}

func (b *Box) forward(from, to int) {
	buf := make([]byte, 1<<16)
	for !b.stop.Load() {
		n, err := unix.Read(from, buf)
		if err != nil || n <= 0 {
			continue // nothing for a while
		}
		copies, delays := b.fate(buf[:n])
		for i := range copies {
			if delays[i] == 0 {
				_, _ = unix.Write(to, buf[:n])
				continue
			}
			frame := append([]byte(nil), buf[:n]...)
			b.later.Add(1)
			time.AfterFunc(delays[i], func() {
				defer b.later.Done()
				_, _ = unix.Write(to, frame)
			})
		}
	}
}

// fate decides how often a frame arrives, and when.
func (b *Box) fate(frame []byte) (copies int, delays [2]time.Duration) {
	op, ok := opcode(frame)
	if !ok {
		return 1, delays
	}
	f := b.faults.Load()
	b.mu.Lock()
	defer b.mu.Unlock()
	c := &b.count
	c.Packets++
	c.Opcodes[op]++
	if b.rand.Float64() < f.Loss {
		c.Lost++
		return 0, delays
	}
	copies = 1
	if b.rand.Float64() < f.Duplicates {
		c.Duplicated++
		copies = 2
	}
	for i := range copies {
		if f.Delay > 0 && b.rand.Float64() < f.Delayed {
			c.Delayed++
			delays[i] = time.Duration(1 + b.rand.Int64N(int64(f.Delay)))
		}
	}
	return copies, delays
}

// opcode returns the opcode of a RoCEv2 packet over IPv4 without options or IPv6 without extension headers.
func opcode(frame []byte) (op rocev2.Opcode, ok bool) {
	const ether, udp = 14, 8
	if len(frame) < ether+40 {
		return 0, false
	}
	header, proto := 20, frame[ether+9]
	switch binary.BigEndian.Uint16(frame[12:]) {
	case unix.ETH_P_IP:
	case unix.ETH_P_IPV6:
		header, proto = 40, frame[ether+6]
	default:
		return 0, false
	}
	at := ether + header
	if proto != unix.IPPROTO_UDP || len(frame) <= at+udp || binary.BigEndian.Uint16(frame[at+2:]) != rocev2.UDPPort {
		return 0, false
	}
	return rocev2.Opcode(frame[at+udp]), true
}
