// SPDX-License-Identifier: Apache-2.0

package qp

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"testing"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

const testPD = 7

// Every right a region can give.
const allRights = verbs.AccessLocalWrite | verbs.AccessRemoteWrite | verbs.AccessRemoteRead | verbs.AccessRemoteAtomic

// testCQ stores completions.
type testCQ struct{ got []verbs.Completion }

func (c *testCQ) Complete(x verbs.Completion) { c.got = append(c.got, x) }

func (c *testCQ) take() []verbs.Completion {
	got := c.got
	c.got = nil
	return got
}

// target is a queue pair whose requests the test writes.
type target struct {
	t      testing.TB
	q      *QP
	m      *testMemory
	cq     testCQ
	count  Counters
	events []verbs.EventType
	now    Time
	psn    rocev2.PSN // PSN of the next request
	answer Outbound   // reused like the engine's
	frame  []byte
}

const (
	targetQPN = 0x11
	peerQPN   = 0x22
	firstPSN  = rocev2.PSN(0xFFFFFE) // every test wraps around
	bufKey    = 0x100                // region of the receives
	dataKey   = 0x200                // region for the peer's requests
	bufBase   = 0x10000
	dataBase  = 0x200000
)

var (
	peerAddr   = netip.MustParseAddr("192.0.2.2")
	targetAddr = netip.MustParseAddr("192.0.2.1")
)

// newTarget returns a queue pair in RTR, PMTU 256, with 16 receives at most, two
// regions of 64 KB and all rights.
func newTarget(t testing.TB, typ verbs.QPType, change ...func(*Config, *verbs.Attr)) *target {
	t.Helper()
	x := &target{t: t, m: newTestMemory(), now: 1000, psn: firstPSN}
	x.m.add(bufKey, bufBase, 1<<16, allRights)
	x.m.add(dataKey, dataBase, 1<<16, allRights)
	cfg := Config{
		QPN: targetQPN, Type: typ, PD: testPD, Memory: x.m, SendCQ: &testCQ{}, RecvCQ: &x.cq, Count: &x.count,
		MaxSend: 16, MaxRecv: 16, MaxSendSGE: 4, MaxRecvSGE: 4,
		Notify: func(e verbs.EventType) { x.events = append(x.events, e) },
	}
	a := verbs.Attr{
		PMTU: rocev2.PMTU256, DestQPN: peerQPN, RQPSN: firstPSN, QKey: 0x1234,
		Access: verbs.AccessRemoteRead | verbs.AccessRemoteWrite | verbs.AccessRemoteAtomic, MaxDestRdAtomic: 4, MinRNRTimer: 12,
	}
	for _, f := range change {
		f(&cfg, &a)
	}
	x.q = bringUp(t, cfg, a, verbs.StateRTR)
	return x
}

// bringUp makes a queue pair and takes it from RESET to a state, RTR or RTS.
func bringUp(t testing.TB, cfg Config, a verbs.Attr, last verbs.State) *QP {
	t.Helper()
	q := New(cfg)
	for s := verbs.StateInit; s <= last; s++ {
		a.State = s
		if err := q.Modify(a, needed(cfg.Type, q.state, s)|optional(cfg.Type, s, &a)); err != nil {
			t.Fatal(err)
		}
	}
	return q
}

// needed returns the attributes that the state table requires.
func needed(typ verbs.QPType, from, to verbs.State) verbs.AttrMask {
	for i := range states {
		if col, ok := states[i].attrs(typ); ok && states[i].from == from && states[i].to == to {
			return col.need | verbs.MaskState
		}
	}
	return verbs.MaskState
}

func optional(typ verbs.QPType, to verbs.State, a *verbs.Attr) verbs.AttrMask {
	if typ == verbs.UD && to == verbs.StateRTR {
		return verbs.MaskPMTU
	}
	if typ == verbs.RC && to == verbs.StateRTR && a.Selective {
		return verbs.MaskSelective
	}
	return 0
}

// postRecv posts n receives of size bytes with the IDs from, from+1 ... one after
// the other in the buffer region.
func (x *target) postRecv(from uint64, n int, size uint32) {
	x.t.Helper()
	for i := range uint64(n) {
		wr := verbs.RecvWR{ID: from + i, SGL: []verbs.SGE{{Addr: bufBase + (from+i)*uint64(size), Len: size, LKey: bufKey}}}
		if err := x.q.PostRecv(&wr); err != nil {
			x.t.Fatal(err)
		}
	}
}

// build returns the packet that the queue pair receives for d.
func build(t testing.TB, d rocev2.Datagram) rocev2.Packet {
	t.Helper()
	d.Src, d.Dst, d.DestQP = peerAddr, targetAddr, targetQPN
	return coded(t, d, nil)
}

