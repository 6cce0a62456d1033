// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"net/netip"
	"slices"
	"testing"
	"unsafe"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/mad"
	"github.com/softroce/softroce-xdp/rocev2/qp"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

var (
	us    = netip.MustParseAddr("10.0.0.1")
	peer  = netip.MustParseAddr("10.0.0.2")
	alien = netip.MustParseAddr("10.0.0.3")
)

// bench is a core without ports.
func bench(t *testing.T) *Core {
	t.Helper()
	return newCore(1500, RuntimeConfig{})
}

// queuePairAt is a queue pair that is queued to send at a destination when it has something to send.
func queuePairAt(d *dest) *QP {
	x := &QP{egress: egress{home: d}}
	x.qp = x
	return x
}

// receiving is a queue pair in RTR whose peer is the address. There is no route to it.
func receiving(t *testing.T, e *Core, typ verbs.QPType) *QP {
	t.Helper()
	x := &QP{}
	cq := &testCQ{e: e}
	if err := e.AddQP(x, QPConfig{Config: qp.Config{Type: typ, SendCQ: cq, RecvCQ: cq}}); err != nil {
		t.Fatal(err)
	}
	a := verbs.Attr{State: verbs.StateInit}
	if err := x.q.Modify(a, verbs.MaskState|verbs.MaskAccess); err != nil {
		t.Fatal(err)
	}
	a.State, a.PMTU, a.DestQPN = verbs.StateRTR, rocev2.PMTU1024, 5
	if err := x.q.Modify(a, verbs.MaskState|verbs.MaskPMTU|verbs.MaskDestQPN|verbs.MaskRQPSN|verbs.MaskMaxDestRdAtomic|verbs.MaskMinRNRTimer); err != nil {
		t.Fatal(err)
	}
	x.src, x.Address = us, Address{Path: fixed(*noRoute), dest: &dest{addr: peer}}
	return x
}

// What is not for a queue pair, or not from its peer, or damaged, is counted and goes
// no further.
func TestRefusedPackets(t *testing.T) {
	e := bench(t)
	x := receiving(t, e, verbs.RC)
	good := rocev2.Datagram{Src: peer, Dst: us, Opcode: rocev2.RCSendOnly, DestQP: x.num, AckReq: true}
	for _, c := range []struct {
		name  string
		edit  func(*rocev2.Datagram)
		spoil func([]byte) []byte
		count *uint64
	}{
		{"good", func(*rocev2.Datagram) {}, nil, &e.count.rxPackets},
		{"ICRC", func(*rocev2.Datagram) {}, func(b []byte) []byte { b[len(b)-1] ^= 1; return b }, &e.count.rxBadICRC},
		{"cut off", func(*rocev2.Datagram) {}, func(b []byte) []byte { return b[:len(b)-8] }, &e.count.rxMalformed},
		{"no RoCE", func(*rocev2.Datagram) {}, func(b []byte) []byte { b[12] = 9; return b }, &e.count.rxMalformed},
		{"unknown number", func(d *rocev2.Datagram) { d.DestQP++ }, nil, &e.count.rxUnknownQPN},
		{"an earlier generation", func(d *rocev2.Datagram) { d.DestQP ^= 1 << 16 }, nil, &e.count.rxUnknownQPN},
		{"other partition", func(d *rocev2.Datagram) { d.PKey = 0x8001 }, nil, &e.count.rxBadPKey},
		{"limited member is enough", func(d *rocev2.Datagram) { d.PKey = 0x7FFF }, nil, &e.count.rxPackets},
		{"other sender", func(d *rocev2.Datagram) { d.Src = alien }, nil, &e.count.rxWrongPeer},
		{"other address of ours", func(d *rocev2.Datagram) { d.Dst = alien }, nil, &e.count.rxWrongPeer},
	} {
		d := good
		c.edit(&d)
		b, err := d.AppendTo([]byte{12: 8, 13: 0})
		if err != nil {
			t.Fatal(err)
		}
		if c.spoil != nil {
			b = c.spoil(b)
		}
		before := e.count
		was := *c.count
		e.rx.frame(b, Meta{}, false)
		if *c.count != was+1 {
			t.Errorf("%s: counted %+v, before %+v", c.name, e.count, before)
		}
	}
	if e.qpCount.RecvPackets != 2 {
		t.Errorf("the queue pair got %d packets", e.qpCount.RecvPackets)
	}
}

// A UD queue pair and the communication manager take packets to the addresses of the device's interfaces
// only, from any sender (S8).
func TestUDOtherAddress(t *testing.T) {
	second, rail := netip.MustParseAddr("fd00::1"), netip.MustParseAddr("10.1.0.1")
	for _, qpn := range []uint32{0, mad.QPN} {
		e := bench(t)
		e.host = &testHost{owns: []netip.Addr{us, second, rail}}
		e.StartMADs(new(manager))
		x := &QP{}
		if err := e.AddQP(x, QPConfig{Config: qp.Config{Type: verbs.UD}}); err != nil {
			t.Fatal(err)
		}
		if err := x.q.Modify(verbs.Attr{State: verbs.StateInit, QKey: mad.QKey}, verbs.MaskState|verbs.MaskQKey); err != nil {
			t.Fatal(err)
		}
		if err := x.q.Modify(verbs.Attr{State: verbs.StateRTR}, verbs.MaskState); err != nil {
			t.Fatal(err)
		}
		taken := &e.count.rxPackets
		if qpn == mad.QPN {
			taken = &e.count.rxMADs
		} else {
			qpn = x.num
		}
		for dst, own := range map[netip.Addr]bool{us: true, second: true, rail: true, alien: false, netip.MustParseAddr("fd00::3"): false} {
			d := rocev2.Datagram{Src: peer, Dst: dst, Opcode: rocev2.UDSendOnly, DestQP: qpn, QKey: mad.QKey, SrcQP: 1, Payload: make([]byte, mad.Len)}
			link := []byte{12: 8, 13: 0}
			if dst.Is6() {
				d.Src, link = netip.MustParseAddr("fd00::2"), []byte{12: 0x86, 13: 0xdd}
			}
			b, err := d.AppendTo(link)
			if err != nil {
				t.Fatal(err)
			}
			before, refused := *taken, e.count.rxOtherAddress
			e.rx.frame(b, Meta{}, false)
			if got := *taken - before; got == 1 != own || e.count.rxOtherAddress-refused == 1 == own {
				t.Errorf("QP %d, to %s: taken %d, %d refused", qpn, dst, got, e.count.rxOtherAddress-refused)
			}
		}
	}
}

