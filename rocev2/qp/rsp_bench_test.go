// SPDX-License-Identifier: Apache-2.0

package qp

import (
	"runtime"
	"testing"
	"unsafe"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/mem"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// discard counts completions.
type discard struct{ n int }

func (d *discard) Complete(verbs.Completion) { d.n++ }

// quick is a memory that checks nothing and copies nothing.
type quick struct{ testMemory }

func (quick) CheckLocal(uint32, uint32, uint64, uint32, verbs.Access) mem.Fault          { return 0 }
func (quick) WriteLocal(uint32, uint32, uint64, []byte) mem.Fault                        { return 0 }
func (quick) CheckRemote(uint32, uint32, uint32, uint64, uint32, verbs.Access) mem.Fault { return 0 }
func (quick) WriteRemote(uint32, uint32, uint32, uint64, []byte) mem.Fault               { return 0 }
func (quick) EndWrite(uint32, mem.Arrival)                                               {}
func (quick) FetchAdd(_, _, _ uint32, _, _ uint64) (uint64, mem.Fault)                   { return 0, 0 }
func (quick) ReadRemote(uint32, uint32, uint32, uint64, []byte) mem.Fault                { return 0 }

// responderLoads are the loads of the benchmark: packets that are repeated in a circle.
var responderLoads = []struct {
	name string
	typ  verbs.QPType
	in   []dg
}{
	{"write 256 of 16 KB", verbs.RC, append(append([]dg{write(wf, dataBase, 64*256, 256)}, repeat(write(wm, 0, 0, 256), 62)...), asking(write(wl, 0, 0, 256)))},
	{"write only 64", verbs.RC, []dg{asking(write(wo, dataBase, 64, 64))}},
	{"send only 64", verbs.RC, []dg{asking(send(so, 64))}},
	{"read 4096", verbs.RC, []dg{read(dataBase, 4096)}},
	{"fetch add", verbs.RC, []dg{fetchAdd(dataBase, 1)}},
	{"uc send 64", verbs.UC, []dg{send(ucSO, 64)}},
	{"ud send 64", verbs.UD, []dg{ud(64)}},
}

func asking(d dg) dg { d.AckReq = true; return d }

func repeat(d dg, n int) (all []dg) {
	for range n {
		all = append(all, d)
	}
	return all
}

type load struct {
	x       *target
	packets []rocev2.Packet
	next    int
	buf     [4096]byte
	acked   int
}

func newLoad(tb testing.TB, i int) *load {
	l := &load{}
	l.x = newTarget(tb, responderLoads[i].typ, func(c *Config, _ *verbs.Attr) {
		c.Memory, c.RecvCQ, c.Notify = &quick{}, &discard{}, nil
	})
	l.x.postRecv(0, 16, 256)
	for _, d := range responderLoads[i].in {
		l.packets = append(l.packets, build(tb, d))
	}
	return l
}

// step delivers one packet with the expected PSN, sends the responses and posts the receive
// again. It patches the PSN in the packet.
func (l *load) step() {
	q := l.x.q
	p := &l.packets[l.next]
	l.next = (l.next + 1) % len(l.packets)
	p.BTH().SetPSN(q.rsp.expected)
	q.Receive(l.x.now, p)
	for q.NextAck(l.x.now, &l.x.answer) || q.NextData(l.x.now, &l.x.answer) {
		l.acked++
		if !l.x.answer.Fill(l.buf[:l.x.answer.PayloadLen]) {
			panic("memory gone")
		}
	}
	if q.rsp.ring.n < 16 {
		q.PostRecv(&benchRecv)
	}
}

var benchRecv = verbs.RecvWR{SGL: []verbs.SGE{{Addr: bufBase, Len: 256, LKey: bufKey}}}

func BenchmarkResponder(b *testing.B) {
	for i, c := range responderLoads {
		b.Run(c.name, func(b *testing.B) {
			l := newLoad(b, i)
			b.ReportAllocs()
			for b.Loop() {
				l.step()
			}
			if l.x.q.State() != verbs.StateRTR || l.x.count.Delivered == 0 {
				b.Fatalf("now in %s: %+v", l.x.q.State(), l.x.count)
			}
		})
	}
}

// No load allocates, once its rings have their size.
func TestResponderDoesNotAllocate(t *testing.T) {
	for i, c := range responderLoads {
		l := newLoad(t, i)
		for range 100 {
			l.step()
		}
		if n := testing.AllocsPerRun(1000, l.step); n != 0 {
			t.Errorf("%s: %v allocations a packet", c.name, n)
		}
		if l.x.q.State() != verbs.StateRTR || l.x.count.Delivered < 1000 || c.typ == verbs.RC && l.acked == 0 {
			t.Errorf("%s: now in %s, %d answers, %+v", c.name, l.x.q.State(), l.acked, l.x.count)
		}
	}
}

// Loss does not allocate either, once the pool has its buffers.
func TestSelectiveDoesNotAllocate(t *testing.T) {
	x := newTarget(t, verbs.RC, selective)
	p := build(t, write(wo, dataBase, 64, 64))
	swap := func() {
		for _, ahead := range []int{1, 2, 3, 0} {
			p.BTH().SetPSN(x.psn.Add(ahead))
			x.q.Receive(x.now, &p)
			x.q.NextAck(x.now, &x.answer)
		}
		x.psn = x.psn.Add(4)
	}
	swap()
	if n := testing.AllocsPerRun(1000, swap); n != 0 {
		t.Errorf("%v allocations in four packets", n)
	}
	if x.count.Delivered < 4000 || x.count.SACKSent < 1000 {
		t.Errorf("counted %+v", x.count)
	}
}

// An idle queue pair, with and without a receive posted, is small.
func TestIdleQueuePairIsSmall(t *testing.T) {
	t.Logf("QP %d bytes, of these responder %d, requester %d", unsafe.Sizeof(QP{}), unsafe.Sizeof(responder{}), unsafe.Sizeof(requester{}))
	const many = 1000
	for posted, limit := range []uint64{1280, 2048} {
		all := make([]*QP, many)
		var before, after runtime.MemStats
		m, cq, count := newTestMemory(), &discard{}, new(Counters)
		runtime.GC()
		runtime.ReadMemStats(&before)
		for i := range all {
			q := New(Config{Type: verbs.RC, Memory: m, SendCQ: cq, RecvCQ: cq, Count: count, MaxSend: 1024, MaxRecv: 1024, MaxSendSGE: 4, MaxRecvSGE: 4})
			for _, s := range []verbs.State{verbs.StateInit, verbs.StateRTR, verbs.StateRTS} {
				a := good
				a.State = s
				if err := q.Modify(a, needed(verbs.RC, q.state, s)); err != nil {
					t.Fatal(err)
				}
			}
			for range posted {
				if err := q.PostRecv(&benchRecv); err != nil {
					t.Fatal(err)
				}
			}
			all[i] = q
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		each := (after.HeapAlloc - before.HeapAlloc) / many
		t.Logf("with %d receives posted: %d bytes each", posted, each)
		if each > limit {
			t.Errorf("with %d receives posted: %d bytes each, at most %d", posted, each, limit)
		}
		runtime.KeepAlive(all)
	}
}
