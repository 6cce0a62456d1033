// SPDX-License-Identifier: Apache-2.0

package qp

import (
	"encoding/binary"
	"slices"
	"testing"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Duplicates of READ are answered from memory as it is now, all or a part; a READ for other
// memory with the same PSN is dropped.
func TestDuplicateRead(t *testing.T) {
	x := newTarget(t, verbs.RC)
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
	if x.q.State() != verbs.StateRTR || x.count.SentAgain != 8 {
		t.Errorf("now in %s, sent %d again", x.q.State(), x.count.SentAgain)
	}
}

// Parts requested again are sent by PSN before new responses, which then continue; nothing is
// sent twice because it was requested twice.
func TestDuplicateReadInProgress(t *testing.T) {
	x := newTarget(t, verbs.RC)
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
	again(5, 256) // is sent anyway
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

	// A requester that goes back requests all from one point on.
	x = newTarget(t, verbs.RC)
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

// A new READ in the place of one with a replay: the requester has that response already.
func TestNewReadEndsReplay(t *testing.T) {
	x := newTarget(t, verbs.RC, func(_ *Config, a *verbs.Attr) { a.MaxDestRdAtomic = 1 })
	x.next(read(dataBase, 4))
	x.out()
	again := read(dataBase, 4)
	again.PSN = psn(0)
	x.in(again)
	x.next(read(dataBase, 8))
	x.wantOut(said{Op: rocev2.RCReadResponseOnly, PSN: psn(1), Syndrome: noCredits, MSN: 2, Data: string(make([]byte, 8))})
}

// An ATOMIC is executed once; its duplicate gets the same response, as long as it is one of
// the last MaxDestRdAtomic.
func TestDuplicateAtomic(t *testing.T) {
	x := newTarget(t, verbs.RC, func(_ *Config, a *verbs.Attr) { a.MaxDestRdAtomic = 2 })
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
	repeat(0) // not stored any more
	x.wantOut()
	if word() != 30 {
		t.Errorf("the word is %d, want 30", word())
	}
	x.next(fetchAdd(dataBase, 10))
	repeat(3) // not answered yet
	x.wantOut(said{Op: rocev2.RCAtomicAck, PSN: psn(3), Syndrome: noCredits, MSN: 4, Original: 30})
}

// A change of MaxDestRdAtomic in SQD keeps the resources.
func TestResizeResources(t *testing.T) {
	x := newTarget(t, verbs.RC)
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

// READs and ATOMICs beyond MaxDestRdAtomic: the allowed number is answered first.
func TestTooManyReads(t *testing.T) {
	x := newTarget(t, verbs.RC, func(_ *Config, a *verbs.Attr) { a.MaxDestRdAtomic = 2 })
	x.next(read(dataBase, 4))
	x.next(fetchAdd(dataBase, 1))
	// Both are answered, so there is room again. The READ returns what the ATOMIC wrote: its
	// data is read when it is sent, and nothing fenced it (IBTA 10.8.3.3).
	x.wantOut(
		said{Op: rocev2.RCReadResponseOnly, PSN: psn(0), Syndrome: noCredits, MSN: 1, Data: "\x01\x00\x00\x00"},
		said{Op: rocev2.RCAtomicAck, PSN: psn(1), Syndrome: noCredits, MSN: 2})
	x.next(read(dataBase, 4))
	x.next(read(dataBase, 4))
	x.next(fetchAdd(dataBase, 1))
	one := said{Op: rocev2.RCReadResponseOnly, PSN: psn(2), Syndrome: noCredits, MSN: 3, Data: "\x01\x00\x00\x00"}
	two := one
	two.PSN, two.MSN = psn(3), 4
	x.wantOut(one, two, nakOf(4, 4, rocev2.NAKInvalidRequest))
	if got := x.m.regions[dataKey].data[0]; got != 1 {
		t.Errorf("the word is %d: the refused ATOMIC was executed", got)
	}
}

// Memory that becomes inaccessible between a READ and its response: a NAK replaces the
// response, and later requests get none.
func TestReadFailsInProgress(t *testing.T) {
	for _, c := range []struct {
		break_ func(*testMemory)
		nak    rocev2.NAKCode
		event  verbs.EventType
	}{
		{func(m *testMemory) { m.regions[dataKey].gone = true }, rocev2.NAKRemoteAccess, verbs.EventQPAccess},
		{func(m *testMemory) { m.broken = true }, rocev2.NAKRemoteOp, verbs.EventQPFatal},
	} {
		x := newTarget(t, verbs.RC)
		x.postRecv(1, 1, 64)
		x.next(read(dataBase, 1000))
		x.next(read(dataBase, 1000))
		x.next(dg{Opcode: so, AckReq: true})
		x.events = nil
		if !x.q.NextData(x.now, &x.answer) {
			t.Fatal("no first response")
		}
		if _, ok := x.sent(); !ok {
			t.Fatal("the first response failed")
		}
		c.break_(x.m)
		x.wantOut(nakOf(1, 0, c.nak))
		x.wantEvents(c.event)
		x.wantDone(verbs.Completion{WRID: 1, Op: verbs.OpRecv})
		if x.q.State() != verbs.StateErr {
			t.Errorf("now in %s", x.q.State())
		}
	}
}

// Memory that becomes inaccessible after the response to a READ: a request for it again gets none, and
// the connection goes on. The requester told the application, by a SEND for example, that it has the data.
func TestMemoryGoneAfterRead(t *testing.T) {
	const packets = 4
	for _, from := range []int{0, packets - 1} {
		x := newTarget(t, verbs.RC)
		x.postRecv(1, 1, 64)
		x.next(read(dataBase, packets*256))
		if n := len(x.out()); n != packets {
			t.Fatalf("%d packets of response", n)
		}
		again := read(dataBase+uint64(from)*256, uint32(packets-from)*256)
		again.PSN = psn(from)
		x.in(again)
		x.m.regions[dataKey].gone = true
		x.next(dg{Opcode: so, AckReq: true})
		x.wantOut(ackOf(packets, 2))
		x.wantDone(verbs.Completion{WRID: 1, Op: verbs.OpRecv})
		if x.q.State() != verbs.StateRTR || x.count.Ignored != 1 {
			t.Errorf("now in %s, ignored %d", x.q.State(), x.count.Ignored)
		}
	}
}

// The same while a part of the response was never sent: the requester does not have that part, and gets
// the NAK, whether it goes back or asks for a part again.
func TestMemoryGoneDuringRead(t *testing.T) {
	const packets = 4
	for _, n := range []int{packets, 1} {
		x := newTarget(t, verbs.RC)
		x.next(read(dataBase, packets*256))
		for range 2 {
			if !x.q.NextData(x.now, &x.answer) {
				t.Fatal("no response")
			}
		}
		again := read(dataBase, uint32(n)*256)
		again.PSN = psn(0)
		x.in(again)
		x.m.regions[dataKey].gone = true
		x.wantOut(nakOf(0, 0, rocev2.NAKRemoteAccess))
		if x.q.State() != verbs.StateErr {
			t.Errorf("now in %s", x.q.State())
		}
	}
}

// The Missed count: a READ requested again reveals the loss of that part, if only a part of
// the responses sent is requested, and of one packet if the requester goes back and drops
// what it has. Responses not sent yet are not lost.
func TestResponderMissed(t *testing.T) {
	const packets = 8
	for _, c := range []struct {
		name      string
		sent      int // packets sent before the second request
		from, n   int
		selective bool
		again     int // packets sent again
		missed    uint16
		atFirst   uint16 // missed packets that the first packet revealed
	}{
		{"one", packets, 2, 1, false, 1, 1, 1},
		{"three in a row", packets, 2, 3, false, 3, 3, 3},
		{"all from there on", packets, 2, 6, false, 6, 1, 1},
		{"all from there on, half sent", 4, 2, 6, false, 2, 1, 1},
		{"what comes anyway", 4, 5, 2, false, 0, 0, 0},
		{"our engine, which has no response yet", packets, 0, packets, true, 1, 0, 0},
		{"our engine, which misses three", packets, 2, 3, true, 3, 3, 3},
	} {
		x := newTarget(t, verbs.RC, func(_ *Config, a *verbs.Attr) { a.Selective = c.selective })
		x.next(read(dataBase, packets*256))
		for range c.sent {
			x.q.NextData(x.now, &x.answer)
		}
		d := read(dataBase+uint64(c.from)*256, uint32(c.n*256))
		d.PSN = psn(c.from)
		x.in(d)
		var again int
		var missed, first uint16
		for i := 0; x.q.NextData(x.now, &x.answer); i++ {
			if x.answer.Again {
				again++
			}
			if missed += x.answer.Missed; i == 0 {
				first = x.answer.Missed
			}
		}
		if again != c.again || missed != c.missed || first != c.atFirst {
			t.Errorf("%s: %d sent again, %d missed, %d of them at first, want %d, %d, %d", c.name, again, missed, first, c.again, c.missed, c.atFirst)
		}
	}
}
