// SPDX-License-Identifier: Apache-2.0

package qp

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// flightModel is an in-flight limiter with queue pairs that send nothing, and what its rules
// say about it. A queue pair asks for room as the requester does: once for the packets of a
// READ, and once for each packet of a WRITE.
type flightModel struct {
	t       *rapid.T
	f       *Flight
	qps     []*QP
	reads   []bool   // kinds of messages, READ or not, and their lengths
	sizes   []uint32 // packets
	want    []wanted // the current message of each queue pair
	queue   [2][]*QP // expected queues: the short one, the long one
	served  *QP      // queue pair that the rules serve, and for which class
	serves  int
	burst   int    // packets that the queue pair being served may still send
	longest uint32 // longest of the long READs so far
	ending  bool   // no more messages

	// Packets admitted from the other queue more than from this one, for each queue since it
	// has not been empty.
	passed [2]int
}

// wanted is the rest of a message; size 0 is a READ.
type wanted struct{ packets, size uint32 }

func (w wanted) class() int {
	if w.size == 0 && w.packets > shortRead {
		return 1
	}
	return 0
}

func newFlightModel(t *rapid.T) *flightModel {
	f, qps := bareFlight(rapid.IntRange(2, 16).Draw(t, "queue pairs"))
	m := &flightModel{
		t: t, f: f, qps: qps, want: make([]wanted, len(qps)),
		reads: rapid.SliceOfN(rapid.Bool(), 1, 3).Draw(t, "READ"),
		sizes: rapid.SliceOfN(rapid.SampledFrom([]uint32{1, 3, 32, shortRead, shortRead + 1, 300, 1024, 3000}), 1, 4).Draw(t, "packets"),
	}
	m.f.limit = rapid.SampledFrom([]uint32{minInflight, maxInflight}).Draw(t, "limit")
	return m
}

func (m *flightModel) next(q *QP) *wanted { return &m.want[q.QPN()-1] }

// ask lets a queue pair ask for room for its next packet.
func (m *flightModel) ask(q *QP) (admitted bool) {
	w := m.next(q)
	if w.packets == 0 {
		if m.ending {
			return false
		}
		if w.packets = rapid.SampledFrom(m.sizes).Draw(m.t, "packets"); !rapid.SampledFrom(m.reads).Draw(m.t, "READ") {
			w.size = 1024
		} else if w.size = 0; w.packets > shortRead {
			m.longest = max(m.longest, w.packets)
		}
	}
	class := w.class()
	served := m.served == q && m.serves == class
	queued, was := q.queued, m.classOf(q)
	k := q.admit(w.packets, w.size)
	if k == 0 || class == 1 {
		m.served = nil
	}
	if k == 0 {
		if queued && was == class {
			return false
		}
		if queued { // its packets with pre-credit came to another message
			m.queue[was] = slices.DeleteFunc(m.queue[was], func(o *QP) bool { return o == q })
		}
		if served {
			m.queue[class] = slices.Insert(m.queue[class], 0, q)
		} else {
			m.queue[class] = append(m.queue[class], q)
		}
		return false
	}
	if !served && len(m.queue[class]) != 0 {
		m.t.Fatalf("queue pair %d overtakes %d others", q.QPN(), len(m.queue[class]))
	}
	if w.size != 0 {
		k = 1
	} else if k != w.packets {
		m.t.Fatalf("room for %d of %d packets of a READ", k, w.packets)
	}
	q.setInflight(q.inflightPackets + k)
	w.packets -= k
	m.burst -= int(k)
	m.passed[1-class] += int(k)
	m.passed[class] = max(m.passed[class]-int(k), -int(k))
	return true
}

// classOf returns the queue for which the queue pair asked last.
func (m *flightModel) classOf(q *QP) int { return wanted{q.wantPackets, q.wantSize}.class() }

// preCredit sends the rest of a WRITE, which has pre-credit.
func (m *flightModel) preCredit(q *QP) {
	w := m.next(q)
	m.f.BypassWindow(true)
	for w.size != 0 && w.packets != 0 && q.admit(w.packets, w.size) != 0 {
		q.setInflight(q.inflightPackets + 1)
		w.packets--
	}
	m.f.BypassWindow(false)
}

