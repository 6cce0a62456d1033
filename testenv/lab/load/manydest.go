// SPDX-License-Identifier: Apache-2.0

package load

// This file plays many destinations with one host. The host is the gateway
// to a network of its own, 10.60.0.0/16, and answers for every address in it as
// a peer with the product would: HELLO with HELLO_ACK and a HELLO of its own, a stamped
// request with an ACK that echoes its stamp.
//
// It loads what grows with the number of destinations (tables, agent). It does
// not load what grows with bandwidth; Endpoint.Send does.

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/testenv/lab/topo"
)

// Max is how many destinations one host can play.
const Max = 65000

// Addr is the address of destination i, counted from 0.
func Addr(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 60, byte((i + 1) >> 8), byte(i + 1)}) }

// Destinations is a sender and the host that plays its destinations.
type Destinations struct {
	src, host *topo.Host
	n         int
	raw, sink int // sender's: IPv4 with header, and a port that receives the answers
	pkt       int // the host's: whole frames
	wg        sync.WaitGroup
	stop      atomic.Bool

	sent, acked, greeted atomic.Uint64
}

// ManyCounters tell what happened so far.
type ManyCounters struct {
	Sent    uint64 // requests that left the sender's socket
	Acked   uint64 // requests that the host has answered
	Greeted uint64 // HELLOs that it has answered
}

// New makes host play n destinations of src, and starts answering. The hosts must
// know each other's hardware address (topo.Spec.StaticNeighbours).
func New(src, host *topo.Host, n int) (_ *Destinations, err error) {
	if n < 1 || n > Max {
		return nil, fmt.Errorf("manydest: %d destinations; use 1 to %d", n, Max)
	}
	c := &Destinations{src: src, host: host, n: n, raw: -1, sink: -1, pkt: -1}
	defer func() {
		if err != nil {
			c.Close()
		}
	}()
	link, err := src.Netlink().LinkByName(topo.IfName)
	if err != nil {
		return nil, fmt.Errorf("manydest: %w", err)
	}
	all := net.IPNet{IP: net.IPv4(10, 60, 0, 0), Mask: net.CIDRMask(16, 32)}
	route := netlink.Route{LinkIndex: link.Attrs().Index, Dst: &all, Gw: host.IPv4().AsSlice()}
	if err := src.Netlink().RouteReplace(&route); err != nil {
		return nil, fmt.Errorf("manydest: route: %w", err)
	}
	if err := src.Do(c.openSender); err != nil {
		return nil, fmt.Errorf("manydest: sender: %w", err)
	}
	if err := host.Do(c.openHost); err != nil {
		return nil, fmt.Errorf("manydest: %w", err)
	}
	c.wg.Go(c.answer)
	return c, nil
}

func (c *Destinations) openSender() (err error) {
	if c.raw, err = unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW); err != nil {
		return err
	}
	if err = unix.BindToDevice(c.raw, topo.IfName); err != nil {
		return err
	}
	// Nobody reads the answers; without a socket there would be ICMP errors.
	if c.sink, err = unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0); err != nil {
		return err
	}
	if err = unix.SetsockoptInt(c.sink, unix.SOL_SOCKET, unix.SO_RCVBUF, 0); err != nil {
		return err
	}
	return unix.Bind(c.sink, &unix.SockaddrInet4{Addr: c.src.IPv4().As4(), Port: rocev2.UDPPort})
}

func (c *Destinations) openHost() (err error) {
	const ipv4BigEndian = unix.ETH_P_IP>>8 | unix.ETH_P_IP&0xff<<8
	if c.pkt, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, ipv4BigEndian); err != nil {
		return err
	}
	link, err := c.host.Netlink().LinkByName(topo.IfName)
	if err != nil {
		return err
	}
	// So that Close ends the reader.
	if err = unix.SetsockoptTimeval(c.pkt, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 50_000}); err != nil {
		return err
	}
	_ = unix.SetsockoptInt(c.pkt, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 16<<20)
	return unix.Bind(c.pkt, &unix.SockaddrLinklayer{Protocol: ipv4BigEndian, Ifindex: link.Attrs().Index})
}

