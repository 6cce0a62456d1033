// SPDX-License-Identifier: Apache-2.0

package sim_test

import (
	"math"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/cc/sim"
)

// credits is a receiver-driven scheme without any control: the receiver sends a
// credit for each packet as fast as its link takes them, and the credit queues of
// the ports thin them out.
type credits struct {
	sim.NoControl
	used []uint32 // numbers of the credits used, as the receiver sees them
}

const creditShare = 84.0 / (84 + 1082)

func (s *credits) Name() string { return "credits" }

func (s *credits) Needs() sim.Needs {
	return sim.Needs{CreditQueue: &sim.CreditQueue{Share: creditShare, LimitPackets: 8}}
}

func (s *credits) NewControl(_ int64, p *sim.Pacer) sim.Control {
	p.NeedsCredit = true
	return &creditSender{}
}

func (s *credits) NewReceiver(_ int, out sim.Out) sim.Receiver {
	return &creditReceiver{s: s, out: out}
}

type creditSender struct {
	sim.NoControl
	tags []uint32
}

func (c *creditSender) Start(_ int64, p *sim.Pacer, f *sim.Flow) {
	p.Send(f, sim.Message{Kind: sim.MsgRequest, Bytes: f.Size})
}

func (c *creditSender) Message(_ int64, p *sim.Pacer, _ *sim.Flow, m *sim.Message) {
	if p.BacklogBytes > 0 {
		p.CreditBytes += int64(p.Path.PayloadBytes)
		c.tags = append(c.tags, m.Seq)
	}
}

func (c *creditSender) Sent(_ int64, _ *sim.Pacer, _ *sim.Flow, d *sim.Data) {
	d.Tag = c.tags[0]
	c.tags = c.tags[1:]
}

type creditReceiver struct {
	sim.NoReceiver
	s   *credits
	out sim.Out
}

func (r *creditReceiver) Message(now int64, _ int, f *sim.Flow, m *sim.Message) {
	if m.Kind == sim.MsgRequest {
		f.Rcv = new(uint32)
		r.Expire(now, f)
	}
}

func (r *creditReceiver) Expire(now int64, f *sim.Flow) {
	next := f.Rcv.(*uint32)
	r.out.Send(f, sim.Message{Kind: sim.MsgCredit, Seq: *next})
	*next++
	// Not all flows at once, or the first one of each round takes what is free.
	r.out.WakeAt(f, now+90+7*int64(f.ID))
}

func (r *creditReceiver) Data(_ int64, _ *sim.Flow, d *sim.Data, _ *sim.Reply) {
	r.s.used = append(r.s.used, d.Tag)
}

func (r *creditReceiver) Done(_ int64, f *sim.Flow) { r.out.WakeAt(f, 0) }

// TestCreditQueue: credits for more than the link are dropped, and those that pass
// bring data that just fits the link, without a queue.
func TestCreditQueue(t *testing.T) {
	s := &credits{}
	n, flows := incast(t, sim.Config{}, s, 4, 2_000_000)
	n.Run(100 * time.Microsecond)
	m := n.Mark()
	n.Run(400 * time.Microsecond)
	u, _ := m.Utilisation(5, 0)
	if want := 1082.0 / (84 + 1082); math.Abs(u-want) > 0.01 {
		t.Errorf("utilisation %.4f, want %.4f", u, want)
	}
	if !n.RunAll(10 * time.Millisecond) {
		t.Fatal("flows did not end")
	}
	p, _ := n.Port(5, 0)
	if p.MaxQueueBytes > 16*1082 {
		t.Errorf("queue of %d bytes", p.MaxQueueBytes)
	}
	if n.Drops[sim.DropCredit] == 0 || n.DataDrops != (n0{}) {
		t.Errorf("drops %v, of data %v", n.Drops, n.DataDrops)
	}
	if flows[0].EndNs == 0 || len(s.used) != 8000 {
		t.Errorf("%d packets with credit, want 8000", len(s.used))
	}
	n.Run(n.Now() + time.Millisecond)
	if err := n.Balance(); err != nil {
		t.Error(err)
	}
}

