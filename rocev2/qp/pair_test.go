// SPDX-License-Identifier: Apache-2.0

package qp

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// pair is two queue pairs and a wire between them in virtual time. Sending a packet takes
// time, and so does the path, in both directions alike.
type pair struct {
	t      testing.TB
	now    Time
	side   [2]*pairSide
	delay  Time    // delay of the path, one direction
	each   Time    // time between two packets of one side
	late   [2]Time // packets to a side arrive no earlier
	flight []flying
	drop   func(from int, p *rocev2.Packet) bool // chooses the packets that are dropped; or nil
	unruly *rand.Rand                            // source of randomness that doubles and delays packets; or nil
	out    Outbound

	exact        bool // arriving packets may be forged (ReceiveExact)
	noDelayedAck bool // the responders send an ACK only when a packet requests it, as rxe does
}

type pairSide struct {
	q      *QP
	m      *testMemory
	cq, rq testCQ
	count  Counters
	events []verbs.EventType
	free   Time // time at which the wire is free
	data   int  // data packets sent
}

type flying struct {
	at Time
	to int
	b  []byte
}

const pairMem = 1 << 22

// newPair returns a pair in RTS, with a memory of 4 MB each at dataBase under dataKey.
func newPair(t testing.TB, typ verbs.QPType, change ...func(*Config, *verbs.Attr)) *pair {
	t.Helper()
	p := &pair{t: t, now: 1000, delay: 10_000, each: 1_000}
	for i := range p.side {
		s := &pairSide{m: newTestMemory()}
		s.m.add(dataKey, dataBase, pairMem, allRights)
		cfg := Config{
			QPN: uint32(0x11 * (i + 1)), Type: typ, PD: testPD, Memory: s.m, SendCQ: &s.cq, RecvCQ: &s.rq, Count: &s.count,
			MaxSend: 4096, MaxRecv: 4096, MaxSendSGE: 4, MaxRecvSGE: 4, MaxInline: 256,
			Notify: func(e verbs.EventType) { s.events = append(s.events, e) },
		}
		a := verbs.Attr{
			PMTU: rocev2.PMTU256, DestQPN: uint32(0x11 * (2 - i)), QKey: 0x1234,
			SQPSN: firstPSN, RQPSN: firstPSN,
			Access:      verbs.AccessRemoteRead | verbs.AccessRemoteWrite | verbs.AccessRemoteAtomic,
			MaxRdAtomic: 8, MaxDestRdAtomic: 8, MinRNRTimer: 1, Timeout: 14, RetryCnt: 7, RNRRetry: 7,
		}
		for _, f := range change {
			f(&cfg, &a)
		}
		s.q = bringUp(t, cfg, a, verbs.StateRTS)
		p.side[i] = s
	}
	return p
}

func selective(_ *Config, a *verbs.Attr) { a.Selective = true }

// send puts one packet of side i on the wire, if it has one.
func (p *pair) send(i int) bool {
	p.t.Helper()
	s, o := p.side[i], &p.out
	for {
		data, due := false, s.q.AckDue()
		if ack := s.q.NextAck(p.now, o); ack && !due && o.Syndrome != gapNAK {
			p.t.Fatalf("%v, which AckDue has not reported", o.Opcode)
		} else if !ack {
			if data = nextData(p.t, s.q, p.now, o); !data {
				return false
			}
		}
		v, ok := leave(p.t, o, nil)
		if !ok {
			continue
		}
		if data {
			s.data++
		}
		s.free = p.now + p.each
		if p.drop == nil || !p.drop(i, &v) {
			p.fly(flying{max(p.now+p.delay, p.late[1-i]), 1 - i, v.Datagram()})
		}
		return true
	}
}

// fly puts a packet on the wire. An unruly wire delivers some twice or late.
func (p *pair) fly(f flying) {
	if p.unruly != nil {
		switch p.unruly.IntN(30) {
		case 0:
			p.flight = append(p.flight, f)
		case 1:
			f.at += Time(p.unruly.IntN(20)) * p.each
		}
	}
	p.flight = append(p.flight, f)
	slices.SortStableFunc(p.flight, func(a, b flying) int { return cmp.Compare(a.at, b.at) })
}

// step advances to the next event. It returns false if there is none.
func (p *pair) step() bool {
	p.t.Helper()
	next := p.sendBoth()
	if next == 0 {
		return false
	}
	p.advance(next)
	return true
}

// sendBoth lets both sides send and returns the time of the next event, or 0.
func (p *pair) sendBoth() (next Time) {
	p.t.Helper()
	sent := false
	for i, s := range p.side {
		if s.free <= p.now && p.send(i) {
			sent = true
		}
	}
	earliest := func(at Time) {
		if at > p.now && (next == 0 || at < next) {
			next = at
		}
	}
	if len(p.flight) != 0 {
		earliest(max(p.flight[0].at, p.now+1))
	}
	for _, s := range p.side {
		if sent || s.free > p.now {
			earliest(s.free)
		}
		if d := s.q.Deadline(); d != 0 {
			earliest(max(d, p.now+1))
		}
	}
	return next
}