// The metadata is what bpf/lib/abi.h says.
func TestMeta(t *testing.T) {
	m := bpf.RxMeta{Magic: bpf.MetaMagic, Flags: 9, Ce: 1, Proven: 1, T1Ns: 1 << 40, T2Ns: 1<<40 + 5, Credit: 1 << 20, CreditSeq: 7}
	b := unsafe.Slice((*byte)(unsafe.Pointer(&m)), unsafe.Sizeof(m))
	if got, ok := ParseMeta(b); !ok || got != (Meta{Flags: 9, Proven: true, CE: true, T1: 1 << 40, T2: 1<<40 + 5, Credit: 1 << 20, CreditSeq: 7}) {
		t.Errorf("%+v, %v", got, ok)
	}
	m.Magic++
	for _, bad := range [][]byte{b, b[:31], nil} {
		if _, ok := ParseMeta(bad); ok {
			t.Errorf("%d bytes were taken for metadata", len(bad))
		}
	}
}

// Two queue pairs at one destination get the same share whatever their packets' sizes.
func TestFairShare(t *testing.T) {
	e := bench(t)
	d := &dest{}
	a, b := queuePairAt(d), queuePairAt(d)
	e.tx.enqueue(&a.egress)
	e.tx.enqueue(&b.egress)
	sent := map[*QP]int{}
	for range 10000 {
		x := d.drr.First().qp
		n := 4170
		if x == b {
			n = 90
		}
		sent[x] += n
		e.tx.chargeDeficit(d, x, n)
	}
	if r := float64(sent[a]) / float64(sent[b]); r < .95 || r > 1.05 {
		t.Errorf("%d and %d bytes", sent[a], sent[b])
	}
}

// A queue pair that loses its destination is removed from the queue, wherever it is, and
// waits for the pacer of its next destination only.
func TestRemovedFromQueue(t *testing.T) {
	for at := range 3 {
		e := bench(t)
		e.dests.rails[0].config.Paced = true
		old, next := &dest{addr: peer, paceBlocked: 1}, &dest{addr: alien}
		all := []*QP{queuePairAt(old), queuePairAt(old), queuePairAt(old)}
		for _, x := range all {
			e.tx.enqueue(&x.egress)
		}
		x := all[at]
		e.unroute(x)
		x.home = next
		e.tx.enqueue(&x.egress)
		if next.drr.First().qp != x || !slices.Equal(slices.Collect(e.tx.ready.All), []*dest{next}) {
			t.Errorf("%d: it is not queued at its next destination", at)
		}
		late := queuePairAt(old)
		e.tx.enqueue(&late.egress)
		var got []*QP
		for !old.drr.Empty() {
			got = append(got, old.drr.First().qp)
			old.dequeue()
		}
		if want := append(slices.Delete(slices.Clone(all), at, at+1), late); !slices.Equal(got, want) {
			t.Errorf("%d: %d queue pairs stay, want %d in order", at, len(got), len(want))
		}
	}
}

// Without an agent nothing is paced.
func TestPacedByAgentOnly(t *testing.T) {
	e := bench(t)
	e.dests.rails[0].config, e.now = RuntimeConfig{Paced: true}, 1e12
	d := &dest{pacer: newBucket(1e6)}
	if d.consumeTokens(e, 1000, false); d.mayLeave(e) {
		t.Error("not paced with an agent")
	}
	if e.dests.rails[0].config.Paced = false; !d.mayLeave(e) {
		t.Error("paced without an agent")
	}
}

// Round trips to peers without stamps: one packet at a time, never one that was
// sent twice.
func TestProbe(t *testing.T) {
	var p probe
	x, y := &QP{}, &QP{}
	out := func(psn rocev2.PSN, again bool) *qp.Outbound {
		return &qp.Outbound{Datagram: rocev2.Datagram{PSN: psn, AckReq: true}, Again: again}
	}
	p.leaves(x, out(5, false), 100)
	p.leaves(x, out(6, false), 200)
	if rtt, _ := p.answered(y, rocev2.OperationAck, 5, 300); rtt != 0 {
		t.Error("another queue pair's answer counted")
	}
	if rtt, sent := p.answered(x, rocev2.OperationAck, 5, 300); rtt != 200 || sent != 100 {
		t.Errorf("%d, sent at %d", rtt, sent)
	}
	p.leaves(x, out(7, false), 400)
	p.leaves(x, out(7, true), 500)
	if rtt, _ := p.answered(x, rocev2.OperationAck, 7, 600); rtt != 0 {
		t.Error("the answer to a packet that was sent twice counted")
	}
}
