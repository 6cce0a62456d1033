// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"encoding/binary"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/qp"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// stampingPeer stands for the peer of a loopback, which is the engine itself, and for the agents and tables of
// both: it decides which packets have the token, and answers questions.
type stampingPeer struct {
	l       *loopback
	d       *dest
	stopped func(p *rocev2.Packet) bool // the packet leaves without the token
	answer  *DestSync                   // answer to questions; nil: there is none

	table   DestSync // entry of the table
	due     qp.Time  // arrival of the answer to a question, 0 = none arrives
	replyAt qp.Time  // time of the next reply of the table
}

const answerTime = qp.Time(5e6) // from a question to its answer

func newStampingPeer(l *loopback, d *dest) *stampingPeer {
	s := &stampingPeer{l: l, d: d, table: DestSync{Known: true, Stamps: true, SACK: true, Room: loopbackMTU - rocev2.StampLen}}
	l.e.dests.rails[0].due = never // the engine makes no reports: reply takes what is queued for them
	l.e.dests.applyEntry(d, s.reply())
	return s
}

func (s *stampingPeer) reply() *DestSync {
	r := s.table
	return &r
}

// run is the agents and the table between two iterations of the engine.
func (s *stampingPeer) run() {
	e := s.l.e
	if s.due != 0 && e.now >= s.due {
		s.due = 0
		if a := s.answer; a != nil {
			s.table.Bare, s.table.Room = a.Bare, a.Room
			s.table.Answers ^= 1
		}
	}
	if e.now < s.replyAt { // both send all the time, so there is a reply to each report
		return
	}
	s.replyAt = e.now + syncPeriod
	e.dests.rails[0].syncQueue = e.dests.rails[0].syncQueue[:0]
	s.d.syncQueued = false
	if s.d.report.Ask && s.due == 0 {
		s.due = e.now + answerTime
	}
	s.d.report = DestSync{Addr: s.d.addr}
	e.dests.applyEntry(s.d, s.reply())
}

// deliver has the engine receive a frame from its interface.
func (s *stampingPeer) deliver(t *testing.T, frame []byte, proven bool) {
	p, err := rocev2.ParseFrame(frame)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.PutICRC(); err != nil {
		t.Fatal(err)
	}
	s.l.e.rx.frame(frame, Meta{Proven: proven}, false)
}

// ofResponder reports whether a packet belongs to the requester's end of a connection.
func ofResponder(p *rocev2.Packet) bool {
	switch p.Opcode().Info().Operation {
	case rocev2.OperationAck, rocev2.OperationAtomicAck, rocev2.OperationReadResponse:
		return true
	}
	return p.Opcode() == rocev2.OpSACK
}

// A peer that stamps ends that, in every way that there is, while forged packets of its address arrive.
// Nothing forged is delivered, no connection ends, and no pause is longer than a second.
func TestStopsStamping(t *testing.T) {
	const long = 1000 // more than the longest packet that gets a stamp where the path has a smaller MTU
	all := func(*rocev2.Packet) bool { return true }
	bare, whole := &DestSync{Bare: true}, &DestSync{Room: loopbackMTU - rocev2.StampLen}
	causes := []struct {
		name    string
		stopped func(*rocev2.Packet) bool
		answer  *DestSync
	}{
		{"its filter was deleted", all, bare},
		{"another program is in front", all, bare},
		{"detached", all, nil},
		{"its agent was killed", all, nil},
		{"path MTU", func(p *rocev2.Packet) bool { return p.IPLen() > long }, &DestSync{Room: long}},
		{"segmentation offload", func(p *rocev2.Packet) bool { return p.PayloadLen() > 0 }, bare},
		{"it goes on", func(*rocev2.Packet) bool { return false }, whole},
		{"rxe", all, nil},
	}
	sides := map[string]func(p *rocev2.Packet) bool{
		"of its requests":  func(p *rocev2.Packet) bool { return !ofResponder(p) },
		"of its responses": ofResponder,
		"of both":          all,
	}
	for _, c := range causes {
		for side, concerns := range sides {
			for _, op := range []verbs.Op{verbs.OpWrite, verbs.OpRead} {
				if side != "of both" && (op == verbs.OpRead || c.answer != bare) { // who is gone stamps nothing at all
					continue
				}
				t.Run(fmt.Sprintf("%s/%s/%v", c.name, side, op), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						l := newLoopback(t, 1)
						l.link.delay = 20 * time.Microsecond
						l.link.rate = 1e9
						x := l.connect(verbs.RC, rocev2.PMTU1024, 64)
						s := newStampingPeer(l, x.dest)
						s.answer = whole
						rxe := c.name == "rxe"
						if rxe {
							s.table = DestSync{Known: true}
							l.e.dests.applyEntry(x.dest, s.reply())
							s.stopped = all
						}
						r := &stopRun{t: t, l: l, s: s, x: x, op: op, flood: newForger(l, x)}
						r.run(100 * time.Millisecond)
						if !rxe && x.dest.guard.provenAt == 0 {
							t.Fatal("nothing is proven before the cause")
						}
						s.answer = c.answer
						if !rxe {
							s.stopped = func(p *rocev2.Packet) bool { return concerns(p) && c.stopped(p) }
						}
						r.run(1700 * time.Millisecond)
						t.Logf("%d messages, longest pause %v, %d questions, dropped %v, guard %+v", r.done, r.longest, l.e.count.questions, l.e.count.unproven, x.dest.guard)
						if r.longest > time.Second {
							t.Errorf("a pause of %v", r.longest)
						}
						if guarded := x.dest.guard.on(64); guarded != (c.name == "it goes on" || c.name == "path MTU" || !rxe && r.proven) && c.answer != bare {
							t.Errorf("the guard is on: %v", guarded)
						}
						if rxe {
							return
						}
						// It stamps again, and says so.
						s.stopped, s.answer = nil, whole
						r.run(1200 * time.Millisecond)
						if !x.dest.guard.on(loopbackMTU - rocev2.StampLen) {
							t.Errorf("it stamps again, and the guard is off: %+v", x.dest.guard)
						}
					})
				})
			}
		}
	}
}

