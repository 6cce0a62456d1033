// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"container/heap"
	"errors"
	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"net/netip"
	"time"

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
	helloRefresh = time.Minute
	helloMisses  = 3               // refreshes without an answer until a peer counts as unaware
	helloPerTick = 32              // sent in one tick, so that a large table spreads out
	promptPeriod = 5 * time.Second // a peer's HELLO makes us ask again so often

	// The first answer, and one without an echo, is asked for again so soon, and so often.
	helloAgain  = 20 * time.Millisecond
	helloAgains = 3
)

// A greeter sends HELLO and remembers who answered. now is the monotonic clock
// everywhere.
type greeter struct {
	iface  loader.Iface
	log    *slog.Logger
	fd4    int
	fd6    int
	peers  map[bpf.DestKey]*greeting
	queue  greetings
	origin rocev2.Hello // node, caps and link rate; the nonce differs
	secret bpf.Secret

	sources sources

	// transmit sends what build makes; a field, so that tests need no socket. used
	// reports whether a destination had traffic since then.
	transmit func(peer netip.Addr, nonce uint64, build builder) error
	used     func(peer bpf.DestKey, since uint64) bool
}

// greeting is the state of one peer. There is one for every entry of the table,
// so it is small and without pointers.
type greeting struct {
	peer     bpf.DestKey
	due      uint64
	prompted uint64
	index    int32  // in the heap
	caps     uint16 // of its last HELLO_ACK
	tries    uint8  // HELLOs since it was last aware, up to len(helloDelays)
	missed   uint8
	agains   uint8
	aware    bool
}

