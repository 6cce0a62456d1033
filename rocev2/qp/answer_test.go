// SPDX-License-Identifier: Apache-2.0

package qp

import (
	"encoding/binary"
	"encoding/hex"
	"slices"
	"testing"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/mem"
)

// The bytes of an ACK, from the IP header to the ICRC.
func TestAckBytes(t *testing.T) {
	x := newTarget(t, RC)
	w := write(wo, dataBase, 4, 4)
	w.AckReq = true
	x.next(w)
	x.wantOut(ackOf(0, 1))
	const want = "" +
		"4500003000004000 4011b6b9 c0000201 c0000202" + // IPv4, 48 bytes, DF, TTL 64, UDP
		"c242 12b7 001c 0000" + // UDP from the port of 0x11 x 0x22 to 4791
		"11 00 ffff 00 000022 00 fffffe" + // BTH: ACK, P_Key, queue pair, PSN
		"1f 000001" // AETH: ACK without credits, MSN 1
	got := hex.EncodeToString(x.frame[:44])
	if plain := clean(want); got != plain {
		t.Errorf("ACK:\n got %s\nwant %s", got, plain)
	}
}

func clean(s string) string {
	return string(slices.DeleteFunc([]byte(s), func(c byte) bool { return c == ' ' }))
}

// One ACK for many packets; at once when it is asked for, or after 64 packets, or
// after a while.
func TestAckCoalescing(t *testing.T) {
	x := newTarget(t, RC)
	for range 10 {
		w := write(wo, dataBase, 4, 4)
		w.AckReq = true
		x.next(w)
	}
	x.wantOut(ackOf(9, 10))

	for range 63 {
		x.next(write(wo, dataBase, 4, 4))
		x.wantOut()
	}
	x.next(write(wo, dataBase, 4, 4))
	x.wantOut(ackOf(73, 74))
	if d := x.q.Deadline(); d != 0 {
		t.Errorf("a deadline at %d with nothing to say", d)
	}

	x.next(write(wo, dataBase, 4, 4))
	due := x.now + ackDelay
	if d := x.q.Deadline(); d != due {
		t.Errorf("deadline %d, want %d", d, due)
	}
	x.now += 100
	x.next(write(wo, dataBase, 4, 4)) // does not put it off
	x.q.Expire(due - 1)
	x.wantOut()
	x.q.Expire(due)
	x.wantOut(ackOf(75, 76))
	x.wantOut()
}

// An ACK never overtakes the answer of an earlier READ or ATOMIC, which the
// requester would take for a loss.
func TestAnswersInOrder(t *testing.T) {
	x := newTarget(t, RC)
	asked := func(d dg) dg { d.AckReq = true; return d }
	x.next(asked(write(wo, dataBase, 4, 4)))
	x.next(read(dataBase, 257))
	x.next(asked(write(wo, dataBase+512, 4, 4)))
	x.next(fetchAdd(dataBase+512, 0))
	x.next(asked(write(wo, dataBase+512, 4, 4)))
	data := string(x.m.regions[dataKey].data[:257])
	word := binary.NativeEndian.Uint64(x.m.regions[dataKey].data[512:])

	ask := func() (said, bool) {
		if !x.q.NextAck(x.now, &x.answer) {
			return said{}, false
		}
		return x.sent()
	}
	if got, _ := ask(); got != ackOf(0, 1) {
		t.Fatalf("first %+v, want the ACK of the first WRITE", got)
	}
	for i, op := range []rocev2.Opcode{rocev2.RCReadResponseFirst, rocev2.RCReadResponseLast} {
		if got, ok := ask(); ok {
			t.Fatalf("%+v before response %d of the READ", got, i)
		}
		if !x.q.NextData(x.now, &x.answer) {
			t.Fatalf("no response %d", i)
		}
		want := said{Op: op, PSN: psn(1 + i), Syndrome: noCredits, MSN: 2, Data: data[i*256 : min(i*256+256, 257)]}
		if got, _ := x.sent(); got != want {
			t.Fatalf("got %+v, want %+v", got, want)
		}
	}
	if x.q.NextData(x.now, &x.answer) {
		t.Fatal("data where the result of an ATOMIC is due")
	}
	x.wantOut( // the result acknowledges the WRITE before it
		said{Op: rocev2.RCAtomicAck, PSN: psn(4), Syndrome: noCredits, MSN: 4, Original: word},
		ackOf(5, 5))
}

