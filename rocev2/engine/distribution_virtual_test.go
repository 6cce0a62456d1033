// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/mr"
	"github.com/softroce/softroce-xdp/rocev2/qp"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// star is a distribution region of an engine on virtual time, with an origin and destinations.
type star struct {
	*loopback
	d           *region
	memory      []byte // memory of the distribution region
	source      verbs.MR
	data        []byte // memory of source
	origin      *QP
	hubEnd      *QP   // hub's end of the connection to the origin
	hub, leaves []*QP // the two ends of the connections to the destinations
	sinks       [][]byte
	reports     []mr.Report // reports that the origin has received
	sent, other int         // completions of the origin's WRITEs, and of the hub
	receives    map[uint32][]verbs.Completion
	dead        map[uint32]bool // queue pairs to which no packet comes
}

const (
	starSize   = 256 << 10
	reportRoom = 64 // bytes of the memory that all share, for each report
)

func (l *loopback) peer(x *QP) *QP { return l.e.qps.Lookup(x.q.Attr().DestQPN) }

// newStar connects n destinations, whose send queues at the hub have this depth.
func newStar(t *testing.T, seed uint64, n, depth int) *star {
	t.Helper()
	s := &star{loopback: newLoopback(t, seed), receives: map[uint32][]verbs.Completion{}, dead: map[uint32]bool{}}
	s.link.delay = 100 * time.Microsecond
	register := func(rights verbs.Access) ([]byte, verbs.MR) {
		b := make([]byte, starSize)
		m, err := s.pd.RegMR(b, rights)
		if err != nil {
			t.Fatal(err)
		}
		return b, m
	}
	s.data, s.source = register(0)
	for i := range s.data {
		s.data[i] = byte(s.rand.Uint32())
	}
	var g mr.Group
	for range n {
		x := s.connect(verbs.RC, rocev2.PMTU1024, depth)
		b, m := register(verbs.AccessLocalWrite | verbs.AccessRemoteWrite)
		s.hub, s.leaves, s.sinks = append(s.hub, x), append(s.leaves, s.peer(x)), append(s.sinks, b)
		g = append(g, mr.Destination{QPN: x.num, VA: m.VA(), RKey: m.RKey()})
	}
	s.origin = s.connect(verbs.RC, rocev2.PMTU1024, 256)
	s.hubEnd = s.peer(s.origin)
	for i := range 256 {
		s.receive1(i)
	}
	s.memory = make([]byte, starSize)
	s.d = s.distribute(s.memory, g)
	return s
}

// region is a distribution region.
type region struct {
	Distribution
	*mr.Region
}

// distribute makes a distribution region.
func (l *loopback) distribute(b []byte, g mr.Group) *region {
	d := &region{}
	var err error
	d.Region, err = l.pd.Register(mr.Spec{Host: b, Access: verbs.AccessLocalWrite | verbs.AccessRemoteWrite, Arrived: d.Arrived})
	if err == nil {
		err = l.e.Distribute(&d.Distribution, d.Region, l.pd.num, g)
	}
	if err != nil {
		l.t.Fatal(err)
	}
	return d
}

// receive1 posts the origin's receive i, which has its own place from 64 KB on.
func (s *star) receive1(i int) {
	s.t.Helper()
	at := verbs.SGE{Addr: s.region.VA() + 65536 + uint64(i)*reportRoom, Len: reportRoom, LKey: s.region.LKey()}
	if err := s.origin.PostRecv(&verbs.RecvWR{ID: uint64(i), SGL: []verbs.SGE{at}}); err != nil {
		s.t.Fatal(err)
	}
}

