// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"container/heap"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/loader"
	"github.com/softroce/softroce-xdp/rocev2"
)

// How often a destination hears from us: quickly at first, then ever less, since
// most that do not answer never will. One that answered is asked again, to learn
// if it stops understanding stamps.
var helloDelays = []time.Duration{
	0, 50 * time.Millisecond, 200 * time.Millisecond, time.Second, 5 * time.Second, 30 * time.Second,
}

const (
	helloRefresh    = time.Minute
	helloMisses     = 3   // refreshes without an answer until a peer counts as unaware
	helloPerTick    = 32  // sent in one tick, so that a large table spreads out
	strangersLimit  = 256 // peers without an entry that we are checking
	strangerTimeout = 5 * time.Second
	promptPeriod    = 5 * time.Second // a peer's HELLO makes us ask again so often
)

// A greeter sends HELLO and remembers who answered.
type greeter struct {
	iface  loader.Iface
	log    *slog.Logger
	fd4    int
	fd6    int
	peers  map[netip.Addr]*greeting
	queue  greetings
	guests int          // strangers among the peers
	origin rocev2.Hello // node, caps and link rate; the nonce differs

	// transmit sends what build makes; a field, so that tests need no socket.
	transmit func(peer netip.Addr, nonce uint64, build builder) error
}

// greeting is the state of one peer.
type greeting struct {
	peer     netip.Addr
	nonce    uint64
	due      time.Time
	index    int   // in the heap
	tries    uint8 // HELLOs since it was last aware, up to len(helloDelays)
	missed   uint8
	aware    bool
	stranger bool // has no table entry; forgotten if it does not answer
	prompted time.Time
}

func newGreeter(i loader.Iface, log *slog.Logger) (*greeter, error) {
	g := &greeter{iface: i, log: log, peers: map[netip.Addr]*greeting{}, fd4: -1, fd6: -1}
	g.transmit = g.sendRaw
	var err error
	if g.fd4, err = rawSocket(unix.AF_INET, i.Name); err != nil {
		return nil, err
	}
	if g.fd6, err = rawSocket(unix.AF_INET6, i.Name); err != nil && !errors.Is(err, unix.EAFNOSUPPORT) {
		g.close()
		return nil, err
	}
	return g, nil
}

// rawSocket sends whole IP datagrams: the ICRC covers the IP header, so we must
// write it ourselves. The kernel still finds the route and the neighbour.
func rawSocket(family int, ifname string) (int, error) {
	fd, err := unix.Socket(family, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.IPPROTO_RAW)
	if err != nil {
		return -1, fmt.Errorf("raw socket for HELLO: %w", err)
	}
	if err := unix.BindToDevice(fd, ifname); err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("bind the HELLO socket to %s: %w", ifname, err)
	}
	return fd, nil
}