// One NAK for a hole, another for the next one, none if the missing packet came first.
func TestSequenceError(t *testing.T) {
	x := newTarget(t, RC)
	put := func(n int) {
		w := write(wo, dataBase+uint64(n)*4, 4, 4)
		w.PSN, w.AckReq = psn(n), true
		x.in(w)
	}
	put(0)
	put(2)
	x.wantOut(nakOf(1, 1, rocev2.NAKPSNSequence))
	put(3)
	put(4)
	x.wantOut()
	put(0) // a duplicate is still answered
	x.wantOut(ackOf(0, 1))
	put(1)
	put(2)
	put(3)
	x.wantOut(ackOf(3, 4))
	put(5)
	x.wantOut(nakOf(4, 4, rocev2.NAKPSNSequence))
	put(4)
	put(6)
	put(5)
	x.wantOut(ackOf(5, 6))
	if x.count.OutOfSequence != 5 || x.count.DuplicateRequest != 1 || x.count.Delivered != 6 {
		t.Errorf("counted %+v", x.count)
	}
}

// Nobody posted a receive: an RNR NAK with our timer, silence until the packet comes
// again, and then everything as if nothing had been.
func TestReceiverNotReady(t *testing.T) {
	rnr := func(n int, msn uint32) said {
		return said{Op: rocev2.RCAck, PSN: psn(n), Syndrome: rocev2.SyndromeRNR(12), MSN: msn}
	}
	x := newTarget(t, RC)
	s := send(so, 8)
	s.PSN, s.AckReq = psn(0), true
	x.in(s)
	x.wantOut(rnr(0, 0))
	later := s
	later.PSN = psn(1)
	x.in(later)
	x.wantOut()
	x.in(s)
	x.wantOut(rnr(0, 0))
	x.postRecv(7, 1, 64)
	x.in(s)
	x.wantOut(ackOf(0, 1))
	x.wantDone(Completion{WRID: 7, Op: OpRecv, Bytes: 8})

	// A WRITE with immediate data needs its receive at the end; the last packet
	// writes nothing without.
	x.psn = psn(1)
	x.next(write(wf, dataBase, 264, 256))
	last := dg{Opcode: rocev2.RCWriteLastImm, PSN: psn(2), Imm: 3, AckReq: true, Payload: pattern(1, 8)}
	x.in(last)
	x.wantOut(rnr(2, 1))
	if got := x.m.regions[dataKey].data[256]; got != 0 {
		t.Errorf("the refused packet wrote %#x", got)
	}
	x.postRecv(8, 1, 0)
	x.in(last)
	x.wantOut(ackOf(2, 2))
	x.wantDone(Completion{WRID: 8, Op: OpRecvWriteImm, Bytes: 264, HasImm: true, Imm: 3})
	if x.count.RNRSent != 3 {
		t.Errorf("counted %d RNR NAKs, want 3", x.count.RNRSent)
	}
}

// Duplicates of SEND and WRITE have no effect but an ACK; one for many.
func TestDuplicates(t *testing.T) {
	x := newTarget(t, RC)
	x.postRecv(1, 2, 64)
	s := send(so, 8)
	s.PSN = psn(0)
	w := write(wo, dataBase, 8, 8)
	w.PSN, w.AckReq = psn(1), true
	x.in(s)
	x.in(w)
	x.wantOut(ackOf(1, 2))
	x.wantDone(Completion{WRID: 1, Op: OpRecv, Bytes: 8})
	clear(x.m.regions[dataKey].data)
	x.in(s)
	x.in(w)
	x.wantOut(ackOf(1, 2))
	x.in(w)
	x.wantOut(ackOf(1, 2))
	x.wantDone()
	if x.m.regions[dataKey].data[0] != 0 || x.q.rsp.ring.n != 1 || x.count.DuplicateRequest != 3 {
		t.Errorf("a duplicate had an effect: %d receives left, counted %+v", x.q.rsp.ring.n, x.count)
	}
}