// write has the origin write bytes [off, off+n) of its memory to the same place of the region.
func (s *star) write(op verbs.Op, off, n int) {
	s.t.Helper()
	err := s.origin.PostSend(&verbs.SendWR{
		Op: op, Imm: uint32(off), Flags: verbs.Signaled, RemoteAddr: s.d.VA() + uint64(off), RKey: s.d.RKey(),
		SGL: []verbs.SGE{{Addr: s.source.VA() + uint64(off), Len: uint32(n), LKey: s.source.LKey()}},
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

// step runs the engine once, and loses what goes to the dead.
func (s *star) step() {
	s.t.Helper()
	if err := s.iterate(50 * time.Microsecond); err != nil {
		s.t.Fatal(err)
	}
	s.link.packets = slices.DeleteFunc(s.link.packets, func(p packet) bool {
		const destQP = etherLen + 20 + 8 + 4
		return s.dead[binary.BigEndian.Uint32(p.b[destQP:])&0xffffff]
	})
	for _, c := range s.batch[:s.cq.take(s.batch[:])] {
		switch {
		case c.QPN != s.origin.num && c.Op != verbs.OpRecvWriteImm:
			s.other++
		case c.QPN != s.origin.num:
			s.receives[c.QPN] = append(s.receives[c.QPN], c)
		case c.Op == verbs.OpRecv:
			at := s.region.VA() + 65536 + c.WRID*reportRoom
			b := make([]byte, c.Bytes)
			if f := s.table.ReadLocal(s.pd.num, s.region.LKey(), at, b); f != 0 {
				s.t.Fatal(f)
			}
			r, err := mr.ParseReport(b)
			if err != nil {
				s.t.Fatal(err)
			}
			s.reports = append(s.reports, r)
			s.receive1(int(c.WRID))
		case c.Status == verbs.StatusSuccess:
			s.sent++
		}
	}
}

// until runs the engine until something holds, for a virtual minute at most.
func (s *star) until(what string, holds func() bool) {
	s.t.Helper()
	for begin := time.Now(); !holds(); s.step() {
		if time.Since(begin) > time.Minute {
			s.t.Fatalf("not within a virtual minute: %s; %d WRITEs, reports %+v, %+v", what, s.sent, s.reports, s.d.stats)
		}
	}
}

func (s *star) same(i, off, n int) bool {
	return bytes.Equal(s.sinks[i][off:off+n], s.data[off:off+n])
}

// bubble runs a test on virtual time.
func bubble(t *testing.T, f func(t *testing.T)) {
	watchdog(10*time.Minute, func() { synctest.Test(t, f) })
}

// On a link that loses packets, each of four destinations gets each message once, in order, and
// each has its report. The hub posts work requests of its own in between, and gets their
// completions only. The send queues are shorter than the list of messages.
func TestDistributionLoss(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const messages, size = 100, 2500
		s := newStar(t, 7, 4, 8)
		s.link.loss = 0.03
		own := 0
		for i := range messages {
			op := verbs.OpWrite
			if i%20 == 0 {
				op = verbs.OpWriteImm
			}
			s.write(op, i*size, size)
			if wr := (verbs.SendWR{ID: 3, Op: verbs.OpWrite, Flags: verbs.Signaled, SGL: s.sgl(1), RemoteAddr: s.region.VA(), RKey: s.region.RKey()}); s.hub[i%4].PostSend(&wr) == nil {
				own++
			}
			s.step()
		}
		s.until("all reports", func() bool { return len(s.reports) == messages && s.d.stats.Reports == messages })
		for i, r := range s.reports {
			want := mr.Report{Message: uint32(i), VA: s.d.VA() + uint64(i*size), Length: size, Destinations: 4}
			if r != want {
				t.Fatalf("report %d: %+v, want %+v", i, r, want)
			}
		}
		for i, x := range s.leaves {
			if !s.same(i, 0, messages*size) {
				t.Errorf("destination %d has other data", i)
			}
			for k, c := range s.receives[x.num] {
				if !c.HasImm || c.Imm != uint32(k*20*size) || c.Bytes != size {
					t.Errorf("destination %d: %+v with message %d", i, c, k*20)
				}
			}
			if len(s.receives[x.num]) != messages/20 {
				t.Errorf("destination %d: %d messages with immediate data", i, len(s.receives[x.num]))
			}
		}
		if own == 0 || s.other != own || s.sent != messages {
			t.Errorf("%d completions of the hub for %d work requests, %d of %d WRITEs of the origin", s.other, own, s.sent, messages)
		}
		want := mr.DistributionStats{Arrived: messages, Reports: messages, Delivered: [4]uint64{messages, messages, messages, messages}}
		if s.d.stats != want || !s.d.forward.Idle() {
			t.Errorf("%+v", s.d.stats)
		}
		if s.e.qpCount.SentAgain == 0 {
			t.Error("nothing was lost")
		}
	})
}

// A destination to which no packet comes fails when its retries are used up. The others have all
// data before that, and the origin's WRITEs are acknowledged.
func TestDistributionDead(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const messages, size = 20, 5000
		s := newStar(t, 1, 4, 64)
		s.dead[s.leaves[2].num] = true
		for i := range messages {
			s.write(verbs.OpWrite, i*size, size)
		}
		s.until("data at three of four", func() bool {
			return s.sent == messages && s.same(0, 0, messages*size) && s.same(1, 0, messages*size) && s.same(3, 0, messages*size)
		})
		if len(s.reports) != 0 || s.d.stats.Failed != [4]uint64{} {
			t.Fatalf("before the end of the retries: %+v, %+v", s.reports, s.d.stats)
		}
		s.until("all reports", func() bool { return len(s.reports) == messages })
		for i, r := range s.reports {
			want := [4]verbs.Status{2: verbs.StatusWRFlushed}
			if i == 0 {
				want[2] = verbs.StatusRetryExceeded
			}
			if r.Message != uint32(i) || r.Status != want {
				t.Errorf("%d: %+v", i, r)
			}
		}
		s.write(verbs.OpWrite, 0, size)
		s.until("the report of one more", func() bool { return len(s.reports) == messages+1 })
		if r := s.reports[messages]; r.Status != [4]verbs.Status{2: verbs.StatusWRFlushed} || s.other != 0 {
			t.Errorf("%+v, %d completions of the hub", r, s.other)
		}
	})
}

