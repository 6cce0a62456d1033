// SPDX-License-Identifier: Apache-2.0

package wiretest

import (
	"fmt"
	"math/rand/v2"
	"net/netip"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/engine"
	"github.com/softroce/softroce-xdp/rocev2/qp"
)

// Node is a host with one interface: a core of package engine, which the events of the wire run. Its port takes one
// frame at a time. Its agent knows of all peers that they stamp, and of their SACK what Selective says.
type Node struct {
	Name      string
	Addr      netip.Addr
	Rate      int64 // rate of the port, bit/s
	Mem       *Memory
	Count     qp.Counters
	Selective bool // the peers announce SACK

	w         *Wire
	core      *engine.Core
	hold      int // packets behind gaps
	reorder   *qp.ReorderPool
	endpoints []*Endpoint
	paths     map[netip.Addr]*Path
	handles   map[netip.Addr]*handle
	ether     [etherLen]byte // header of all frames
	in        []byte         // frame that arrives
	sent      int            // packets
	free      qp.Time        // time at which the port is free
	alarm     alarm
	again     int // alarms in a row without a packet between them
	serving   bool
	restarted bool

	alarms      int // alarms since the node was made
	got         int // packets that arrived
	completions int
}

// mtu is the MTU of all interfaces, bytes of IP: the largest PMTU fits, encrypted and with a stamp.
const mtu = 4096 + 256

// etherLen is the length of an Ethernet header, bytes. The wire carries what follows it.
const etherLen = 14

// NewNode adds a node to the wire. Address 1.. picks the IP address. All queue pairs of the node buffer so many packets
// behind gaps together.
func (w *Wire) NewNode(name string, number int, v6 bool, rate int64, hold int) *Node {
	n := &Node{
		Name: name, Rate: rate, Mem: &Memory{}, w: w, hold: hold,
		Addr:  netip.AddrFrom4([4]byte{10, 0, 0, byte(number)}),
		ether: [etherLen]byte{12: 0x08},
		paths: map[netip.Addr]*Path{},
	}
	if v6 {
		n.Addr, n.ether = netip.AddrFrom16([16]byte{0xFD, 15: byte(number)}), [etherLen]byte{12: 0x86, 13: 0xDD}
	}
	w.nodes = append(w.nodes, n)
	n.Restart()
	return n
}

// Restart gives the node a core without queue pairs, which makes the same queue pair numbers again. The applications
// end.
func (n *Node) Restart() {
	if n.core != nil {
		n.check()
		n.restarted = true
	}
	n.handles, n.endpoints = map[netip.Addr]*handle{}, nil
	n.reorder = qp.NewReorderPool(n.hold)
	n.core = engine.New(engine.Config{
		Host: host{n}, Reorder: n.reorder,
		Rails: []engine.RailConfig{{Name: n.Name, MTU: mtu, Ports: []engine.Port{&port{n: n, frame: make([]byte, etherLen+mtu)}}}},
		Rand:  rand.New(rand.NewPCG(uint64(n.Addr.As16()[15]), 0)).Uint32,
	})
	n.core.Begin(n.w.now)
}

// PathTo returns the way to another node, which is made when first asked for.
func (n *Node) PathTo(to *Node) *Path {
	p := n.paths[to.Addr]
	if p == nil {
		p = &Path{w: n.w, to: to}
		n.paths[to.Addr] = p
	}
	return p
}

// route returns a path of the core to another node.
func (n *Node) route(to *Node) *engine.Path {
	return engine.NewPath(&engine.PathState{
		Src: n.Addr, Dst: to.Addr, NextHop: to.Addr, Ether: n.ether, MTU: mtu, PMTU: rocev2.PMTU4096,
	}, nil)
}

func (n *Node) name() string { return n.Name }

