// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"fmt"
	"log"
	"net/netip"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/engine"
	"github.com/softroce/softroce-xdp/rocev2/mr"
	"github.com/softroce/softroce-xdp/rocev2/qp"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// wire is a cable of 10 us. It is the Port of one end, and the other end takes what has arrived.
type wire struct {
	now    *qp.Time
	next   [2048]byte
	frames [][]byte
	at     []qp.Time
}

func (w *wire) Room() bool    { return true }
func (w *wire) Frame() []byte { return w.next[:] }
func (w *wire) Push(n int) {
	w.frames = append(w.frames, append([]byte(nil), w.next[:n]...))
	w.at = append(w.at, *w.now+10_000)
}

// node is one end: a core and the program around it.
type node struct {
	now   *qp.Time
	addr  netip.Addr
	mem   *mr.Table
	core  *engine.Core
	qp    engine.QP
	bytes []byte
	key   uint32 // lkey of bytes
	va    uint64 // address of bytes
}

func (n *node) Clock() qp.Time             { return *n.now }
func (n *node) Owns(a netip.Addr) bool     { return a == n.addr }
func (n *node) TakePosts()                 {}
func (n *node) PublishCompletions()        {}
func (n *node) CQError(qp.CompletionQueue) {}

// Complete makes the node the completion queue of its queue pair.
func (n *node) Complete(c verbs.Completion) {
	what := c.Op.String()
	if c.Op == verbs.OpRecv {
		what = fmt.Sprintf("%s of %d bytes", c.Op, c.Bytes)
	}
	fmt.Printf("%s at %d us: %s, %s\n", n.addr, *n.now/1000, what, c.Status)
}

func newNode(now *qp.Time, addr string, out *wire) *node {
	n := &node{now: now, addr: netip.MustParseAddr(addr), bytes: make([]byte, 64)}
	n.core = engine.New(engine.Config{Host: n, Rails: []engine.RailConfig{{Name: "cable", MTU: 1500, Ports: []engine.Port{out}}}})
	var err error
	if n.mem, err = mr.New(mr.Config{}); err != nil {
		log.Fatal(err)
	}
	pd := n.mem.AllocPD()
	region, err := n.mem.Register(mr.Spec{PD: pd, Host: n.bytes, Access: verbs.AccessLocalWrite})
	if err != nil {
		log.Fatal(err)
	}
	n.key, n.va = region.LKey(), region.VA()
	err = n.core.AddQP(&n.qp, engine.QPConfig{Config: qp.Config{
		Type: verbs.RC, PD: pd, Memory: n.mem, SendCQ: n, RecvCQ: n, MaxSend: 1, MaxRecv: 1, MaxSendSGE: 1, MaxRecvSGE: 1,
	}})
	if err != nil {
		log.Fatal(err)
	}
	return n
}

// connection is a queue pair that gets the path to its peer.
type connection struct {
	*node
	to netip.Addr
}

func (c connection) Type() verbs.QPType { return c.qp.Type() }
func (c connection) State() verbs.State { return c.qp.State() }
func (c connection) Modify(a verbs.Attr, mask verbs.AttrMask) error {
	var path *engine.Path
	if a.State == verbs.StateRTR {
		path = engine.NewPath(&engine.PathState{Src: c.addr, Dst: c.to, Ether: [14]byte{12: 8}, MTU: 1500, PMTU: rocev2.PMTU1024}, nil)
	}
	_, err := c.core.Modify(&c.qp, &a, mask, path)
	return err
}

// Two cores exchange a message on virtual time.
func Example() {
	now := qp.Time(1000)
	ab, ba := &wire{now: &now}, &wire{now: &now}
	a, b := newNode(&now, "192.0.2.1", ab), newNode(&now, "192.0.2.2", ba)
	attr := verbs.DefaultAttr()
	attr.PMTU = rocev2.PMTU1024
	for _, end := range [][2]*node{{a, b}, {b, a}} {
		end[0].core.Begin(now)
		if err := verbs.Connect(connection{end[0], end[1].addr}, verbs.Endpoint{}, verbs.Endpoint{QPN: end[1].qp.QPN()}, attr); err != nil {
			log.Fatal(err)
		}
	}
	if err := b.core.Recv(&b.qp, &verbs.RecvWR{SGL: []verbs.SGE{{Addr: b.va, Len: 64, LKey: b.key}}}); err != nil {
		log.Fatal(err)
	}
	copy(a.bytes, "a message")
	err := a.core.Send(&a.qp, &verbs.SendWR{Op: verbs.OpSend, Flags: verbs.Signaled, SGL: []verbs.SGE{{Addr: a.va, Len: 9, LKey: a.key}}})
	if err != nil {
		log.Fatal(err)
	}
	end := now + 30_000_000 // the first packet to a host waits for a token of its stamps, for up to 20 ms
	for now < end {
		next := end
		for _, n := range []struct {
			*node
			in *wire
		}{{a, ba}, {b, ab}} {
			n.core.Begin(now)
			for len(n.in.at) > 0 && n.in.at[0] <= now {
				n.core.Frame(n.in.frames[0], engine.Meta{})
				n.in.frames, n.in.at = n.in.frames[1:], n.in.at[1:]
			}
			did := n.core.Run(false)
			if n.core.ReportsDue(0) {
				n.core.Replies(0, len(n.core.Reports(0)), false) // a table that knows no hosts
			}
			if did == 0 {
				next = min(next, max(n.core.Deadline(now, end), now+1))
			} else {
				next = now + 1
			}
		}
		for _, w := range []*wire{ab, ba} {
			if len(w.at) > 0 {
				next = min(next, w.at[0])
			}
		}
		now = next
	}
	fmt.Printf("%s\n", b.bytes[:9])
	// Output:
	// 192.0.2.2 at 20011 us: receive of 9 bytes, success
	// 192.0.2.1 at 20021 us: SEND, success
	// a message
}