// stopRun posts messages one after the other, and checks what they leave.
type stopRun struct {
	t       *testing.T
	l       *loopback
	s       *stampingPeer
	x       *QP
	op      verbs.Op
	flood   *forger
	done    int
	last    time.Time
	longest time.Duration
	proven  bool // a packet with the token has arrived in the last run
}

const stopMessage = 8 << 10

func (r *stopRun) run(d time.Duration) {
	r.t.Helper()
	l, e := r.l, r.l.e
	r.proven = false
	r.last = time.Now()
	for end := time.Now().Add(d); time.Now().Before(end); {
		time.Sleep(50 * time.Microsecond)
		e.Begin(testNow())
		l.transfer()
		arrived := 0
		for arrived < len(l.link.packets) && l.link.packets[arrived].at <= e.now {
			b := l.link.packets[arrived].b
			p, err := rocev2.ParseFrame(b)
			if err != nil {
				r.t.Fatal(err)
			}
			proven := r.s.stopped == nil || !r.s.stopped(&p)
			r.proven = r.proven || proven
			r.s.deliver(r.t, b, proven)
			arrived++
		}
		l.link.packets = l.link.packets[arrived:]
		r.s.deliver(r.t, r.flood.next(), false)
		e.iterate()
		r.s.run()
		k := l.cq.take(l.batch[:])
		for _, c := range l.batch[:k] {
			if c.Status != verbs.StatusSuccess {
				r.t.Fatalf("after %d messages: %+v", r.done, c)
			}
			if c.Op == verbs.OpRecv {
				r.t.Fatalf("a forged message was delivered: %+v", c)
			}
			r.longest = max(r.longest, time.Since(r.last))
			r.last = time.Now()
			r.done++
		}
		if r.x.q.SendQueued() == 0 {
			l.post(r.x, r.op, stopMessage)
		}
	}
	r.longest = max(r.longest, time.Since(r.last))
	if r.flood.delivered() {
		r.t.Fatal("forged data was written")
	}
	if e.reorder.InUse() != 0 && r.s.stopped != nil {
		r.t.Error("packets are buffered")
	}
}

// forger makes packets as somebody sends them who knows addresses and queue pair numbers of a connection, 20 000
// a second: SENDs and WRITEs with PSNs ahead of the expected one, ACKs and NAKs, READ responses. A PSN that is
// exactly the expected one, or outstanding, is left out: it is one of 2^24, and counts in every RDMA NIC.
type forger struct {
	l     *loopback
	x, y  *QP // requester and responder
	n     uint64
	frame [2048]byte
}

func newForger(l *loopback, x *QP) *forger {
	return &forger{l: l, x: x, y: l.e.qps.Lookup(x.q.Attr().DestQPN)}
}

// forgedAt is where forged WRITEs go in the memory of the loopback.
const forgedAt = loopbackSize - 64

func (f *forger) next() []byte {
	f.n++
	d := rocev2.Datagram{Src: us, Dst: us, SrcPort: 0xC000, IPID: 1}
	expected, next := f.y.q.Attr().RQPSN, f.x.q.Attr().SQPSN
	ahead := int(1 + f.n%120)
	switch f.n % 6 {
	case 0, 1:
		d.Opcode, d.DestQP, d.PSN, d.Payload, d.AckReq = rocev2.RCSendOnly, f.y.num, expected.Add(ahead), []byte("forged!!"), true
	case 2, 3:
		d.Opcode, d.DestQP, d.PSN, d.Payload = rocev2.RCWriteOnly, f.y.num, expected.Add(ahead), []byte("forged!!")
		d.VA, d.RKey, d.DMALen = f.l.region.VA()+forgedAt, f.l.region.RKey(), 8
	case 4:
		d.Opcode, d.DestQP, d.PSN, d.Syndrome = rocev2.RCAck, f.x.num, next.Add(ahead), rocev2.SyndromeNAK(rocev2.NAKRemoteOp)
	default:
		d.Opcode, d.DestQP, d.PSN, d.Syndrome = rocev2.RCAck, f.x.num, next.Add(ahead), 0x1f
	}
	b, err := d.AppendTo(f.frame[:etherLen])
	if err != nil {
		f.l.t.Fatal(err)
	}
	binary.BigEndian.PutUint16(b[12:], 0x0800)
	return b
}

func (f *forger) delivered() bool {
	return string(f.l.memory[forgedAt:forgedAt+8]) == "forged!!"
}