// granting tests what a connection and its messages bring.
type granting struct {
	spy
	got    []sim.Message
	cnps   int
	grants []int64
}

func (s *granting) Needs() sim.Needs {
	return sim.Needs{Scope: sim.PerDestination, Hello: true}
}

func (s *granting) NewControl(now int64, p *sim.Pacer) sim.Control {
	p.NeedsCredit = true
	s.grants = append(s.grants, p.CreditBytes)
	s.spy.NewControl(now, p)
	return s
}

func (s *granting) Message(_ int64, _ *sim.Pacer, _ *sim.Flow, m *sim.Message) {
	s.got = append(s.got, *m)
}

func (s *granting) CNP(int64, *sim.Pacer, *sim.Flow) { s.cnps++ }

func (s *granting) Ack(now int64, p *sim.Pacer, a *sim.Ack) {
	p.CreditBytes += a.CreditBytes
	s.spy.Ack(now, p, a)
}

func (s *granting) NewReceiver(_ int, out sim.Out) sim.Receiver {
	return &grantor{s: s, out: out}
}

type grantor struct {
	sim.NoReceiver
	s   *granting
	out sim.Out
}

func (r *grantor) Connect(int64, int) int64 { return 3000 }

func (r *grantor) Data(now int64, f *sim.Flow, d *sim.Data, reply *sim.Reply) {
	reply.CreditBytes = int64(d.Bytes)
	reply.Tag = d.PSN + 7
	if d.Last {
		r.out.CNP(f)
		r.out.SendTo(f.Src, sim.Message{Kind: sim.MsgGrant, Seq: 1, Bytes: 2, Aux: 3})
		r.out.WakeAt(nil, now+500)
	}
}

func (r *grantor) Expire(_ int64, f *sim.Flow) {
	if f == nil {
		r.out.SendTo(1, sim.Message{Kind: sim.MsgReturn})
	}
}

// TestGrants: a grant of the connection, credit by ACKs, messages both ways, CNPs,
// and the HELLO's idle sample before everything else.
func TestGrants(t *testing.T) {
	s := &granting{}
	n := build(t, sim.Config{}, sim.Star(2, gig100), s)
	add(t, n, sim.FlowSpec{Src: 1, Dst: 0, Bytes: 10_000, Start: time.Millisecond})
	n.Run(10 * time.Millisecond)
	if len(s.grants) != 1 || s.grants[0] != 3000 {
		t.Errorf("grants %v, want one of 3000", s.grants)
	}
	if len(s.acks) != 11 || !s.acks[0].Probe || !s.acks[0].Idle || s.acks[0].T3-s.acks[0].T1-s.acks[0].RTTNs > 1 {
		t.Errorf("%d ACKs, the first %+v, want the idle echo and 10", len(s.acks), s.acks[0])
	}
	for i, a := range s.acks[1:] {
		if a.Tag != uint32(i)+7 || a.CreditBytes != 1000 || a.Bytes != 1000 {
			t.Errorf("ACK %d: %+v", i, a)
		}
	}
	want := []sim.Message{{Kind: sim.MsgGrant, Seq: 1, Bytes: 2, Aux: 3}, {Kind: sim.MsgReturn}}
	if len(s.got) != 2 || s.got[0] != want[0] || s.got[1] != want[1] || s.cnps != 1 {
		t.Errorf("messages %+v and %d CNPs, want %+v and 1", s.got, s.cnps, want)
	}
}

// TestHelloMeetsQueues: Connect exchanges real packets. In an idle network they
// find what the idle sample says, and behind a queue they wait.
func TestHelloMeetsQueues(t *testing.T) {
	s := &granting{}
	n := build(t, sim.Config{}, sim.Star(3, gig100), s)
	n.Connect(1, 0)
	n.Run(10 * time.Microsecond)
	add(t, n, sim.FlowSpec{Src: 2, Dst: 0, Bytes: 1000, Start: time.Millisecond})
	n.Run(10 * time.Millisecond)
	if len(s.acks) != 3 || !s.acks[0].Probe || s.acks[0].RTTNs != s.acks[1].RTTNs {
		t.Errorf("echoes %+v", s.acks)
	}
}