func newGreeter(i loader.Iface, log *slog.Logger) (*greeter, error) {
	g := &greeter{iface: i, log: log, peers: map[bpf.DestKey]*greeting{}, fd4: -1, fd6: -1}
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

// add takes a destination in and greets it at once. caps are what the table knows
// of it already.
func (g *greeter) add(peer bpf.DestKey, caps uint16, now uint64) {
	if caps&bpf.CapStatic != 0 || g.peers[peer] != nil {
		return // configuration has spoken, or it is greeted already
	}
	g.push(&greeting{peer: peer, due: now, caps: caps, aware: caps&bpf.CapStamp != 0})
}

// adopt takes a destination in that an earlier agent has greeted. Its turn comes
// some time within a refresh, so that a large table does not speak all at once.
func (g *greeter) adopt(peer bpf.DestKey, caps uint16, now uint64) {
	if caps&bpf.CapStatic != 0 || g.peers[peer] != nil {
		return
	}
	g.push(&greeting{
		peer: peer, due: now + mathrand.Uint64N(uint64(helloRefresh)), caps: caps,
		aware: caps&bpf.CapStamp != 0, tries: uint8(len(helloDelays) - 1),
	})
}

func (g *greeter) push(x *greeting) {
	g.peers[x.peer] = x
	heap.Push(&g.queue, x)
}

// remove forgets a peer.
func (g *greeter) remove(peer bpf.DestKey) {
	if x, ok := g.peers[peer]; ok {
		heap.Remove(&g.queue, int(x.index))
		delete(g.peers, peer)
	}
}

// answered notes a HELLO_ACK that the data plane found genuine. It returns true
// if that is news.
func (g *greeter) answered(peer bpf.DestKey, caps uint16, now uint64) bool {
	x, ok := g.peers[peer]
	if !ok {
		return false
	}
	news := !x.aware || x.caps != caps
	x.aware, x.missed, x.tries, x.caps = true, 0, 0, caps
	g.reschedule(x, now+uint64(helloRefresh))
	return news
}

// again asks a peer once more whose answer has measured nothing. Where the agent answers
// and not the data plane (veth), a host that hears of us for the first time has no entry
// to keep our stamp in, and so nothing to echo; a moment later it has. Data that comes
// before would be the first sample, through the queue that it makes.
func (g *greeter) again(peer bpf.DestKey, now uint64) {
	if x, ok := g.peers[peer]; ok && x.agains < helloAgains {
		x.agains++
		g.reschedule(x, now+uint64(helloAgain))
	}
}

// prompt reacts to a peer's own HELLO. It speaks the protocol, says other things of
// itself than its last answer did, or does not know our token (proven): then it was
// attached anew, and ours for it is void. So ask.
//
// A peer without an entry is asked only if it knows our token, and so receives at its
// address: forged HELLOs leave nothing behind and have nothing sent. Nothing is kept of it
// until it has answered, either: the data plane knows the nonce that it must return.
func (g *greeter) prompt(peer bpf.DestKey, caps uint16, proven bool, now uint64) {
	if x, ok := g.peers[peer]; ok {
		if x.aware && x.caps == caps && proven {
			return
		}
		// Not more often than that: two hosts that prompt each other must not
		// end in a volley.
		due := now
		if x.prompted != 0 {
			due = max(now, x.prompted+uint64(promptPeriod))
		}
		if !x.aware && due > now || due >= x.due {
			return
		}
		x.prompted = due
		g.reschedule(x, due)
		return
	}
	if proven {
		g.ask(peer)
	}
}

// announce tells everybody who is aware what this host is capable of from now on. A
// HELLO proves nothing to them, but makes them ask.
func (g *greeter) announce(caps uint32, now uint64) {
	g.origin.Caps = caps
	for _, x := range g.peers {
		if x.aware && x.due > now {
			g.reschedule(x, now)
		}
	}
}

// send sends what is due, and returns the peers that have stopped answering.
func (g *greeter) send(now uint64) (lost []bpf.DestKey) {
	for n := 0; n < helloPerTick && len(g.queue) > 0 && g.queue[0].due <= now; n++ {
		x := g.queue[0]
		if x.refreshing() && !g.used(x.peer, now-uint64(helloRefresh)) {
			// Nothing goes there: what it understands can wait until something does.
			g.reschedule(x, now+uint64(helloRefresh))
			continue
		}
		if x.aware {
			if x.missed++; x.missed > helloMisses {
				x.aware, x.missed, x.tries = false, 0, uint8(len(helloDelays)-1)
				lost = append(lost, x.peer)
			}
		}
		g.ask(x.peer)
		g.reschedule(x, now+uint64(x.next()))
	}
	return lost
}

// refreshing reports whether the quick first HELLOs are over.
func (x *greeting) refreshing() bool {
	return x.aware || int(x.tries) >= len(helloDelays)-1
}

// next is the time until the next HELLO to this peer, if it does not answer.
func (x *greeting) next() time.Duration {
	switch {
	case x.aware:
		return helloRefresh
	case int(x.tries) < len(helloDelays)-1:
		x.tries++
		return helloDelays[x.tries]
	}
	return helloRefresh
}

// ask sends a HELLO.
func (g *greeter) ask(peer bpf.DestKey) {
	if err := g.transmit(bpf.AddrOf(peer), g.secret.Nonce(peer), rocev2.BuildHello); err != nil {
		g.log.Debug("HELLO not sent", "peer", bpf.AddrOf(peer), "err", err)
	}
}

// answer sends the HELLO_ACK where the data plane leaves it to us.
func (g *greeter) answer(e *bpf.Event) {
	token := g.secret.Token(e.Peer)
	echo := rocev2.Stamp{Flags: rocev2.StampEcho, EchoT1: e.T1Ns, EchoT2: e.Ns}
	build := func(b []byte, src, dst netip.Addr, h rocev2.Hello) (int, error) {
		h.Token = token
		return rocev2.BuildHelloAck(b, src, dst, h, echo)
	}
	if err := g.transmit(bpf.AddrOf(e.Peer), e.Nonce, build); err != nil {
		g.log.Debug("HELLO_ACK not sent", "peer", bpf.AddrOf(e.Peer), "err", err)
	}
}

type builder func(b []byte, src, dst netip.Addr, h rocev2.Hello) (int, error)

func (g *greeter) sendRaw(peer netip.Addr, nonce uint64, build builder) error {
	src, err := g.sources.get(peer, loader.Monotonic(), g.source)
	if err != nil {
		return err
	}
	h := g.origin
	h.Nonce = nonce
	var buf [rocev2.MaxHelloLen]byte
	n, err := build(buf[:], src, peer, h)
	if err != nil {
		return err
	}
	if peer.Is4() {
		return unix.Sendto(g.fd4, buf[:n], 0, &unix.SockaddrInet4{Addr: peer.As4()})
	}
	return unix.Sendto(g.fd6, buf[:n], 0, &unix.SockaddrInet6{Addr: peer.As16()})
}

// source is the address from which this host talks to the peer through the
// interface. A connected socket knows it, at a fraction of a netlink request.
func (g *greeter) source(peer netip.Addr) (netip.Addr, error) {
	family, to := unix.AF_INET6, unix.Sockaddr(&unix.SockaddrInet6{Addr: peer.As16(), Port: rocev2.UDPPort})
	if peer.Is4() {
		family, to = unix.AF_INET, &unix.SockaddrInet4{Addr: peer.As4(), Port: rocev2.UDPPort}
	}
	fd, err := unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return netip.Addr{}, fmt.Errorf("source address: %w", err)
	}
	defer unix.Close(fd)
	if err := unix.BindToDevice(fd, g.iface.Name); err != nil {
		return netip.Addr{}, fmt.Errorf("source address: %w", err)
	}
	if err := unix.Connect(fd, to); err != nil {
		return netip.Addr{}, fmt.Errorf("not reached through %s: %w", g.iface.Name, err)
	}
	sa, err := unix.Getsockname(fd)
	if err != nil {
		return netip.Addr{}, fmt.Errorf("source address: %w", err)
	}
	switch sa := sa.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrFrom4(sa.Addr), nil
	case *unix.SockaddrInet6:
		return netip.AddrFrom16(sa.Addr), nil
	}
	return netip.Addr{}, errors.New("no source address")
}

func (g *greeter) reschedule(x *greeting, due uint64) {
	x.due = due
	heap.Fix(&g.queue, int(x.index))
}

// greetings is a heap ordered by the time of the next HELLO.
type greetings []*greeting

func (q greetings) Len() int           { return len(q) }
func (q greetings) Less(i, j int) bool { return q[i].due < q[j].due }
func (q greetings) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = int32(i), int32(j)
}
func (q *greetings) Push(x any) {
	g := x.(*greeting)
	g.index = int32(len(*q))
	*q = append(*q, g)
}
func (q *greetings) Pop() any {
	old := *q
	g := old[len(old)-1]
	old[len(old)-1] = nil
	*q = old[:len(old)-1]
	return g
}
