// SPDX-License-Identifier: Apache-2.0

package wiretest

import (
	"net/netip"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/ooo"
	"github.com/softroce/softroce-xdp/rocev2/qp"
)

// OrderNode is an engine with one port whose queue pairs are in out-of-order mode. Links are the
// paths to the other node; a packet takes the one that its UDP source port selects.
type OrderNode struct {
	Name   string
	Addr   netip.Addr
	Rate   int64 // of the port, bit/s
	Mem    *Memory
	Queues ooo.Queues
	Count  ooo.Counters
	Links  []*Path
	Tick   func() // or nil; called when an application may post again

	// NoStamp leaves the stamp option out, as towards a peer that does not understand it.
	NoStamp bool

	w        *Wire
	peer     netip.Addr
	qps      []*orderQP
	out      ooo.Outbound
	payload  []byte
	turn     int
	free     qp.Time
	waiting  bool
	serving  bool
	Sent     int // packets of NextData
	Bad      int // frames that do not parse or have a wrong ICRC
	Unfilled int
}

type orderQP struct {
	q     *ooo.QP
	timer qp.Time
}

// NewOrderPair returns two nodes that are connected by n links in each direction.
func (w *Wire) NewOrderPair(n int, rate int64, delay qp.Time) [2]*OrderNode {
	var nodes [2]*OrderNode
	for i := range nodes {
		nodes[i] = &OrderNode{
			Name: []string{"A", "B"}[i], Addr: netip.AddrFrom4([4]byte{10, 1, 0, byte(1 + i)}),
			Rate: rate, Mem: &Memory{}, w: w, payload: make([]byte, 4096),
		}
	}
	for i, node := range nodes {
		node.peer = nodes[1-i].Addr
		for range n {
			node.Links = append(node.Links, &Path{Delay: delay, w: w, to: nodes[1-i]})
		}
	}
	return nodes
}

// Create adds a queue pair.
func (n *OrderNode) Create(cfg ooo.Config) *ooo.QP {
	cfg.Memory, cfg.Queues, cfg.Count = n.Mem, &n.Queues, &n.Count
	q, err := ooo.New(cfg)
	if err != nil {
		n.w.Failf("%v", err)
		return nil
	}
	n.qps = append(n.qps, &orderQP{q: q})
	return q
}

func (n *OrderNode) name() string { return n.Name }

func (n *OrderNode) arrive(frame []byte) {
	p, err := rocev2.ParseIP(frame)
	if err != nil || p.VerifyICRC() != nil {
		n.Bad++
		return
	}
	var echo uint32
	if s, err := p.Stamp(); err == nil {
		echo = ooo.EchoUs(s)
	}
	for _, a := range n.qps {
		if a.q.QPN() == p.BTH().DestQP() {
			a.q.Receive(ooo.Time(n.w.now), &p, echo)
			a.q.Expire(ooo.Time(n.w.now)) // nothing else has arrived
		}
	}
	n.Serve()
}

// Serve lets the application post and the port send, and sets the timers. It must follow
// every call of a queue pair from outside.
func (n *OrderNode) Serve() {
	if n.serving {
		return
	}
	n.serving = true
	if n.Tick != nil {
		n.Tick()
	}
	for n.w.err == nil && n.free <= n.w.now && n.sendOne() {
		if n.Tick != nil {
			n.Tick()
		}
	}
	if n.free > n.w.now && !n.waiting {
		n.waiting = true
		n.w.push(event{at: n.free, call: func() { n.waiting = false; n.Serve() }})
	}
	for _, a := range n.qps {
		n.setTimer(a)
	}
	n.serving = false
}

func (n *OrderNode) sendOne() bool {
	for _, a := range n.qps {
		if a.q.NextAck(&n.out) {
			n.transmit()
			return true
		}
	}
	for range n.qps {
		n.turn = (n.turn + 1) % len(n.qps)
		if n.qps[n.turn].q.NextData(ooo.Time(n.w.now), &n.out) {
			n.Sent++
			n.transmit()
			return true
		}
	}
	return false
}

func (n *OrderNode) transmit() {
	o := &n.out
	payload := n.payload[:o.PayloadLen]
	if !o.Fill(payload) {
		n.Unfilled++
		return
	}
	o.Src, o.Dst, o.Payload = n.Addr, n.peer, payload
	if !n.NoStamp {
		o.Stamp = &rocev2.Stamp{Flags: rocev2.StampT1, T1: uint64(n.w.now)}
	}
	frame, err := o.AppendTo(n.w.frame())
	if err != nil {
		n.w.Failf("%s: %v packet cannot be built: %v", n.Name, o.Opcode, err)
		return
	}
	n.free = n.w.now + serialize(frame, n.Rate)
	n.Links[int(o.SrcPort)%len(n.Links)].send(frame)
}

func (n *OrderNode) setTimer(a *orderQP) {
	d := qp.Time(a.q.Deadline())
	if d == 0 || a.timer != 0 && a.timer <= d {
		return
	}
	a.timer = max(d, n.w.now)
	at := a.timer
	n.w.push(event{at: at, call: func() {
		if a.timer != at {
			return // an earlier one took its place
		}
		a.timer = 0
		a.q.Expire(ooo.Time(n.w.now))
		n.Serve()
	}})
}

// Quiet reports what the node still wants to do, or "" if nothing.
func (n *OrderNode) Quiet() string {
	for _, a := range n.qps {
		switch {
		case a.q.Deadline() != 0:
			return n.Name + " has a timer running"
		case a.q.NextAck(&n.out):
			return n.Name + " has a response left: " + n.out.Opcode.String()
		case a.q.NextData(ooo.Time(n.w.now), &n.out):
			return n.Name + " has data left: " + n.out.Opcode.String()
		}
	}
	return ""
}