// Duplicates of READ are answered from memory as it is now, all or a part of it; a
// READ that asks for something else under the same PSN is not.
func TestDuplicateRead(t *testing.T) {
	x := newTarget(t, RC)
	x.next(read(dataBase, 700))
	x.next(read(dataBase, 0))
	x.out()
	data := pattern(8, 700)
	copy(x.m.regions[dataKey].data, data)
	resp := func(op rocev2.Opcode, n int, from, to int) said {
		s := said{Op: op, PSN: psn(n), Data: string(data[from:to]), Again: true}
		if op != rocev2.RCReadResponseMiddle {
			s.Syndrome, s.MSN = noCredits, 1
		}
		return s
	}
	first, middle, last, only := rocev2.RCReadResponseFirst, rocev2.RCReadResponseMiddle, rocev2.RCReadResponseLast, rocev2.RCReadResponseOnly
	part := func(n int, va uint64, size uint32) dg {
		d := read(va, size)
		d.PSN = psn(n)
		return d
	}
	for _, c := range []struct {
		name string
		d    dg
		want []said
	}{
		{"all", part(0, dataBase, 700), []said{resp(first, 0, 0, 256), resp(middle, 1, 256, 512), resp(last, 2, 512, 700)}},
		{"the rest", part(1, dataBase+256, 444), []said{resp(first, 1, 256, 512), resp(last, 2, 512, 700)}},
		{"the last", part(2, dataBase+512, 188), []said{resp(only, 2, 512, 700)}},
		{"one of the middle", part(1, dataBase+256, 256), []said{resp(only, 1, 256, 512)}},
		{"nothing of nothing", part(3, dataBase, 0), []said{{Op: only, PSN: psn(3), Syndrome: noCredits, MSN: 2, Again: true}}},
		{"another key", func() dg { d := part(0, dataBase, 700); d.RKey = bufKey; return d }(), nil},
		{"more", part(0, dataBase, 701), nil},
		{"more from the middle", part(1, dataBase+256, 445), nil},
		{"another place", part(0, dataBase+1, 699), nil},
		{"a place of another PSN", part(1, dataBase, 256), nil},
		{"nothing of something", part(0, dataBase, 0), nil},
		{"something of nothing", part(3, dataBase, 1), nil},
		{"never asked", part(-3, dataBase, 700), nil},
	} {
		x.in(c.d)
		if got := x.out(); !slices.Equal(got, c.want) {
			t.Errorf("%s:\n got %+v\nwant %+v", c.name, got, c.want)
		}
	}
	if x.q.State() != RTR || x.count.SentAgain != 8 {
		t.Errorf("now in %s, sent %d again", x.q.State(), x.count.SentAgain)
	}
}

// Parts that are asked for again go out by PSN before what was never sent, which then
// goes on; and nothing goes out twice because it was asked for twice.
func TestDuplicateReadUnderway(t *testing.T) {
	x := newTarget(t, RC)
	x.next(read(dataBase, 6*256))
	x.next(read(dataBase, 256))
	for range 4 {
		x.q.NextData(x.now, &x.answer)
	}
	again := func(n int, size uint32) {
		d := read(dataBase+uint64(n)*256, size)
		d.PSN = psn(n)
		x.in(d)
	}
	again(2, 256)
	again(0, 256)
	again(2, 256)
	again(5, 256) // will come anyway
	var got []rocev2.PSN
	var ops []rocev2.Opcode
	for _, s := range x.out() {
		got, ops = append(got, s.PSN), append(ops, s.Op)
	}
	if want := []rocev2.PSN{psn(0), psn(2), psn(4), psn(5), psn(6)}; !slices.Equal(got, want) {
		t.Errorf("sent %v, want %v", got, want)
	}
	const middle, last, only = rocev2.RCReadResponseMiddle, rocev2.RCReadResponseLast, rocev2.RCReadResponseOnly
	if want := []rocev2.Opcode{only, only, middle, last, only}; !slices.Equal(ops, want) {
		t.Errorf("sent %v, want %v", ops, want)
	}

	// A requester that goes back asks for all of it from one point on.
	x = newTarget(t, RC)
	x.next(read(dataBase, 6*256))
	for range 4 {
		x.q.NextData(x.now, &x.answer)
	}
	again(1, 5*256)
	got = nil
	for _, s := range x.out() {
		got = append(got, s.PSN)
	}
	if want := []rocev2.PSN{psn(1), psn(2), psn(3), psn(4), psn(5)}; !slices.Equal(got, want) {
		t.Errorf("went back: sent %v, want %v", got, want)
	}
	if x.count.SentAgain != 3 {
		t.Errorf("went back: %d counted as sent again, want those 3 that had been sent", x.count.SentAgain)
	}
}

