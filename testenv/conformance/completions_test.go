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
	{name: "an empty completion queue", source: "IBTA 11.4.2.1, ibv_poll_cq(3)", want: "0", run: func(w *world) {
		w.say("%d", w.end(0, rc).cq.Poll(make([]verbs.Completion, 4)))
	}},
	{name: "a depth of at least what was asked for", source: "IBTA 11.2.7.1, ibv_create_cq(3)", want: "true", run: func(w *world) {
		q, err := w.dev[0].CreateCQ(100)
		w.must(err)
		w.say("%v", q.Depth() >= 100)
	}},
	{name: "a completion queue of no entries", source: "IBTA 11.2.7.1, ibv_create_cq(3)", want: "refused", run: func(w *world) {
		_, err := w.dev[0].CreateCQ(0)
		w.says(err)
	}},
	{name: "a completion queue with a queue pair stays", source: "IBTA 11.2.7.4, ibv_destroy_cq(3)", want: "ErrBusy, ok, ok", run: func(w *world) {
		a := w.end(0, rc)
		w.says(a.cq.Destroy())
		w.says(a.qp.Destroy())
		w.says(a.cq.Destroy())
	}},
	{name: "completions stay when their queue pair is destroyed", source: "IBTA 10.8.3", want: "ok, 1 success", run: func(w *world) {
		a, b := w.pair(rc)
		a.post(a.write(1, b.mem, 8))
		ctx, cancel := context.WithTimeout(w.t.Context(), patience)
		defer cancel()
		w.must(a.cq.Wait(ctx, false))
		w.says(a.qp.Destroy())
		a.result()
	}},
	{name: "Wait ends when the queue is destroyed", source: "ibv_get_cq_event(3)", want: "ok, ErrDestroyed", run: func(w *world) {
		q, err := w.dev[0].CreateCQ(8)
		w.must(err)
		ended := make(chan error)
		go func() { ended <- q.Wait(context.Background(), false) }()
		w.says(q.Destroy())
		w.says(<-ended)
	}},
	{name: "the next completion notifies once", source: "IBTA 11.4.2.2, ibv_req_notify_cq(3)", want: "notified, not notified", run: func(w *world) {
		a, b := w.pair(rc)
		b.cq.RequestNotify(false)
		message(a, b, 0)
		b.notified(true)
		message(a, b, 0)
		b.next()
		b.next()
		b.notified(false)
	}},
	{name: "a completion that is there does not notify", source: "IBTA 11.4.2.2, ibv_req_notify_cq(3)", want: "not notified, notified", run: func(w *world) {
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
	{name: "a solicited completion notifies, another does not", source: "IBTA 11.4.2.2, 9.2.3, ibv_req_notify_cq(3)", want: "not notified, notified", run: func(w *world) {
		a, b := w.pair(rc)
		b.cq.RequestNotify(true)
		message(a, b, 0)
		b.notified(false)
		message(a, b, verbs.Solicited)
		b.notified(true)
	}},
	{name: "an error notifies who waits for solicited ones", source: "IBTA 11.4.2.2, ibv_req_notify_cq(3)", want: "notified", run: func(w *world) {
		a, _ := w.pair(rc)
		a.cq.RequestNotify(true)
		a.post(verbs.SendWR{Op: verbs.OpSend, SGL: []verbs.SGE{{Addr: 1, Len: 1, LKey: 1}}})
		a.notified(true)
	}},
	{name: "Solicited is in the completion", source: "IBTA 9.2.3", want: "false true", run: func(w *world) {
		a, b := w.pair(rc)
		message(a, b, 0)
		message(a, b, verbs.Solicited)
		w.say("%v %v", b.next().Solicited, b.next().Solicited)
	}},
	{name: "an overrun is an event and ends the queue pair", source: "IBTA 10.8.4, 11.6.3.2", want: "completion queue: overrun, ERR", run: func(w *world) {
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