// coded encodes and parses d, in the memory of frame.
func coded(t testing.TB, d rocev2.Datagram, frame []byte) rocev2.Packet {
	t.Helper()
	b, err := d.AppendTo(frame[:0])
	if err != nil {
		t.Fatal(err)
	}
	p, err := rocev2.ParseIP(b)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// leave does what the engine does with a packet of the queue pair under test. It returns
// false if the memory was refused.
func leave(t testing.TB, o *Outbound, frame []byte) (p rocev2.Packet, ok bool) {
	t.Helper()
	payload := make([]byte, o.PayloadLen)
	if !o.Fill(payload) {
		return p, false
	}
	d := o.Datagram
	d.Src, d.Dst, d.Payload = targetAddr, peerAddr, payload
	return coded(t, d, frame), true
}

// leaveToPeer is leave for a packet to peerQPN, whose bytes stay in frame until the next call.
func leaveToPeer(t testing.TB, o *Outbound, frame *[]byte) (p rocev2.Packet, ok bool) {
	t.Helper()
	if p, ok = leave(t, o, *frame); !ok {
		return p, false
	}
	*frame = p.Datagram()
	if to := p.BTH().DestQP(); to != peerQPN {
		t.Errorf("%s goes to queue pair %#x, want %#x", p.Opcode(), to, peerQPN)
	}
	return p, true
}

// shorten removes the last byte of a packet of IPv4, so that its length is no multiple of 4:
// every pad count is wrong.
func shorten(t testing.TB, p rocev2.Packet) rocev2.Packet {
	t.Helper()
	b := p.Frame()
	for _, at := range []int{2, 24} { // total length, UDP length
		binary.BigEndian.PutUint16(b[at:], binary.BigEndian.Uint16(b[at:])-1)
	}
	p, err := rocev2.ParseIP(b[:len(b)-1])
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// in delivers d as it is.
func (x *target) in(d rocev2.Datagram) {
	x.t.Helper()
	p := build(x.t, d)
	x.q.Receive(x.now, &p)
}

// next delivers d with the next PSN.
func (x *target) next(d rocev2.Datagram) {
	x.t.Helper()
	d.PSN = x.psn
	x.psn = x.psn.Add(1)
	if d.Opcode == rocev2.RCReadRequest {
		x.psn = d.PSN.Add(int(rocev2.PMTU256.Packets(d.DMALen)))
	}
	x.in(d)
}

// said is a response as the tests compare it.
type said struct {
	Op       rocev2.Opcode
	PSN      rocev2.PSN
	Syndrome rocev2.Syndrome
	MSN      uint32
	Original uint64
	Data     string
	Again    bool
}

// out collects all responses, acknowledgements first as the engine does. The bytes go
// through the codec.
func (x *target) out() (all []said) {
	x.t.Helper()
	for {
		if x.q.NextAck(x.now, &x.answer) || x.q.NextData(x.now, &x.answer) {
			if s, ok := x.sent(); ok {
				all = append(all, s)
			}
			continue
		}
		return all
	}
}

// sent does what the engine does with x.answer.
func (x *target) sent() (said, bool) {
	x.t.Helper()
	p, ok := leaveToPeer(x.t, &x.answer, &x.frame)
	if !ok {
		return said{}, false
	}
	s := said{Op: p.Opcode(), PSN: p.BTH().PSN(), Data: string(p.Payload()), Again: x.answer.Again}
	if h := p.AETH(); h != nil {
		s.Syndrome, s.MSN = h.Syndrome(), h.MSN()
	}
	if h := p.AtomicAckETH(); h != nil {
		s.Original = h.Original()
	}
	return s, true
}

// psn is the PSN of the n-th packet.
func psn(n int) rocev2.PSN { return firstPSN.Add(n) }

func ackOf(n int, msn uint32) said {
	return said{Op: rocev2.RCAck, PSN: psn(n), Syndrome: noCredits, MSN: msn}
}

func nakOf(n int, msn uint32, c rocev2.NAKCode) said {
	return said{Op: rocev2.RCAck, PSN: psn(n), Syndrome: rocev2.SyndromeNAK(c), MSN: msn}
}

func (x *target) wantOut(want ...said) {
	x.t.Helper()
	if got := x.out(); !slices.Equal(got, want) {
		x.t.Fatalf("answers:\n got %+v\nwant %+v", got, want)
	}
}

func (x *target) wantDone(want ...verbs.Completion) {
	x.t.Helper()
	for i := range want {
		want[i].QPN = targetQPN
	}
	if got := x.cq.take(); !slices.Equal(got, want) {
		x.t.Fatalf("completions:\n got %+v\nwant %+v", got, want)
	}
}

func (x *target) wantEvents(want ...verbs.EventType) {
	x.t.Helper()
	if !slices.Equal(x.events, want) {
		x.t.Fatalf("events: got %v, want %v", x.events, want)
	}
	x.events = nil
}

// pattern returns n bytes that differ from place to place and seed to seed.
func pattern(seed byte, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = seed + byte(i) + byte(i>>8)*3
	}
	return b
}
