// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	"context"
	"time"

	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// notified says whether a notification comes, or is not there now.
func (e *end) notified(want bool) {
	limit := 10 * time.Millisecond
	if want {
		limit = patience
	}
	select {
	case <-e.cq.Notify():
		e.w.say("notified")
	case <-time.After(limit):
		e.w.say("not notified")
	}
}

// message sends one message of no bytes from a to b, and waits until its completion is there.
func message(a, b *end, f verbs.Flags) {
	a.w.t.Helper()
	b.recv(1, nil)
	a.post(verbs.SendWR{Op: verbs.OpSend, Flags: f})
	a.next()
}

var completionChecks = []check{
	{name: "an empty completion queue", source: "IBTA 11.4.2, ibv_poll_cq(3)", want: "0 completions", run: func(w *world) {
		w.say("%d completions", w.end(0, rc).cq.Poll(make([]verbs.Completion, 4)))
	}},
	{name: "a depth of at least what was asked for", source: "IBTA 11.2, ibv_create_cq(3)", want: "at least true", run: func(w *world) {
		q, err := w.dev[0].CreateCQ(100)
		w.must(err)
		w.say("at least %v", q.Depth() >= 100)
	}},
	{name: "a completion queue with a queue pair stays", source: "IBTA 11.2, ibv_destroy_cq(3)", want: "ErrBusy, ok, ok", run: func(w *world) {
		a := w.end(0, rc)
		w.says(a.cq.Destroy())
		w.says(a.qp.Destroy())
		w.says(a.cq.Destroy())
	}},
	{name: "the next completion notifies once", source: "IBTA 11.4.2, ibv_req_notify_cq(3)", want: "notified, not notified", run: func(w *world) {
		a, b := w.pair(rc)
		b.cq.RequestNotify(false)
		message(a, b, 0)
		b.notified(true)
		message(a, b, 0)
		b.next()
		b.next()
		b.notified(false)
	}},
	{name: "a completion that is there does not notify", source: "IBTA 11.4.2, ibv_req_notify_cq(3)", want: "not notified, notified", run: func(w *world) {
		a, b := w.pair(rc)
		message(a, b, 0)
		ctx, cancel := context.WithTimeout(w.t.Context(), patience)
		defer cancel()
		w.must(b.cq.Wait(ctx, false))
		b.cq.RequestNotify(false)
		b.notified(false)
		message(a, b, 0)
		b.notified(true)
	}},
	{name: "a solicited completion notifies, another does not", source: "IBTA 11.4.2, 9.2, ibv_req_notify_cq(3)", want: "not notified, notified", run: func(w *world) {
		a, b := w.pair(rc)
		b.cq.RequestNotify(true)
		message(a, b, 0)
		b.notified(false)
		message(a, b, verbs.Solicited)
		b.notified(true)
	}},
	{name: "an error notifies who waits for solicited ones", source: "IBTA 11.4.2, ibv_req_notify_cq(3)", want: "notified", run: func(w *world) {
		a, _ := w.pair(rc)
		a.cq.RequestNotify(true)
		a.post(verbs.SendWR{Op: verbs.OpSend, SGL: []verbs.SGE{{Addr: 1, Len: 1, LKey: 1}}})
		a.notified(true)
	}},
	{name: "one completion queue of two queue pairs", source: "ibv_poll_cq(3)", want: "QPN true, QPN true", run: func(w *world) {
		a, b := w.pair(rc)
		first := a.qp
		a.qp = a.queuePair(rc)
		b.qp = b.queuePair(rc)
		a.init()
		b.init()
		connect(a, b, asDefault)
		a.post(a.write(2, b.mem, 8))
		w.say("QPN %v", a.next().QPN == a.qp.QPN())
		w.must(first.PostSend(&verbs.SendWR{ID: 1, Op: verbs.OpWrite, Flags: verbs.Signaled, SGL: a.sgl(0, 8), RemoteAddr: b.mem.VA(), RKey: b.mem.RKey()}))
		w.say("QPN %v", a.next().QPN == first.QPN())
	}},
	{name: "a completion with an error has the queue pair", source: "ibv_poll_cq(3)", want: "1 local protection error, QPN true", run: func(w *world) {
		a, _ := w.pair(rc)
		a.post(verbs.SendWR{ID: 1, Op: verbs.OpSend, SGL: []verbs.SGE{{Addr: 1, Len: 1, LKey: 1}}})
		c := a.result()
		w.say("QPN %v", c.QPN == a.qp.QPN())
	}},
	{name: "an overrun is an event and ends the queue pair", source: "IBTA 10.8, 11.6.3", want: "completion queue: overrun, ERR", run: func(w *world) {
		a, b := w.end(0, rc), w.end(1, rc)
		small, err := b.dev.CreateCQ(2)
		w.must(err)
		b.qp = b.queuePair(func(i *verbs.QPInit) { i.SendCQ, i.RecvCQ, i.MaxRecv = small, small, small.Depth()+1 })
		a.init()
		b.init()
		connect(a, b, asDefault)
		for range small.Depth() + 1 {
			b.recv(1, nil)
			w.must(a.qp.PostSend(&verbs.SendWR{Op: verbs.OpSend}))
		}
		b.event(verbs.EventCQError, small)
		b.state(verbs.StateErr)
	}},
}