// arrive takes a packet from the wire. Ingress has found the token of its stamp to be the right one.
func (n *Node) arrive(packet []byte) {
	n.got, n.again = n.got+1, 0
	n.in = append(append(n.in[:0], n.ether[:]...), packet...)
	n.core.Begin(n.w.now)
	n.core.Frame(n.in, engine.Meta{Proven: true})
	n.Serve()
}

// Serve lets the applications post and the core run, and sets the alarm. It must
// follow whatever was done to a queue pair from outside.
func (n *Node) Serve() {
	if n.serving {
		return
	}
	n.serving = true
	n.core.Begin(n.w.now)
	if n.core.ReportsDue(0) {
		n.report()
	}
	for seen := -1; n.w.err == nil; {
		if n.completions != seen {
			seen = n.completions
			for _, e := range n.endpoints {
				e.work()
			}
		}
		if n.core.Run(false) == 0 && n.completions == seen {
			break
		}
	}
	n.setAlarm()
	n.serving = false
}

// report answers the reports of the core as an agent does: nothing is paced.
func (n *Node) report() {
	reports := n.core.Reports(0)
	for i := range reports {
		r := &reports[i]
		r.Known, r.Stamps, r.SACK, r.Token, r.Rate = true, true, n.Selective, 1, 0
	}
	n.core.Replies(0, len(reports), false)
}

// never is a time that does not come.
const never = qp.Time(1 << 62)

// setAlarm has the node served when its port is free, and at the deadline of the core.
func (n *Node) setAlarm() {
	at := n.core.Deadline(n.w.now, never)
	if n.free > n.w.now {
		at = min(at, n.free)
	}
	if at == never {
		return
	}
	n.w.wake(&n.alarm, at, func() {
		const endless = 10000
		n.alarms++
		if n.again++; n.again > endless {
			n.w.Failf("%s: the core always has another deadline, and sends nothing", n.Name)
		}
		n.Serve()
	})
}

// Quiet reports what the node still wants to do, or "" if nothing.
func (n *Node) Quiet() string {
	if n.core.Deadline(n.w.now, never) != never {
		return n.Name + " has a timer running"
	}
	sent := n.sent
	n.core.Begin(n.w.now)
	for x := range n.core.QPs {
		n.core.LoseRecv(x) // which has the core ask the queue pair for packets
	}
	n.core.Run(false)
	switch {
	case n.sent != sent:
		return n.Name + " has a packet left"
	case n.core.Deadline(n.w.now, never) != never:
		return n.Name + " has set no timer for a queue pair"
	case n.reorder.InUse() != 0:
		return fmt.Sprintf("%s keeps %d packets", n.Name, n.reorder.InUse())
	}
	return ""
}

// host is the program around the core of a node. Applications post directly, and look at completions at once.
type host struct{ n *Node }

func (h host) Clock() qp.Time         { return h.n.w.now }
func (h host) Owns(a netip.Addr) bool { return a == h.n.Addr }
func (h host) TakePosts()             {}
func (h host) PublishCompletions()    {}
func (h host) CQError(qp.CompletionQueue) {
	h.n.w.Failf("%s: a completion queue has lost a completion", h.n.Name)
}

// port is the port of a node.
type port struct {
	n     *Node
	frame []byte
}

func (p *port) Room() bool { return p.n.free <= p.n.w.now }

func (p *port) Frame() []byte {
	if !p.Room() {
		return nil
	}
	return p.frame
}

// Push puts the packet of a frame onto the path to its destination.
func (p *port) Push(length int) {
	n := p.n
	packet := append(n.w.frame(), p.frame[etherLen:length]...)
	h, err := rocev2.ParseIP(packet)
	if err != nil || n.paths[h.Dst()] == nil {
		n.w.Failf("%s sends a packet that has no path: %v, %v", n.Name, err, h.Dst())
		return
	}
	n.sent, n.again = n.sent+1, 0
	n.free = n.w.now + serialize(packet, n.Rate)
	n.paths[h.Dst()].send(packet)
}