// What is outstanding on a queue pair that is reset or destroyed has failed. A report is not sent to
// the next peer of a queue pair.
func TestDistributionReset(t *testing.T) {
	end := map[string]func(s *star, x *QP){
		"reset": func(s *star, x *QP) {
			if _, err := s.e.Modify(x, &verbs.Attr{State: verbs.StateReset}, verbs.MaskState, nil); err != nil {
				s.t.Fatal(err)
			}
		},
		"destroy": func(s *star, x *QP) { s.e.RemoveQP(x) },
	}
	for name, end := range end {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newStar(t, 1, 2, 64)
				s.dead[s.leaves[1].num] = true
				s.write(verbs.OpWrite, 0, 3000)
				s.write(verbs.OpWrite, 3000, 3000)
				s.until("data at one of two", func() bool { return s.same(0, 0, 6000) && s.sent == 2 })
				end(s, s.hub[1])
				s.until("reports", func() bool { return len(s.reports) == 2 })
				for _, r := range s.reports {
					if r.Status != [4]verbs.Status{1: verbs.StatusWRFlushed} {
						t.Errorf("%+v", r)
					}
				}
				s.write(verbs.OpWrite, 0, 3000)
				s.until("the next report", func() bool { return len(s.reports) == 3 })
				if r := s.reports[2]; r.Status != [4]verbs.Status{1: verbs.StatusLocalQPOperation} {
					t.Errorf("without the queue pair: %+v", r)
				}
				if x := s.hub[1]; name == "reset" && x.sendTaken+x.sendLost != x.sendDone.Load() {
					t.Errorf("%d places of the send queue are lost", x.sendTaken+x.sendLost-x.sendDone.Load())
				}

				s.dead[s.leaves[0].num] = true // so that the next report comes later
				s.write(verbs.OpWrite, 9000, 3000)
				s.until("one more message", func() bool { return s.sent == 4 && s.d.stats.Arrived == 4 })
				end(s, s.hubEnd)
				if name == "reset" {
					attr := verbs.DefaultAttr()
					attr.PMTU = rocev2.PMTU1024
					if err := verbs.Connect(fixedPath{s.hubEnd}, verbs.Endpoint{}, verbs.Endpoint{QPN: s.origin.num}, attr); err != nil {
						t.Fatal(err)
					}
				}
				s.until("a lost report", func() bool { return s.d.stats.ReportsLost == 1 && s.d.forward.Idle() })
				for range 100 {
					s.step()
				}
				if s.hubEnd.internal != nil || len(s.reports) != 3 || s.d.stats.Reports != 3 {
					t.Errorf("%d reports; posted after the end: %t", len(s.reports), s.hubEnd.internal != nil)
				}
			})
		})
	}
}