// advance lets packets arrive and timers expire until a time.
func (p *pair) advance(to Time) {
	p.t.Helper()
	p.now = to
	for len(p.flight) != 0 && p.flight[0].at <= p.now {
		f := p.flight[0]
		p.flight = p.flight[1:]
		v, err := rocev2.ParseIP(f.b)
		if err != nil {
			p.t.Fatal(err)
		}
		if q := p.side[f.to].q; p.exact {
			q.ReceiveExact(p.now, &v)
		} else {
			q.Receive(p.now, &v)
		}
	}
	for _, s := range p.side {
		if p.noDelayedAck {
			s.q.rsp.ack.deadline = 0
		}
		s.q.Expire(p.now)
	}
}

// run steps until done returns true, for at most a virtual minute.
func (p *pair) run(done func() bool) {
	p.t.Helper()
	end := p.now + 60e9
	for !done() {
		if !p.step() {
			p.t.Fatalf("at %d nothing goes on, and it is not done", p.now)
		}
		if p.now > end {
			p.t.Fatal("not done after a minute")
		}
	}
}

func (p *pair) post(wr *verbs.SendWR) {
	p.t.Helper()
	if err := p.side[0].q.PostSend(wr); err != nil {
		p.t.Fatal(err)
	}
}

func (p *pair) data(i int) []byte { return p.side[i].m.regions[dataKey].data }

func fillRandom(r *rand.Rand, b []byte) {
	for i := 0; i+8 <= len(b); i += 8 {
		binary.NativeEndian.PutUint64(b[i:], r.Uint64())
	}
}

// wantAll checks that work requests 0 to n-1 have completed with success, in order.
func (p *pair) wantAll(n int) {
	p.t.Helper()
	for i, c := range p.side[0].cq.got {
		if c.Status != verbs.StatusSuccess || c.WRID != uint64(i) {
			p.t.Fatalf("completion %d: %+v", i, c)
		}
	}
	if got := len(p.side[0].cq.got); got != n {
		p.t.Fatalf("%d completions, want %d", got, n)
	}
}

// Every operation between the two halves, at every PMTU, byte for byte.
func TestPairOperations(t *testing.T) {
	for m := rocev2.PMTU256; m <= rocev2.PMTU4096; m++ {
		t.Run(strconv.Itoa(m.Bytes()), func(t *testing.T) {
			p := newPair(t, verbs.RC, func(_ *Config, a *verbs.Attr) { a.PMTU = m })
			r := rand.New(rand.NewPCG(1, uint64(m)))
			fillRandom(r, p.data(0)[:1<<20])
			fillRandom(r, p.data(1)[1<<20:2<<20])
			id, sends := 0, 0
			post := func(op verbs.Op, at, n uint32, f verbs.Flags) {
				wr := &verbs.SendWR{ID: uint64(id), Op: op, Flags: verbs.Signaled | f, RemoteAddr: dataBase + uint64(at), RKey: dataKey,
					SGL: []verbs.SGE{{Addr: dataBase + uint64(at), Len: n, LKey: dataKey}}, Imm: uint32(id)}
				id++
				p.post(wr)
			}
			pm := uint32(m.Bytes())
			sizes := []uint32{0, 1, 3, pm - 1, pm, pm + 1, 2 * pm, 5*pm + 7}
			at := uint32(0)
			for _, n := range sizes {
				post(verbs.OpWrite, at, n, 0)
				at += n
			}
			wrote := at
			read := uint32(1 << 20)
			for _, n := range sizes {
				post(verbs.OpRead, read, n, verbs.Fence)
				read += n
			}
			recvAt := uint64(dataBase + 2<<20)
			for _, op := range []verbs.Op{verbs.OpSend, verbs.OpSendImm, verbs.OpWriteImm} {
				for _, n := range sizes {
					wr := verbs.RecvWR{ID: uint64(sends), SGL: []verbs.SGE{{Addr: recvAt, Len: n, LKey: dataKey}}}
					if err := p.side[1].q.PostRecv(&wr); err != nil {
						t.Fatal(err)
					}
					recvAt += uint64(n)
					post(op, 0, n, 0)
					sends++
				}
			}
			p.run(func() bool { return len(p.side[0].cq.got) == id && len(p.side[1].rq.got) == sends })
			p.wantAll(id)
			if !bytes.Equal(p.data(0)[:wrote], p.data(1)[:wrote]) {
				t.Error("WRITE: the data differs")
			}
			if !bytes.Equal(p.data(0)[1<<20:read], p.data(1)[1<<20:read]) {
				t.Error("READ: the data differs")
			}
			recv := p.data(1)[2<<20:]
			for range 2 {
				for _, n := range sizes {
					if !bytes.Equal(recv[:n], p.data(0)[:n]) {
						t.Error("SEND: the data differs")
					}
					recv = recv[n:]
				}
			}
			if c := p.side[0].count; c.SentAgain != 0 || c.Timeouts != 0 || c.StaleAnswer != 0 {
				t.Errorf("on a wire without loss: %+v", c)
			}
		})
	}
}