// serve is what the engine does when there may be room.
func (m *flightModel) serve() {
	q := m.f.ServeNext()
	if q == nil {
		m.checkRoomUsed()
		return
	}
	class := m.classOf(q)
	if m.queue[class][0] != q {
		m.t.Fatalf("queue pair %d is served before %d", q.QPN(), m.queue[class][0].QPN())
	}
	m.queue[class] = m.queue[class][1:]
	m.served, m.serves = q, class
	for m.burst = rapid.IntRange(1, 16).Draw(m.t, "burst"); m.burst > 0 && m.ask(q); {
		m.check()
	}
	q.EndService()
	m.served = nil
}

// checkRoomUsed: nobody is served, so nobody may have room, except for those that let a long
// READ collect it.
func (m *flightModel) checkRoomUsed() {
	has := [2]bool{}
	for class, l := range m.queue {
		if len(l) != 0 {
			has[class] = m.f.room(l[0].wantPackets, l[0].wantSize) != 0
		}
	}
	if has[1] {
		m.t.Fatal("a long READ is queued although there is room")
	}
	if has[0] && (len(m.queue[1]) == 0 || m.f.packets <= m.f.limit/2 || m.f.shortLead < int32(m.f.limit/2)) {
		m.t.Fatal("a short message is queued although there is room")
	}
}

func (m *flightModel) check() {
	f := m.f
	sum, long := uint32(0), uint32(0)
	for _, q := range m.qps {
		if sum += q.inflightPackets; q.longInflight != 0 {
			long++
		}
		if q.longInflight > q.inflightPackets {
			m.t.Fatalf("%d of %d packets in flight are up to the last long READ", q.longInflight, q.inflightPackets)
		}
	}
	if f.longReads != long {
		m.t.Fatalf("%d queue pairs with long READs, want %d", f.longReads, long)
	}
	for class, l := range []flightQueue{f.short, f.long} {
		var got, back []*QP
		for q := l.head; q != nil; q = q.next {
			got = append(got, q)
		}
		for q := l.tail; q != nil; q = q.prev {
			back = append(back, q)
		}
		slices.Reverse(back)
		if !slices.Equal(got, m.queue[class]) || !slices.Equal(back, got) {
			m.t.Fatalf("queue %d has %d queue pairs, backwards %d, want %d", class, len(got), len(back), len(m.queue[class]))
		}
		if len(got) == 0 || f.window != 0 { // long READs do not wait for the window
			m.passed[class] = 0
		}
	}
	most := f.limit
	if m.longest != 0 {
		most = max(f.limit*3/2, f.limit/2+m.longest)
	}
	if f.packets != sum || sum > most {
		m.t.Fatalf("%d packets in flight, the queue pairs have %d, want at most %d", f.packets, sum, most)
	}
	for class, n := range m.passed {
		if bound := int(f.limit/2 + shortRead + m.longest); n > bound {
			m.t.Fatalf("while queue %d was not empty, the other one got %d packets more, want at most %d", class, n, bound)
		}
	}
}

// For any mix of READs and WRITEs: nobody overtakes in its queue, no room is unused while a
// queue pair can use it, the limit holds, and neither queue gets more than the rule's share.
func TestFlightQueues(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newFlightModel(t)
		for range 500 {
			q := m.qps[rapid.IntRange(0, len(m.qps)-1).Draw(t, "queue pair")]
			switch rapid.IntRange(0, 12).Draw(t, "what") {
			case 0, 1, 2:
				m.ask(q)
			case 3, 5, 6, 7:
				q.setInflight(q.inflightPackets - min(q.inflightPackets, uint32(rapid.IntRange(1, 64).Draw(t, "responses"))))
			case 4:
				m.f.bytes, m.f.window = 1, uint64(rapid.IntRange(0, 1).Draw(t, "window")) // full, or no limit
			case 8:
				m.preCredit(q)
			default:
				m.serve()
			}
			m.check()
		}
		// With responses to everything, everybody is served.
		m.ending, m.f.window = true, 0
		for range 10_000 {
			if !m.f.Waiting() {
				return
			}
			for _, q := range m.qps {
				q.setInflight(0)
			}
			m.serve()
			m.check()
		}
		t.Fatal("queue pairs are still queued after they were served 10000 times")
	})
}
