// SPDX-License-Identifier: Apache-2.0

package wiretest

import (
	"fmt"
	"net/netip"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/qp"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Node is an engine with one port: it asks its queue pairs for packets in turns,
// one at a time as fast as the port takes them, acknowledgements first.
type Node struct {
	Name  string
	Addr  netip.Addr
	Rate  int64 // rate of the port, bit/s
	Mem   *Memory
	Count qp.Counters

	Received  int // packets that the queue pairs got
	BadICRC   int
	BadParse  int
	Unknown   int // packets for a queue pair that is not there
	Unfilled  int // packets that Fill refused
	SentData  int // packets from NextData
	SentAcks  int // packets from NextAck
	SentBytes int // payload from NextData

	// Stamp is appended to every packet, if set.
	Stamp *rocev2.Stamp
	// Build, if set, makes the frame of a packet of queue pair qpn, instead of o.AppendTo.
	Build func(qpn uint32, o *qp.Outbound, b []byte) ([]byte, error)
	// Check, if set, judges a packet whose ICRC is right. One with an error is dropped.
	Check   func(p *rocev2.Packet) error
	Refused int // packets refused by Check

	// Tick, if set, is called when the application may post again.
	Tick func()

	w         *Wire
	endpoints []*Endpoint
	qps       []*attached
	byQPN     map[uint32]*attached
	paths     map[netip.Addr]*Path
	out       qp.Outbound // one for all, as the engine's: nothing may depend on it
	payload   []byte
	turn      int
	free      qp.Time // time at which the port is free
	waiting   bool    // the node waits for the port
	serving   bool

	completions int
	reorder     *qp.ReorderPool
}

type attached struct {
	q     *qp.QP
	peer  netip.Addr // RC, UC
	timer qp.Time    // an event is set for then, 0: none
	idle  int        // expirations in a row that moved no deadline
}

// NewNode adds a node to the wire. Address 1.. picks the IP address.
func (w *Wire) NewNode(name string, number int, v6 bool, rate int64) *Node {
	n := &Node{
		Name: name, Rate: rate, Mem: &Memory{}, w: w,
		Addr:    netip.AddrFrom4([4]byte{10, 0, 0, byte(number)}),
		byQPN:   map[uint32]*attached{},
		paths:   map[netip.Addr]*Path{},
		payload: make([]byte, 4096),
	}
	if v6 {
		n.Addr = netip.AddrFrom16([16]byte{0xFD, 15: byte(number)})
	}
	w.nodes = append(w.nodes, n)
	return n
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

// peerAddr is the address of the only other node that this one knows.
func (n *Node) peerAddr() netip.Addr {
	for a := range n.paths {
		return a
	}
	return netip.Addr{}
}

// Attach has the node serve q; peer is the node of the queue pair that q is
// connected with, or nil.
func (n *Node) Attach(q *qp.QP, peer *Node) {
	a := &attached{q: q}
	if peer != nil {
		a.peer = peer.Addr
	}
	n.qps = append(n.qps, a)
	n.byQPN[q.QPN()] = a
}

// Detach takes the queue pair away, with its timer.
func (n *Node) Detach(q *qp.QP) {
	delete(n.byQPN, q.QPN())
	for i, a := range n.qps {
		if a.q == q {
			n.qps = append(n.qps[:i], n.qps[i+1:]...)
			return
		}
	}
}

func (n *Node) name() string { return n.Name }

// arrive takes a frame from the wire.
func (n *Node) arrive(frame []byte) {
	p, err := rocev2.ParseIP(frame)
	if err != nil {
		n.BadParse++
		return
	}
	if p.VerifyICRC() != nil {
		n.BadICRC++
		return
	}
	a := n.byQPN[p.BTH().DestQP()]
	if a == nil {
		n.Unknown++
		return
	}
	if n.Check != nil && n.Check(&p) != nil {
		n.Refused++
		return
	}
	n.Received++
	a.q.Receive(n.w.now, &p)
	n.Serve()
}

// Serve lets the application post and the port send, and sets the timers. It must
// follow whatever was done to a queue pair from outside.
func (n *Node) Serve() {
	if n.serving {
		return
	}
	n.serving = true
	for seen := -1; n.w.err == nil; {
		if n.completions != seen && n.Tick != nil {
			seen = n.completions
			n.Tick()
		}
		if n.free > n.w.now || !n.sendOne() && n.completions == seen {
			break
		}
	}
	if n.free > n.w.now && !n.waiting {
		n.waiting = true
		n.w.push(event{at: n.free, call: n.portFree})
	}
	for _, a := range n.qps {
		n.setTimer(a)
	}
	n.serving = false
}

func (n *Node) portFree() {
	n.waiting = false
	n.Serve()
}

// sendOne sends one packet of one queue pair.
func (n *Node) sendOne() bool {
	for i := range n.qps {
		a := n.qps[(n.turn+i)%len(n.qps)]
		if a.q.NextAck(n.w.now, &n.out) {
			n.SentAcks++
			n.transmit(a)
			return true
		}
	}
	for range n.qps {
		n.turn = (n.turn + 1) % len(n.qps)
		a := n.qps[n.turn]
		if a.q.NextData(n.w.now, &n.out) {
			n.SentData++
			n.SentBytes += n.out.PayloadLen
			n.transmit(a)
			return true
		}
	}
	return false
}

func (n *Node) transmit(a *attached) {
	o := &n.out
	if o.PayloadLen < 0 || o.PayloadLen > len(n.payload) {
		n.w.Failf("%s: QP %d wants to send %d bytes of payload", n.Name, a.q.QPN(), o.PayloadLen)
		return
	}
	payload := n.payload[:o.PayloadLen]
	if !o.Fill(payload) {
		n.Unfilled++
		return
	}
	o.Src, o.Dst, o.Payload, o.Stamp = n.Addr, a.peer, payload, n.Stamp
	if a.q.Type() == verbs.UD {
		if o.AH == nil {
			n.w.Failf("%s: UD packet without address handle", n.Name)
			return
		}
		o.Dst = o.AH.(handle).to.Addr
	}
	frame, err := n.build(a.q.QPN(), o)
	if err != nil {
		n.w.Failf("%s: QP %d: %v packet cannot be built: %v", n.Name, a.q.QPN(), o.Opcode, err)
		return
	}
	path := n.paths[o.Dst]
	if path == nil {
		n.w.Failf("%s: no path to %v", n.Name, o.Dst)
		return
	}
	n.free = n.w.now + serialize(frame, n.Rate)
	path.send(frame)
}

func (n *Node) build(qpn uint32, o *qp.Outbound) ([]byte, error) {
	if n.Build != nil {
		return n.Build(qpn, o, n.w.frame())
	}
	return o.AppendTo(n.w.frame())
}

// setTimer makes sure that an event is set for the queue pair's deadline or before.
func (n *Node) setTimer(a *attached) {
	d := a.q.Deadline()
	if d == 0 || a.timer != 0 && a.timer <= d {
		return
	}
	const endless = 1000
	if d <= n.w.now {
		if a.idle++; a.idle > endless {
			n.w.Failf("%s: QP %d: deadline %d stays in the past", n.Name, a.q.QPN(), d)
			return
		}
	} else {
		a.idle = 0
	}
	a.timer = max(d, n.w.now)
	at := a.timer
	n.w.push(event{at: at, call: func() { n.timerAt(a, at) }})
}

func (n *Node) timerAt(a *attached, at qp.Time) {
	if a.timer != at || n.byQPN[a.q.QPN()] != a {
		return // an earlier one took its place, or the queue pair is gone
	}
	a.timer = 0
	if d := a.q.Deadline(); d != 0 && d <= n.w.now {
		a.q.Expire(n.w.now)
		n.Serve()
		return
	}
	n.setTimer(a)
}

// Quiet reports what the node still wants to do, or "" if nothing.
func (n *Node) Quiet() string {
	for _, a := range n.qps {
		switch {
		case a.q.Deadline() != 0:
			return n.Name + " has a timer running"
		case a.q.NextAck(n.w.now, &n.out):
			return n.Name + " has an answer left: " + n.out.Opcode.String()
		case a.q.NextData(n.w.now, &n.out):
			return n.Name + " has data left: " + n.out.Opcode.String()
		}
	}
	if n.reorder != nil && n.reorder.InUse() != 0 {
		return fmt.Sprintf("%s keeps %d packets", n.Name, n.reorder.InUse())
	}
	return ""
}

// handle is the address handle of a node.
type handle struct{ to *Node }

// Destroy implements verbs.AH.
func (handle) Destroy() error { return nil }
