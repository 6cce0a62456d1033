// SPDX-License-Identifier: Apache-2.0

package wiretest

import (
	"net/netip"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/ooo"
	"github.com/softroce/softroce-xdp/rocev2/qp"
)

// OOONode is a host with one port whose queue pairs are in out-of-order mode, without the engine. Links are the
// paths to the other node; a packet takes the one that its UDP source port selects. With Rails each
// link has a port of its own, and a packet takes the one of its rail.
type OOONode struct {
	Name   string
	Addr   netip.Addr
	Rate   int64   // rate of the port, bit/s
	Rails  []int64 // rates of the ports, one for each link; nil: there is one
	Mem    *Memory
	Queues ooo.Queues
	Count  ooo.Counters
	Links  []*Path
	Tick   func() // callback, or nil; called when an application may post again

	// NoStamp leaves the stamp option out, as towards a peer that does not understand it.
	NoStamp bool

	w        *Wire
	peer     netip.Addr
	qps      []*oooQP
	out      ooo.Outbound
	payload  []byte
	turn     int
	ports    []oooPort
	serving  bool
	Sent     int // packets of NextData
	Bad      int // frames that do not parse or have a wrong ICRC
	Unfilled int
}

// oooPort is a port: the rate at which data leaves.
type oooPort struct {
	free  qp.Time // earliest time of the next packet
	alarm alarm   // at that time
}

// oooEnd is the end of a link.
type oooEnd struct {
	*OOONode
	link int
}

type oooQP struct {
	q     *ooo.QP
	alarm alarm // at its deadline
}

// NewOOOPair returns two nodes that are connected by n links in each direction.
func (w *Wire) NewOOOPair(n int, rate int64, delay qp.Time) [2]*OOONode {
	var nodes [2]*OOONode
	for i := range nodes {
		nodes[i] = &OOONode{
			Name: []string{"A", "B"}[i], Addr: netip.AddrFrom4([4]byte{10, 1, 0, byte(1 + i)}),
			Rate: rate, Mem: &Memory{}, w: w, payload: make([]byte, 4096),
		}
	}
	for i, node := range nodes {
		node.peer = nodes[1-i].Addr
		for link := range n {
			node.Links = append(node.Links, &Path{Delay: delay, w: w, to: oooEnd{nodes[1-i], link}})
		}
	}
	return nodes
}

// Create adds a queue pair.
func (n *OOONode) Create(cfg ooo.Config) *ooo.QP {
	cfg.Memory, cfg.Queues, cfg.Count = n.Mem, &n.Queues, &n.Count
	q, err := ooo.New(cfg)
	if err != nil {
		n.w.Failf("%v", err)
		return nil
	}
	n.qps = append(n.qps, &oooQP{q: q})
	return q
}

func (n *OOONode) name() string { return n.Name }

// rate is that of a port.
func (n *OOONode) rate(port int) int64 {
	if n.Rails == nil {
		return n.Rate
	}
	return n.Rails[port]
}

func (n oooEnd) arrive(frame []byte) {
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
			a.q.ReceiveOn(ooo.Time(n.w.now), n.rail(), &p, echo)
			a.q.Expire(ooo.Time(n.w.now)) // nothing else has arrived
		}
	}
	n.Serve()
}

// rail is the rail of packets that arrive here.
func (n oooEnd) rail() int {
	if n.Rails == nil {
		return 0
	}
	return n.link
}

// Serve lets the application post and the port send, and sets the timers. It must follow
// every call of a queue pair from outside.
func (n *OOONode) Serve() {
	if n.serving {
		return
	}
	n.serving = true
	if n.Tick != nil {
		n.Tick()
	}
	if n.ports == nil {
		n.ports = make([]oooPort, max(1, len(n.Rails)))
	}
	for sent := true; sent; {
		sent = false
		for port := range n.ports {
			if n.w.err == nil && n.ports[port].free <= n.w.now && n.sendOne(port) {
				sent = true
				if n.Tick != nil {
					n.Tick()
				}
			}
		}
	}
	for i := range n.ports {
		p := &n.ports[i]
		if p.free > n.w.now {
			n.w.wake(&p.alarm, p.free, n.Serve)
		}
	}
	for _, a := range n.qps {
		if at := qp.Time(a.q.Deadline()); at != 0 {
			n.w.wake(&a.alarm, at, func() {
				a.q.Expire(ooo.Time(n.w.now))
				n.Serve()
			})
		}
	}
	n.serving = false
}

// sendOne sends a response of any port, or data of this one.
func (n *OOONode) sendOne(port int) bool {
	for _, a := range n.qps {
		if a.q.NextAck(&n.out) {
			n.transmit()
			return true
		}
	}
	for range n.qps {
		n.turn = (n.turn + 1) % len(n.qps)
		if n.qps[n.turn].q.NextDataOn(ooo.Time(n.w.now), port, &n.out) {
			if n.out.Rail != port {
				n.w.Failf("%s: a packet of rail %d, where one of rail %d was asked for", n.Name, n.out.Rail, port)
			}
			n.Sent++
			n.transmit()
			return true
		}
	}
	return false
}

func (n *OOONode) transmit() {
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
	p, link := &n.ports[o.Rail], o.Rail
	if n.Rails == nil {
		link = int(o.SrcPort) % len(n.Links)
	}
	p.free = max(p.free, n.w.now) + serialize(frame, n.rate(o.Rail))
	n.Links[link].send(frame)
}

// Quiet reports what the node still wants to do, or "" if nothing.
func (n *OOONode) Quiet() string {
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
