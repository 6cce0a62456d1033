// SPDX-License-Identifier: Apache-2.0

package qp

import (
	"encoding/binary"
	"slices"
	"testing"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// source is a queue pair whose responses the test writes.
type source struct {
	t      testing.TB
	q      *QP
	m      *testMemory
	cq     testCQ
	count  Counters
	events []verbs.EventType
	now    Time
	id     uint64
	out    Outbound
	frame  []byte
}

const sourceQPN = targetQPN // so that build reaches it

// newSource returns a queue pair in RTS, PMTU 256, Timeout 14 (67 ms), RetryCnt and
// RNRRetry 3, up to 2 READs and ATOMICs; the local region of dataKey at dataBase.
func newSource(t testing.TB, typ verbs.QPType, change ...func(*Config, *verbs.Attr)) *source {
	t.Helper()
	x := &source{t: t, m: newTestMemory(), now: 1000}
	copy(x.m.add(dataKey, dataBase, 1<<16, allRights), pattern(3, 1<<16))
	cfg := Config{
		QPN: sourceQPN, Type: typ, PD: testPD, Memory: x.m, SendCQ: &x.cq, RecvCQ: &testCQ{}, Count: &x.count,
		MaxSend: 512, MaxRecv: 16, MaxSendSGE: 4, MaxRecvSGE: 4, MaxInline: 512, SignalAll: true,
		Notify: func(e verbs.EventType) { x.events = append(x.events, e) },
	}
	a := verbs.Attr{
		PMTU: rocev2.PMTU256, DestQPN: peerQPN, SQPSN: firstPSN, QKey: 0x1234, MaxRdAtomic: 2,
		Access: verbs.AccessRemoteRead, MaxDestRdAtomic: 2, Timeout: 14, RetryCnt: 3, RNRRetry: 3,
	}
	for _, f := range change {
		f(&cfg, &a)
	}
	x.q = bringUp(t, cfg, a, verbs.StateRTS)
	return x
}

// post posts a work request on n bytes at dataBase. IDs count from 0.
func (x *source) post(op verbs.Op, n uint32, f verbs.Flags, change ...func(*verbs.SendWR)) {
	x.t.Helper()
	if err := x.q.PostSend(x.wr(op, n, f, change...)); err != nil {
		x.t.Fatal(err)
	}
	x.id++
}

func (x *source) wr(op verbs.Op, n uint32, f verbs.Flags, change ...func(*verbs.SendWR)) *verbs.SendWR {
	wr := &verbs.SendWR{ID: x.id, Op: op, Flags: f, RemoteAddr: 0x8000, RKey: 0x77, Imm: 0x1111, InvKey: 0x99,
		SGL: []verbs.SGE{{Addr: dataBase, Len: n, LKey: dataKey}}, AH: testAH(0), RemoteQPN: peerQPN, RemoteQKey: 0x55}
	for _, g := range change {
		g(wr)
	}
	return wr
}

// asked is a request as the tests compare it.
type asked struct {
	Op    rocev2.Opcode
	PSN   rocev2.PSN
	Ack   bool   // AckReq
	Again bool   // a retransmission
	VA    uint64 // RETH, AtomicETH
	Len   uint32 // RETH
	Data  string
}

// sends collects the next packets, at most that many. The bytes go through the codec.
func (x *source) sends(most int) (all []asked) {
	x.t.Helper()
	for len(all) < most && nextData(x.t, x.q, x.now, &x.out) {
		p, ok := leaveToPeer(x.t, &x.out, &x.frame)
		if !ok {
			continue
		}
		s := asked{Op: p.Opcode(), PSN: p.BTH().PSN(), Ack: p.BTH().AckReq(), Again: x.out.Again, Data: string(p.Payload())}
		if h := p.RETH(); h != nil {
			s.VA, s.Len = h.VA(), h.DMALen()
		}
		if h := p.AtomicETH(); h != nil {
			s.VA = h.VA()
		}
		all = append(all, s)
	}
	return all
}

// drains sends as much as possible and returns the packets by number, as "0 1 2A": an A for
// AckReq, an ! for a retransmission.
func (x *source) drains() string {
	x.t.Helper()
	s := ""
	for _, a := range x.sends(10000) {
		if s != "" {
			s += " "
		}
		s += itoa(a.PSN.Diff(firstPSN))
		if a.Ack {
			s += "A"
		}
		if a.Again {
			s += "!"
		}
	}
	return s
}

func itoa(n int) string {
	if n < 0 {
		return "-" + itoa(-n)
	}
	if n < 10 {
		return string(rune('0' + n))
	}
	return itoa(n/10) + itoa(n%10)
}

func (x *source) wantSent(want string) {
	x.t.Helper()
	if got := x.drains(); got != want {
		x.t.Fatalf("sent:\n got %s\nwant %s", got, want)
	}
}

func (x *source) in(d rocev2.Datagram) {
	x.t.Helper()
	p := build(x.t, d)
	x.q.Receive(x.now, &p)
}

const noMSN = 0

func (x *source) ack(n int) { x.t.Helper(); x.aeth(n, noCredits, noMSN) }
func (x *source) nak(n int, c rocev2.NAKCode) {
	x.t.Helper()
	x.aeth(n, rocev2.SyndromeNAK(c), noMSN)
}
func (x *source) rnr(n int, code uint8) { x.t.Helper(); x.aeth(n, rocev2.SyndromeRNR(code), noMSN) }

func (x *source) aeth(n int, s rocev2.Syndrome, msn uint32) {
	x.t.Helper()
	x.in(rocev2.Datagram{Opcode: rocev2.RCAck, PSN: psn(n), Syndrome: s, MSN: msn})
}

func (x *source) sack(n int, beyond ...int) {
	x.t.Helper()
	var b bitmap
	for _, i := range beyond {
		b.set(i - n - 1)
	}
	x.in(rocev2.Datagram{Opcode: rocev2.OpSACK, PSN: psn(n), Syndrome: noCredits, SACKHi: b.hi, SACKLo: b.lo})
}

// response delivers READ response packets [from, to) of a READ of length bytes whose PSNs
// begin at first. Byte i of the response is pattern(9)[i].
func (x *source) response(first, from, to, length int) {
	x.t.Helper()
	data := pattern(9, length)
	last := max(1, (length+255)/256)
	for i := from; i < to; i++ {
		op := readOpcode(i == 0, i+1 == last)
		x.in(rocev2.Datagram{Opcode: op, PSN: psn(first + i), Syndrome: noCredits, Payload: data[i*256 : min(length, (i+1)*256)]})
	}
}

func (x *source) atomic(n int, was uint64) {
	x.t.Helper()
	x.in(rocev2.Datagram{Opcode: rocev2.RCAtomicAck, PSN: psn(n), Syndrome: noCredits, Original: was})
}

// wantDone checks completions: the status of each ID from the given one on.
func (x *source) wantDone(from uint64, want ...verbs.Status) {
	x.t.Helper()
	var got []verbs.Status
	for i, c := range x.cq.take() {
		if c.WRID != from+uint64(i) || c.QPN != sourceQPN {
			x.t.Fatalf("completion %+v, want ID %d", c, from+uint64(i))
		}
		got = append(got, c.Status)
	}
	if !slices.Equal(got, want) {
		x.t.Fatalf("completions: got %v, want %v", got, want)
	}
}

func (x *source) wantState(s verbs.State) {
	x.t.Helper()
	if x.q.State() != s {
		x.t.Fatalf("state %s, want %s", x.q.State(), s)
	}
}

// expire advances to the next deadline.
func (x *source) expire() {
	x.t.Helper()
	d := x.q.Deadline()
	if d == 0 {
		x.t.Fatal("no deadline")
	}
	x.now = max(x.now, d)
	x.q.Expire(x.now)
}

func (x *source) word(off int) uint64 {
	return binary.NativeEndian.Uint64(x.m.regions[dataKey].data[off:])
}

// testAH is an address handle.
type testAH int

func (testAH) Destroy() error { return nil }