// A new READ in the place of one that is to be answered again: the requester has got
// that answer after all.
func TestNewReadEndsReplay(t *testing.T) {
	x := newTarget(t, RC, func(_ *Config, a *Attr) { a.MaxDestRdAtomic = 1 })
	x.next(read(dataBase, 4))
	x.out()
	again := read(dataBase, 4)
	again.PSN = psn(0)
	x.in(again)
	x.next(read(dataBase, 8))
	x.wantOut(said{Op: rocev2.RCReadResponseOnly, PSN: psn(1), Syndrome: noCredits, MSN: 2, Data: string(make([]byte, 8))})
}

// An ATOMIC is executed once; its duplicate gets the same answer, as long as it is
// one of the last MaxDestRdAtomic.
func TestDuplicateAtomic(t *testing.T) {
	x := newTarget(t, RC, func(_ *Config, a *Attr) { a.MaxDestRdAtomic = 2 })
	word := func() uint64 { return binary.NativeEndian.Uint64(x.m.regions[dataKey].data) }
	for n := range 3 {
		x.next(fetchAdd(dataBase, 10))
		x.wantOut(said{Op: rocev2.RCAtomicAck, PSN: psn(n), Syndrome: noCredits, MSN: uint32(n + 1), Original: uint64(n) * 10})
	}
	repeat := func(n int) {
		d := fetchAdd(dataBase, 10)
		d.PSN = psn(n)
		x.in(d)
	}
	repeat(2)
	repeat(1)
	repeat(2)
	x.wantOut(said{Op: rocev2.RCAtomicAck, PSN: psn(1), Syndrome: noCredits, MSN: 2, Original: 10},
		said{Op: rocev2.RCAtomicAck, PSN: psn(2), Syndrome: noCredits, MSN: 3, Original: 20})
	repeat(0) // forgotten
	x.wantOut()
	if word() != 30 {
		t.Errorf("the word is %d, want 30", word())
	}
	x.next(fetchAdd(dataBase, 10))
	repeat(3) // not answered yet
	x.wantOut(said{Op: rocev2.RCAtomicAck, PSN: psn(3), Syndrome: noCredits, MSN: 4, Original: 30})
}

// A READ that changes MaxDestRdAtomic in SQD finds its answers again.
func TestResizeResources(t *testing.T) {
	x := newTarget(t, RC)
	x.next(read(dataBase, 256))
	x.next(read(dataBase, 256))
	x.q.attr.MaxDestRdAtomic = 3
	x.next(read(dataBase, 256))
	x.q.attr.MaxDestRdAtomic = 2
	if got := x.out(); len(got) != 3 || got[2].PSN != psn(2) {
		t.Errorf("answers %+v", got)
	}
	x.next(read(dataBase, 256))
	x.next(read(dataBase, 256))
	if got := x.out(); len(got) != 2 || got[1].PSN != psn(4) {
		t.Errorf("answers %+v", got)
	}
}

// SEND with invalidate takes effect before its completion.
func TestSendInvalidate(t *testing.T) {
	x := newTarget(t, RC)
	x.postRecv(1, 2, 64)
	x.next(dg{Opcode: rocev2.RCSendOnlyInv, RKey: dataKey, AckReq: true, Payload: pattern(0, 5)})
	x.wantOut(ackOf(0, 1))
	x.wantDone(Completion{WRID: 1, Op: OpRecv, Bytes: 5, HasInv: true, InvKey: dataKey})
	x.next(write(wo, dataBase, 4, 4))
	x.wantOut(nakOf(1, 1, rocev2.NAKRemoteAccess))
}

// Zero bytes touch nothing and need no key (IBTA 9.7.4.1).
func TestZeroLength(t *testing.T) {
	x := newTarget(t, RC)
	x.postRecv(1, 2, 0)
	x.next(dg{Opcode: wo, VA: 1, RKey: 0xBAD})
	x.next(dg{Opcode: rocev2.RCWriteOnlyImm, VA: 1, RKey: 0xBAD, Imm: 6})
	x.next(dg{Opcode: so, AckReq: true})
	x.next(dg{Opcode: rocev2.RCReadRequest, VA: 1, RKey: 0xBAD})
	x.wantOut(ackOf(2, 3), said{Op: rocev2.RCReadResponseOnly, PSN: psn(3), Syndrome: noCredits, MSN: 4})
	x.wantDone(Completion{WRID: 1, Op: OpRecvWriteImm, HasImm: true, Imm: 6}, Completion{WRID: 2, Op: OpRecv})
}