// ignored is the completion queue of work requests that stand for those of other distributions.
type ignored struct{}

func (ignored) Complete(verbs.Completion) {}

// Reports wait while the send queue of their origin has as many of the NIC's work requests as it
// takes, and do not delay those of another.
func TestDistributionFullQueue(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStar(t, 1, 1, 64)
		s.dead[s.origin.num] = true // the hub's work requests for the origin stay
		for range qp.MaxInternal {
			wr := verbs.SendWR{Op: verbs.OpWrite, Flags: verbs.Signaled, SGL: s.sgl(1), RemoteAddr: s.region.VA(), RKey: s.region.RKey()}
			if err := s.hubEnd.q.PostInternal(&wr, ignored{}); err != nil {
				t.Fatal(err)
			}
		}
		s.e.tx.markDirty(s.hubEnd)
		s.step()
		s.write(verbs.OpWrite, 0, 100)
		s.until("data", func() bool { return s.same(0, 0, 100) && s.d.forward.Idle() })
		if len(s.d.unsent) != 1 {
			t.Fatalf("%d reports wait", len(s.d.unsent))
		}
		other := s.connect(verbs.RC, rocev2.PMTU1024, 16)
		if err := other.PostRecv(&verbs.RecvWR{SGL: s.sgl(reportRoom)}); err != nil {
			t.Fatal(err)
		}
		err := other.PostSend(&verbs.SendWR{Op: verbs.OpWrite, RemoteAddr: s.d.VA(), RKey: s.d.RKey(), SGL: s.sgl(10)})
		if err != nil {
			t.Fatal(err)
		}
		s.until("the report of the other origin", func() bool { return s.d.stats.Reports == 1 })
		clear(s.dead)
		s.until("the report that waited", func() bool { return len(s.reports) == 1 && s.d.stats.Reports == 2 })
	})
}

// A region keeps 256 messages whose report has no room in the send queue of their origin, however many
// the origin writes without taking reports. More are refused, and those that were kept have their report
// when the origin takes it.
func TestDistributionReportsNotTaken(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const messages, kept = 600, qp.MaxInternal + mr.DistributionDepth
		s := newStar(t, 1, 1, 64)
		other := s.connect(verbs.RC, rocev2.PMTU1024, 64) // which has no receive
		for range messages {
			wr := verbs.SendWR{Op: verbs.OpWrite, Flags: verbs.Signaled, RemoteAddr: s.d.VA(), RKey: s.d.RKey(), SGL: s.sgl(10)}
			s.until("room", func() bool { return !errors.Is(other.PostSend(&wr), verbs.ErrQueueFull) })
			s.step()
		}
		s.until("all WRITEs", func() bool { return s.other == messages && s.d.forward.Idle() })
		if n := len(s.d.unsent); n != mr.DistributionDepth || s.d.stats.Refused != messages-kept {
			t.Fatalf("%d reports wait, %+v", n, s.d.stats)
		}
		s.until("the reports", func() bool {
			_ = other.PostRecv(&verbs.RecvWR{SGL: s.sgl(reportRoom)}) // as many as there is room for
			return s.d.stats.Reports == kept
		})
	})
}

// Messages and work requests of the application take no room of each other.
func TestDistributionNextToApplication(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const depth = 8
		s := newStar(t, 1, 1, depth)
		s.dead[s.leaves[0].num] = true
		own := verbs.SendWR{Op: verbs.OpWrite, SGL: s.sgl(1), RemoteAddr: s.region.VA(), RKey: s.region.RKey()}
		post := func(n int) {
			t.Helper()
			for range n {
				if err := s.hub[0].PostSend(&own); err != nil {
					t.Fatal(err)
				}
			}
			s.step()
		}
		post(depth / 2)
		s.write(verbs.OpWrite, 0, 100)
		s.until("the ACK of the message", func() bool { return s.sent == 1 })
		post(depth / 2)
		if err := s.hub[0].PostSend(&own); !errors.Is(err, verbs.ErrQueueFull) {
			t.Errorf("one more than MaxSend: %v", err)
		}
		if n := s.hub[0].q.SendQueued(); n != depth+1 || s.d.forward.Idle() {
			t.Errorf("%d work requests are queued, want %d and the message's", n, depth)
		}
		s.write(verbs.OpWrite, 100, 100) // while the application's places are in use
		s.until("the ACK of the other message", func() bool { return s.sent == 2 })
		clear(s.dead)
		s.until("the reports", func() bool { return len(s.reports) == 2 && s.reports[1].Delivered() && s.same(0, 0, 200) })
		if n := s.hub[0].sendTaken + s.hub[0].sendLost - s.hub[0].sendDone.Load(); n != 0 {
			t.Errorf("%d of the application's places are in use at the end", n)
		}
		post(depth)
	})
}