func (g *greeter) close() {
	for _, fd := range []int{g.fd4, g.fd6} {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
}

// add takes a destination in. caps are what the table knows of it already.
func (g *greeter) add(peer netip.Addr, nonce uint64, caps uint16, now time.Time) {
	if caps&bpf.CapStatic != 0 {
		return // configuration has spoken
	}
	if x, ok := g.peers[peer]; ok {
		x.nonce = nonce
		g.settle(x)
		return
	}
	x := &greeting{peer: peer, nonce: nonce, due: now, aware: caps&bpf.CapStamp != 0}
	g.peers[peer] = x
	heap.Push(&g.queue, x)
}

// settle makes a stranger a peer like the others.
func (g *greeter) settle(x *greeting) {
	if x.stranger {
		x.stranger = false
		g.guests--
	}
}

// remove forgets a peer.
func (g *greeter) remove(peer netip.Addr) {
	if x, ok := g.peers[peer]; ok {
		g.settle(x)
		heap.Remove(&g.queue, x.index)
		delete(g.peers, peer)
	}
}

// answered notes a HELLO_ACK that the data plane found genuine. It returns true
// if that is news.
func (g *greeter) answered(peer netip.Addr) bool {
	x, ok := g.peers[peer]
	if !ok {
		return false
	}
	news := !x.aware
	x.aware, x.missed, x.tries = true, 0, 0
	g.reschedule(x, time.Now().Add(helloRefresh))
	return news
}

// prompt reacts to a peer's own HELLO: it speaks the protocol, so ask at once. A
// peer without an entry gets one only after it answered at its address.
func (g *greeter) prompt(peer netip.Addr, now time.Time) {
	if x, ok := g.peers[peer]; ok {
		// Not more often than that: two hosts that prompt each other must not
		// end in a volley.
		if !x.aware && now.Sub(x.prompted) > promptPeriod {
			x.prompted = now
			g.reschedule(x, now)
		}
		return
	}
	if g.guests >= strangersLimit {
		return
	}
	g.guests++
	x := &greeting{peer: peer, nonce: newNonce(), due: now, stranger: true}
	g.peers[peer] = x
	heap.Push(&g.queue, x)
}

// genuine reports whether a HELLO_ACK of a peer without an entry returns the
// nonce that we sent to it.
func (g *greeter) genuine(peer netip.Addr, nonce uint64) bool {
	x, ok := g.peers[peer]
	return ok && x.stranger && x.nonce == nonce
}

// send sends what is due, and returns the peers that have stopped answering.
func (g *greeter) send(now time.Time) (lost []netip.Addr) {
	for n := 0; n < helloPerTick && len(g.queue) > 0 && !g.queue[0].due.After(now); n++ {
		x := g.queue[0]
		if x.stranger && x.tries > 1 {
			g.remove(x.peer)
			continue
		}
		if x.aware {
			if x.missed++; x.missed > helloMisses {
				x.aware, x.missed, x.tries = false, 0, uint8(len(helloDelays)-1)
				lost = append(lost, x.peer)
			}
		}
		if err := g.transmit(x.peer, x.nonce, rocev2.BuildHello); err != nil {
			g.log.Debug("HELLO not sent", "peer", x.peer, "err", err)
		}
		g.reschedule(x, now.Add(x.next()))
	}
	return lost
}

// next is the time until the next HELLO to this peer, if it does not answer.
func (x *greeting) next() time.Duration {
	switch {
	case x.aware:
		return helloRefresh
	case x.stranger:
		x.tries++
		return strangerTimeout
	case int(x.tries) < len(helloDelays)-1:
		x.tries++
		return helloDelays[x.tries]
	}
	return helloRefresh
}

// answer sends the HELLO_ACK where the data plane leaves it to us.
func (g *greeter) answer(peer netip.Addr, nonce uint64) {
	if err := g.transmit(peer, nonce, rocev2.BuildHelloAck); err != nil {
		g.log.Debug("HELLO_ACK not sent", "peer", peer, "err", err)
	}
}

type builder func(b []byte, src, dst netip.Addr, h rocev2.Hello) (int, error)

func (g *greeter) sendRaw(peer netip.Addr, nonce uint64, build builder) error {
	routes, err := netlink.RouteGetWithOptions(net.IP(peer.AsSlice()), &netlink.RouteGetOptions{OifIndex: g.iface.Index})
	if err != nil {
		return fmt.Errorf("route: %w", err)
	}
	if len(routes) == 0 || routes[0].LinkIndex != g.iface.Index {
		return fmt.Errorf("not reached through %s", g.iface.Name)
	}
	src, ok := netip.AddrFromSlice(routes[0].Src)
	if !ok {
		return errors.New("no source address")
	}
	h := g.origin
	h.Nonce = nonce
	var buf [rocev2.MaxHelloLen]byte
	n, err := build(buf[:], src.Unmap(), peer, h)
	if err != nil {
		return err
	}
	if peer.Is4() {
		return unix.Sendto(g.fd4, buf[:n], 0, &unix.SockaddrInet4{Addr: peer.As4()})
	}
	return unix.Sendto(g.fd6, buf[:n], 0, &unix.SockaddrInet6{Addr: peer.As16()})
}

func (g *greeter) reschedule(x *greeting, due time.Time) {
	x.due = due
	heap.Fix(&g.queue, x.index)
}

// newNonce is what a peer must see at its address to answer.
func newNonce() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:])
	return binary.NativeEndian.Uint64(b[:])
}

// greetings is a heap ordered by the time of the next HELLO.
type greetings []*greeting

func (q greetings) Len() int           { return len(q) }
func (q greetings) Less(i, j int) bool { return q[i].due.Before(q[j].due) }
func (q greetings) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = i, j
}
func (q *greetings) Push(x any) {
	g := x.(*greeting)
	g.index = len(*q)
	*q = append(*q, g)
}
func (q *greetings) Pop() any {
	old := *q
	g := old[len(old)-1]
	old[len(old)-1] = nil
	*q = old[:len(old)-1]
	return g
}