// A SEND is spread over the list of its receive, across empty elements.
func TestScatter(t *testing.T) {
	x := newTarget(t, RC)
	x.m.add(0x300, 0x5000, 100, mem.LocalWrite)
	data := pattern(4, 512+40)
	sgl := []SGE{{Addr: bufBase, Len: 100, LKey: bufKey}, {LKey: 0xBAD}, {Addr: 0x5000 + 60, Len: 40, LKey: 0x300}, {Addr: bufBase + 1000, Len: 500, LKey: bufKey}}
	if err := x.q.PostRecv(&RecvWR{ID: 5, SGL: sgl}); err != nil {
		t.Fatal(err)
	}
	clear(sgl) // PostRecv made a copy
	x.next(dg{Opcode: sf, Payload: data[:256]})
	x.next(dg{Opcode: sm, Payload: data[256:512]})
	x.next(dg{Opcode: sl, Payload: data[512:]})
	x.wantDone(Completion{WRID: 5, Op: OpRecv, Bytes: 552})
	buf := x.m.regions[bufKey].data
	if got := slices.Concat(buf[:100], x.m.regions[0x300].data[60:], buf[1000:1412]); string(got) != string(data) {
		t.Errorf("the parts hold %x, want %x", got, data)
	}
}

// A packet whose bytes fall into a bad element writes nothing into the good one.
func TestScatterChecksFirst(t *testing.T) {
	x := newTarget(t, RC)
	x.q.PostRecv(&RecvWR{ID: 5, SGL: []SGE{{Addr: bufBase, Len: 4, LKey: bufKey}, {Addr: bufBase, Len: 8, LKey: 0xBAD}}})
	x.next(send(so, 8))
	x.wantDone(Completion{WRID: 5, Op: OpRecv, Status: LocalProtection, Solicited: true})
	if got := x.m.regions[bufKey].data[1]; got != 0 {
		t.Errorf("wrote %#x before the check", got)
	}
}

// Modify to ERR flushes in order, across growth and wrap of the ring; RESET forgets.
func TestFlush(t *testing.T) {
	x := newTarget(t, RC)
	x.postRecv(0, 3, 64)
	x.next(send(so, 1))
	x.next(send(so, 1))
	x.postRecv(3, 10, 64)
	x.next(send(sf, 256-192)) // refused: also an error flushes
	got := x.cq.take()
	if len(got) != 13 {
		t.Fatalf("%d completions, want 13", len(got))
	}
	for i, c := range got {
		if c.WRID != uint64(i) || (c.Status == WRFlushed) != (i >= 2) {
			t.Errorf("completion %d: %+v", i, c)
		}
	}

	x = newTarget(t, RC)
	x.postRecv(0, 2, 512)
	x.next(send(sf, 256))
	x.next(read(dataBase, 4)) // would be answered, but for Modify
	x = newTarget(t, RC)
	x.postRecv(0, 2, 512)
	x.next(read(dataBase, 4))
	x.next(send(sf, 256))
	if err := x.q.Modify(Attr{State: Err}, MaskState); err != nil {
		t.Fatal(err)
	}
	x.wantOut()
	x.wantDone(Completion{WRID: 0, Status: WRFlushed, Op: OpRecv, Solicited: true}, Completion{WRID: 1, Status: WRFlushed, Op: OpRecv, Solicited: true})

	x = newTarget(t, RC)
	x.postRecv(0, 2, 512)
	x.next(read(dataBase, 4))
	x.next(send(sf, 256))
	if err := x.q.Modify(Attr{State: Reset}, MaskState); err != nil {
		t.Fatal(err)
	}
	x.wantOut()
	x.wantDone()
	if x.q.Attr() != (Attr{}) || x.q.rsp.ring.n != 0 {
		t.Errorf("RESET left %+v and %d receives", x.q.Attr(), x.q.rsp.ring.n)
	}
}
