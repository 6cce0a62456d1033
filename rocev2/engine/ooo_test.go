// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/ooo"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// oooPair is two queue pairs in out-of-order mode of an engine, with memory of each.
type oooPair struct {
	*loopback
	qps  [2]*QP
	mem  [2][]byte
	keys [2]verbs.MR
	sent int // messages that a posts
	got  map[uint64]verbs.Completion
	recv []verbs.Completion
}

const oooMemoryLen = 1 << 20

// oooPSNs are the first PSNs of the two. That of the first wraps after two windows.
var oooPSNs = [2]rocev2.PSN{0xFFFE00, 0x7FFFFC}

// newOOOQP makes a queue pair in the mode.
func (l *loopback) newOOOQP(depth int) *QP { return l.newPayloadQP(depth, 0) }

// newPayloadQP makes one with so much data in a packet, 0 = that of the PMTU.
func (l *loopback) newPayloadQP(depth, payload int) *QP {
	l.t.Helper()
	x, c := &QP{}, l.config(verbs.RC, depth)
	c.OutOfOrder, c.Payload = true, payload
	err := l.e.AddQP(x, c)
	if err != nil {
		l.t.Fatal(err)
	}
	return x
}

func newOOOPair(t *testing.T, seed uint64, depth int) *oooPair {
	return newPayloadPair(t, seed, depth, 0)
}

func newPayloadPair(t *testing.T, seed uint64, depth, payload int) *oooPair {
	p := &oooPair{loopback: newLoopback(t, seed), got: map[uint64]verbs.Completion{}}
	attr := verbs.DefaultAttr()
	attr.PMTU = rocev2.PMTU1024
	for i := range p.qps {
		p.qps[i], p.mem[i] = p.newPayloadQP(depth, payload), make([]byte, oooMemoryLen)
		var err error
		if p.keys[i], err = p.pd.RegMR(p.mem[i], verbs.AccessLocalWrite|verbs.AccessRemoteWrite|verbs.AccessRemoteRead); err != nil {
			t.Fatal(err)
		}
	}
	for i, x := range p.qps {
		if err := verbs.Connect(fixedPath{x}, verbs.Endpoint{PSN: oooPSNs[i]}, verbs.Endpoint{QPN: p.qps[1-i].num, PSN: oooPSNs[1-i]}, attr); err != nil {
			t.Fatal(err)
		}
	}
	for i := range p.mem[0] {
		p.mem[0][i] = byte(p.rand.Uint32())
	}
	return p
}

// order posts a message of the first queue pair between the same places of both memories.
func (p *oooPair) order(id uint64, op verbs.Op, off, n int) {
	p.t.Helper()
	p.sent++
	err := p.qps[0].PostSend(&verbs.SendWR{
		ID: id, Op: op, Flags: verbs.Signaled, Imm: uint32(id),
		SGL:        []verbs.SGE{{Addr: p.keys[0].VA() + uint64(off), Len: uint32(n), LKey: p.keys[0].LKey()}},
		RemoteAddr: p.keys[1].VA() + uint64(off), RKey: p.keys[1].RKey(),
	})
	if err != nil {
		p.t.Fatal(err)
	}
}

// until runs the engine until all messages have completed, and the queue pairs are silent, for a virtual minute at most.
func (p *oooPair) until() {
	p.t.Helper()
	for start := time.Now(); ; {
		if err := p.iterate(5 * time.Microsecond); err != nil {
			p.t.Fatal(err)
		}
		n := p.cq.take(p.batch[:])
		for _, c := range p.batch[:n] {
			if c.Op == verbs.OpRecvNotify || c.Op == verbs.OpRecv {
				p.recv = append(p.recv, c)
				continue
			}
			if _, twice := p.got[c.WRID]; twice {
				p.t.Fatalf("message %d completes twice", c.WRID)
			}
			p.got[c.WRID] = c
		}
		if len(p.got) == p.sent && len(p.link.packets) == 0 && p.e.rx.loopback.count == 0 {
			return
		}
		if time.Since(start) > time.Minute {
			p.t.Fatalf("%d of %d messages have completed after a virtual minute", len(p.got), p.sent)
		}
	}
}

// A WRITE arrives, and completes at its source only.
func TestOutOfOrderWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newOOOPair(t, 1, 16)
		p.order(7, verbs.OpWrite, 100, 5000)
		p.until()
		if c := p.got[7]; c.Status != verbs.StatusSuccess || c.Op != verbs.OpWrite || c.QPN != p.qps[0].num || len(p.recv) != 0 {
			t.Errorf("%+v, and %d completions at the target", c, len(p.recv))
		}
		if !bytes.Equal(p.mem[0][100:5100], p.mem[1][100:5100]) {
			t.Error("other data has arrived")
		}
		if p.e.ooo.count.Placed != 5 || p.e.ooo.count.Resent != 0 {
			t.Errorf("%+v", p.e.ooo.count)
		}
	})
}

// A packet has as much data as QPInit.Payload says: of WRITE, and of the responses to READ.
func TestOutOfOrderPayload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPayloadPair(t, 1, 16, 1392)
		for id, op := range []verbs.Op{verbs.OpWrite, verbs.OpRead} {
			before := p.e.ooo.count
			p.mem[id][0] ^= 0xFF
			p.order(uint64(id), op, 0, 5000)
			p.until()
			after := p.e.ooo.count
			if n := after.Placed + after.ReadPlaced - before.Placed - before.ReadPlaced; p.got[uint64(id)].Status != verbs.StatusSuccess || n != 4 {
				t.Errorf("operation %d: %s, 5000 bytes in %d packets", op, p.got[uint64(id)].Status, n)
			}
			if !bytes.Equal(p.mem[0][:5000], p.mem[1][:5000]) {
				t.Errorf("operation %d: memory differs", op)
			}
		}
	})
}

