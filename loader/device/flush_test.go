// SPDX-License-Identifier: Apache-2.0

package device

import (
	"testing"

	"github.com/softroce/softroce-xdp/rocev2/nic"
	"github.com/softroce/softroce-xdp/rocev2/ring"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/rocev2/wqe"
)

// flushes makes queue pairs of a process that have n receives each, and writes an entry that is no work
// request to each of their receive rings.
func (w *floodWorld) flushes(c *flooder, pairs, n int) {
	w.t.Helper()
	must := func(err error) {
		w.t.Helper()
		if err != nil {
			w.t.Fatal(err)
		}
	}
	cq, err := w.s.dev.CreateCQ(2 * pairs * (n + 1))
	must(err)
	pd, err := w.s.dev.AllocPD()
	must(err)
	shape := ring.ShapeFor(8, wqe.RecvBytes(1))
	for i := range pairs {
		x, err := pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: cq, RecvCQ: cq, MaxRecv: n + 1})
		must(err)
		must(x.Modify(verbs.Attr{State: verbs.StateInit}, verbs.RequiredMask(verbs.RC, verbs.StateInit)))
		w.s.dev.InLoop(func() {
			for range n {
				if err == nil {
					err = x.(*nic.QP).FeedRecv(&verbs.RecvWR{})
				}
			}
		})
		must(err)
		r, err := ring.Open(make([]byte, shape.Bytes()), shape)
		must(err)
		c.producers = append(c.producers, ring.NewProducer(r, 8))
		q := newQueue(c.rings, r, shape)
		q.qp, q.recv = &queuePair{qp: x.(*nic.QP)}, true
		_, err = c.number(q)
		must(err)
		c.post(i, true)
	}
}

// An iteration takes no more entries after those that have flushed more than flushBudget work requests, of the
// same process and of others. The next one begins with another process.
func TestFlushBudget(t *testing.T) {
	w := newFloodWorld(t)
	a, b := w.process(1, 0), w.process(2, 0)
	w.flushes(a, 3, flushBudget/2+1) // the second one exceeds the budget
	w.flushes(b, 1, flushBudget+1)
	taken := func() (n [2]int) {
		for i, c := range []*flooder{a, b} {
			for _, q := range c.queues {
				n[i] += int(q.in.Read())
			}
		}
		return n
	}
	for i, want := range [][2]int{{2, 0}, {2, 1}, {3, 1}} {
		w.s.dev.InLoop(func() { w.f.Take() })
		if got := taken(); got != want {
			t.Errorf("after %d iterations, %v bad entries of two processes were taken, want %v", i+1, got, want)
		}
	}
}