// Close stops answering. The route goes with the topology.
func (c *Destinations) Close() {
	c.stop.Store(true)
	c.wg.Wait()
	for _, fd := range []int{c.raw, c.sink, c.pkt} {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
}

// ManyCounters returns what happened so far.
func (c *Destinations) Counters() ManyCounters {
	return ManyCounters{c.sent.Load(), c.acked.Load(), c.greeted.Load()}
}

// answer answers for all destinations.
func (c *Destinations) answer() {
	in, out := make([]byte, 2048), make([]byte, 0, 2048)
	var stamp rocev2.Stamp
	tokens := make([]uint64, Max+1) // that the sender gave the destinations
	for !c.stop.Load() {
		n, from, err := unix.Recvfrom(c.pkt, in, 0)
		if err != nil {
			if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) {
				continue
			}
			return
		}
		if ll, ok := from.(*unix.SockaddrLinklayer); ok && ll.Pkttype == unix.PACKET_OUTGOING {
			continue
		}
		now := Now()
		p, err := rocev2.ParseFrame(in[:n])
		if err != nil || p.VerifyICRC() != nil {
			continue
		}
		d := rocev2.Datagram{Src: p.Dst(), Dst: p.Src(), IPID: 1, DestQP: p.BTH().DestQP()}
		counter := &c.acked
		me := p.Dst().As4()
		token := &tokens[(int(me[2])<<8|int(me[3]))%len(tokens)]
		switch p.Opcode() {
		case rocev2.OpHello:
			d.Opcode, counter = rocev2.OpHelloAck, &c.greeted
			if d.Hello, err = p.Hello(); err != nil {
				continue
			}
			d.Hello.Caps = 1 // stamps
		case rocev2.OpHelloAck:
			if h, err := p.Hello(); err == nil {
				*token = h.Token
			}
			continue
		case rocev2.RCWriteOnly:
			d.Opcode, d.PSN, d.Syndrome = rocev2.RCAck, p.BTH().PSN(), rocev2.SyndromeACK(rocev2.CreditInvalid)
		default:
			continue
		}
		if *token == 0 { // answers are limited: some HELLOs have none
			c.ask(in[:14], d)
		}
		if s, err := p.Stamp(); err == nil && (*token != 0 || d.Opcode == rocev2.OpHelloAck) {
			stamp = rocev2.Stamp{Flags: rocev2.StampT1 | rocev2.StampEcho, Token: *token, T1: Now(), EchoT1: s.T1, EchoT2: now}
			d.Stamp = &stamp
		}
		if c.reply(out[:0], in[:14], d) {
			counter.Add(1)
		}
	}
}

// ask sends a HELLO back: what comes in return has the token for the stamps of this
// destination.
func (c *Destinations) ask(ether []byte, d rocev2.Datagram) {
	d.Opcode, d.DestQP, d.Hello = rocev2.OpHello, rocev2.ControlQPN, rocev2.Hello{Caps: 1, Nonce: 1}
	d.Stamp = &rocev2.Stamp{Flags: rocev2.StampT1, T1: Now()}
	c.reply(nil, ether, d)
}

// reply sends a datagram to where the frame with this Ethernet header came from.
func (c *Destinations) reply(buf, ether []byte, d rocev2.Datagram) bool {
	buf = append(buf, ether[6:12]...)
	buf = append(buf, ether[0:6]...)
	buf = append(buf, ether[12:14]...)
	out, err := d.AppendTo(buf)
	if err != nil {
		return false
	}
	_, err = unix.Write(c.pkt, out)
	return err == nil
}

// Now is the clock of the stamps.
func Now() uint64 {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts)
	return uint64(ts.Nano())
}

// Send sends every destination a small WRITE every period, spread evenly, until
// ctx ends. What the machine does not keep up with is not made up for.
func (c *Destinations) Send(ctx context.Context, period time.Duration) error {
	const slice = 2 * time.Millisecond
	tick := time.NewTicker(slice)
	defer tick.Stop()
	share := float64(c.n) * slice.Seconds() / period.Seconds()
	buf := make([]byte, 0, 256)
	payload := make([]byte, 64)
	psn := make([]rocev2.PSN, c.n)
	next, due := 0, 0.0
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		for due += share; due >= 1; due-- {
			to := Addr(next)
			d := rocev2.Datagram{
				Src: c.src.IPv4(), Dst: to, IPID: 1, Opcode: rocev2.RCWriteOnly, DestQP: uint32(next + 2),
				PSN: psn[next], AckReq: true, DMALen: uint32(len(payload)), Payload: payload,
			}
			var err error
			if buf, err = d.AppendTo(buf[:0]); err != nil {
				return err
			}
			psn[next] = psn[next].Add(1)
			next = (next + 1) % c.n
			if err := unix.Sendto(c.raw, buf, 0, &unix.SockaddrInet4{Addr: to.As4()}); err != nil {
				if errors.Is(err, unix.ENOBUFS) {
					continue
				}
				return fmt.Errorf("manydest: send to %s: %w", to, err)
			}
			c.sent.Add(1)
		}
	}
}