// Messages of all operations over a wire that loses, duplicates and reorders packets: memory is equal, and
// each notification arrives once, when its data is there.
func TestOutOfOrderImpaired(t *testing.T) {
	t.Run("path MTU", func(t *testing.T) { testOrderImpaired(t, 0) })
	t.Run("payload 1372", func(t *testing.T) { testOrderImpaired(t, 1372) })
}

func testOrderImpaired(t *testing.T, payload int) {
	synctest.Test(t, func(t *testing.T) {
		const messages, longest = 300, 9000
		p := newPayloadPair(t, 2, 64, payload)
		p.link = link{loss: .05, duplicates: .1, rate: 10e9, delay: 10 * time.Microsecond, jitter: 100 * time.Microsecond}
		ops := []verbs.Op{verbs.OpWrite, verbs.OpWriteNotify, verbs.OpRead}
		posted, notified := 0, map[uint32]int{}
		for i := 0; i < messages; i += 30 {
			want := [2][]byte{bytes.Clone(p.mem[0]), bytes.Clone(p.mem[1])}
			for k := range 30 {
				id := uint64(i + k)
				off, n := k*(longest+100), 1+p.rand.IntN(longest)
				op := ops[p.rand.IntN(len(ops))]
				switch op {
				case verbs.OpRead:
					copy(want[0][off:off+n], p.mem[1][off:off+n])
				case verbs.OpWriteNotify:
					posted++
					notified[uint32(id)] = n
					if err := p.qps[1].PostRecv(&verbs.RecvWR{ID: id}); err != nil {
						t.Fatal(err)
					}
					fallthrough
				default:
					copy(want[1][off:off+n], p.mem[0][off:off+n])
				}
				p.order(id, op, off, n)
			}
			p.until()
			for side := range want {
				if !bytes.Equal(want[side], p.mem[side]) {
					t.Fatalf("memory of side %d differs after message %d", side, i)
				}
			}
		}
		for id, c := range p.got {
			if c.Status != verbs.StatusSuccess {
				t.Errorf("message %d: %+v", id, c)
			}
		}
		for _, c := range p.recv {
			n, ok := notified[c.Imm]
			if !ok || c.Status != verbs.StatusSuccess || int(c.Bytes) != n || !c.HasImm || c.QPN != p.qps[1].num {
				t.Errorf("notification %+v of a message of %d bytes", c, n)
			}
			delete(notified, c.Imm)
		}
		if len(p.recv) != posted || len(notified) != 0 {
			t.Errorf("%d notifications of %d", len(p.recv), posted)
		}
		if c := p.e.ooo.count; c.Resent == 0 || c.Duplicates == 0 {
			t.Errorf("nothing was lost or duplicated: %+v", c)
		}
	})
}

// The packets of a message take many UDP source ports, in the range of path identities.
func TestOutOfOrderPaths(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newOOOPair(t, 9, 16)
		p.order(1, verbs.OpWrite, 0, 30_000)
		x, ports := p.qps[0], map[uint16]bool{}
		for o := x.nextData(p.e, &x.egress); o != nil; o = x.nextData(p.e, &x.egress) {
			port := x.srcPort(o)
			if port < 0xC000 {
				t.Fatalf("source port %#x", port)
			}
			ports[port] = true
		}
		if len(ports) < 4 {
			t.Errorf("%d ports for 30 packets", len(ports))
		}
	})
}

// A packet of RC to a queue pair in the mode is counted, and not answered.
func TestOutOfOrderOtherPacket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newOOOPair(t, 10, 16)
		x := p.qps[0]
		d := rocev2.Datagram{Src: us, Dst: us, Opcode: rocev2.RCSendOnly, DestQP: x.num, PKey: rocev2.DefaultPKey, AckReq: true}
		b, err := d.AppendTo([]byte{12: 8, 13: 0})
		if err != nil {
			t.Fatal(err)
		}
		p.e.rx.frame(b, Meta{}, false)
		if p.e.qpCount.Malformed != 1 || x.nextAck(p.e) != nil {
			t.Errorf("%d malformed packets", p.e.qpCount.Malformed)
		}
	})
}

// With stamps, whose clock is not that of the engine, round trips are measured, and a packet that was sent
// again without need is recognised by the echo.
func TestOutOfOrderStamps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newOOOPair(t, 12, 64)
		p.e.dests.rails[0].config.ClockOffset = 1<<60 + 123_456_789
		p.link = link{stamps: true, loss: .01, rate: 10e9, delay: 10 * time.Microsecond, jitter: 200 * time.Microsecond}
		for id := range uint64(50) {
			p.order(id, verbs.OpWrite, 0, 20_000)
		}
		p.until()
		if rtt := p.qps[0].transport.(*ooo.Transport).QP().RTT(); rtt < 20*ooo.Microsecond || rtt > ooo.Millisecond {
			t.Errorf("the round-trip time is %d ns", rtt)
		}
		if c := p.e.ooo.count; c.Spurious == 0 || c.Spurious > c.Resent {
			t.Errorf("%d of %d retransmissions are known to have been without need", c.Spurious, c.Resent)
		}
	})
}