// A region that is its own destination forwards each message to itself without end. Other queue pairs
// are served, and it ends with its queue pair.
func TestDistributionToItself(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStar(t, 1, 1, 8)
		x := s.connect(verbs.RC, rocev2.PMTU1024, 8)
		m, err := s.pd.RegMR(s.memory, verbs.AccessLocalWrite|verbs.AccessRemoteWrite)
		if err != nil {
			t.Fatal(err)
		}
		d := &region{}
		d.Region, err = s.pd.Register(mr.Spec{Host: make([]byte, 4096), Access: verbs.AccessLocalWrite | verbs.AccessRemoteWrite, Arrived: d.Arrived})
		if err == nil {
			err = s.e.Distribute(&d.Distribution, d.Region, s.pd.num, mr.Group{{QPN: x.num, VA: d.VA(), RKey: d.RKey()}})
		}
		if err != nil {
			t.Fatal(err)
		}
		wr := verbs.SendWR{Op: verbs.OpWrite, RemoteAddr: d.VA(), RKey: d.RKey(), SGL: []verbs.SGE{{Addr: m.VA(), Len: 10, LKey: m.LKey()}}}
		if err := x.PostSend(&wr); err != nil {
			t.Fatal(err)
		}
		s.until("messages that it sends itself", func() bool { return d.stats.Arrived >= 100 })
		s.write(verbs.OpWrite, 0, 3000)
		s.until("the report of another region", func() bool { return len(s.reports) == 1 && s.reports[0].Delivered() })
		s.e.RemoveQP(x)
		s.until("its end", func() bool { return d.forward.Idle() && len(d.unsent) == 0 })
	})
}

// A peer of UC can be an origin. Its WRITEs have no ACK, and its reports neither.
func TestDistributionUC(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStar(t, 1, 2, 8)
		s.origin = s.connect(verbs.UC, rocev2.PMTU1024, 8)
		s.receive1(0)
		s.write(verbs.OpWrite, 0, 3000)
		s.until("a report", func() bool { return len(s.reports) == 1 })
		if want := (mr.Report{VA: s.d.VA(), Length: 3000, Destinations: 2}); s.reports[0] != want || !s.same(0, 0, 3000) || !s.same(1, 0, 3000) {
			t.Errorf("%+v", s.reports)
		}
	})
}

// A group that cannot be served is refused.
func TestDistributionGroup(t *testing.T) {
	s := newStar(t, 1, 1, 8)
	uc := s.connect(verbs.UC, rocev2.PMTU1024, 4)
	elsewhere := &loopback{t: t, e: s.e, table: s.table, pd: testPD{s.table, s.table.AllocPD()}, cq: s.cq, region: s.region}
	rc := elsewhere.connect(verbs.RC, rocev2.PMTU1024, 4)
	for name, g := range map[string]mr.Group{
		"none":                      {},
		"five":                      {{QPN: 1}, {QPN: 2}, {QPN: 3}, {QPN: 4}, {QPN: 5}},
		"unknown queue pair":        {{QPN: 0xabcdef}},
		"UC":                        {{QPN: uc.num}},
		"another protection domain": {{QPN: rc.num}},
		"out-of-order mode":         {{QPN: s.newOOOQP(4).num}},
		"one queue pair twice":      {{QPN: s.hub[0].num}, {QPN: s.hub[0].num, VA: 5}},
		"a range without end":       {{QPN: s.hub[0].num, VA: ^uint64(0)}},
	} {
		d := &Distribution{}
		if err := s.e.Distribute(d, s.d.Region, s.pd.num, g); err == nil || d.forward != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
