// SPDX-License-Identifier: Apache-2.0

package conformance_test

import "github.com/softroce/softroce-xdp/rocev2/verbs"

// shared is two ends that are connected, of which b has a shared receive queue with receives 1 to n.
func (w *world) shared(n int) (a, b *end, s verbs.SRQ) {
	w.t.Helper()
	a, b = w.end(0, rc), w.end(1, rc)
	s = b.sharedQueue(8)
	b.qp = b.queuePair(func(i *verbs.QPInit) { i.SRQ = s })
	for id := range n {
		w.must(s.PostRecv(&verbs.RecvWR{ID: uint64(id + 1), SGL: b.sgl(64*id, 64)}))
	}
	a.init()
	b.init()
	connect(a, b, asDefault)
	return a, b, s
}

func (e *end) sharedQueue(depth int) verbs.SRQ {
	e.w.t.Helper()
	s, err := e.pd.CreateSRQ(depth, 2)
	e.w.must(err)
	e.w.t.Cleanup(func() { s.Destroy() })
	return s
}

var sharedChecks = []check{
	{name: "a receive from a shared queue", source: "IBTA 10.2, ibv_post_srq_recv(3)", want: `1 success, "shared", 2 success`, run: func(w *world) {
		a, b, _ := w.shared(2)
		a.put(0, "shared")
		a.post(verbs.SendWR{Op: verbs.OpSend, SGL: a.sgl(0, 6)})
		b.result()
		b.get(0, 6)
		a.post(verbs.SendWR{Op: verbs.OpSend, SGL: a.sgl(0, 6)})
		b.result()
	}},
	{name: "a receive of its own on a queue pair with a shared queue", source: "IBTA 10.2, ibv_post_recv(3)", want: "ErrSRQ", run: func(w *world) {
		_, b, _ := w.shared(0)
		w.says(b.qp.PostRecv(&verbs.RecvWR{}))
	}},
	{name: "two queue pairs take from one shared queue", source: "IBTA 10.2, ibv_create_srq(3)", want: "1 success, 2 success", run: func(w *world) {
		a, b, s := w.shared(2)
		first := a.qp
		a.qp, b.qp = a.queuePair(rc), b.queuePair(func(i *verbs.QPInit) { i.SRQ = s })
		a.init()
		b.init()
		connect(a, b, asDefault)
		w.must(first.PostSend(&verbs.SendWR{Op: verbs.OpSend}))
		b.result()
		w.must(a.qp.PostSend(&verbs.SendWR{Op: verbs.OpSend}))
		b.result()
	}},
	{name: "UC with a shared queue", source: "ibv_create_qp(3)", want: "refused", run: func(w *world) {
		_, b, s := w.shared(0)
		_, err := b.pd.CreateQP(verbs.QPInit{Type: verbs.UC, SendCQ: b.cq, RecvCQ: b.cq, SRQ: s})
		w.says(err)
	}},
	{name: "the number of receives does not count with a shared queue", source: "ibv_create_qp(3)", want: "ok", run: func(w *world) {
		_, b, s := w.shared(0)
		q, err := b.pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: b.cq, RecvCQ: b.cq, SRQ: s, MaxRecv: b.dev.Limits().WR + 1})
		w.says(err)
		if err == nil {
			w.must(q.Destroy())
		}
	}},
	{name: "the limit is an event", source: "IBTA 10.2, ibv_modify_srq(3)", want: "ok, 1 success, 2 success, SRQ: limit reached", run: func(w *world) {
		a, b, s := w.shared(3)
		w.says(s.SetLimit(2))
		for range 2 {
			a.post(verbs.SendWR{Op: verbs.OpSend})
			b.result()
		}
		b.event(verbs.EventSRQLimit, s)
	}},
	{name: "a full shared queue", source: "ibv_post_srq_recv(3)", want: "8 at least, ErrQueueFull", run: func(w *world) {
		_, _, s := w.shared(0)
		var err error
		n := 0
		for ; err == nil && n < 1000; n++ {
			err = s.PostRecv(&verbs.RecvWR{})
		}
		if n > 8 {
			w.say("8 at least")
		}
		w.says(err)
	}},
	{name: "a list that is too long for a shared queue", source: "ibv_post_srq_recv(3)", want: "ErrSGL", run: func(w *world) {
		_, _, s := w.shared(0)
		w.says(s.PostRecv(&verbs.RecvWR{SGL: make([]verbs.SGE, 100)}))
	}},
	{name: "the last receive of a queue pair in ERR is an event", source: "IBTA 11.6.3, ibv_get_async_event(3)", want: "ok, queue pair: last work request of the SRQ taken", run: func(w *world) {
		_, b, _ := w.shared(2)
		b.to(verbs.StateErr)
		b.event(verbs.EventQPLastWQE, b.qp)
	}},
	{name: "a shared queue with a queue pair stays", source: "IBTA 11.2, ibv_destroy_srq(3)", want: "ErrBusy, ok, ok, ErrDestroyed", run: func(w *world) {
		_, b, s := w.shared(1)
		w.says(s.Destroy())
		w.says(b.qp.Destroy())
		w.says(s.Destroy())
		w.says(s.PostRecv(&verbs.RecvWR{}))
	}},
}
