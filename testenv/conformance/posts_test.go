// SPDX-License-Identifier: Apache-2.0

package conformance_test

import "github.com/softroce/softroce-xdp/rocev2/verbs"

// refused is a check of a work request that a connected queue pair refuses.
func refused(name, source, want string, wr func(a, b *end) verbs.SendWR) check {
	return check{name: name, source: source, want: want, run: func(w *world) {
		a, b := w.pair(rc)
		r := wr(a, b)
		w.says(a.qp.PostSend(&r))
	}}
}

var postChecks = []check{
	{name: "a send in RESET", source: "IBTA 10.3.1", want: "ErrSendState", run: func(w *world) {
		w.says(w.end(0, rc).qp.PostSend(&verbs.SendWR{Op: verbs.OpSend}))
	}},
	{name: "a receive in RESET", source: "IBTA 10.3.1", want: "ErrRecvState", run: func(w *world) {
		w.says(w.end(0, rc).qp.PostRecv(&verbs.RecvWR{}))
	}},
	{name: "a send in INIT", source: "IBTA 10.3.1", want: "ErrSendState", run: func(w *world) {
		a, _ := w.ends(rc)
		w.says(a.qp.PostSend(&verbs.SendWR{Op: verbs.OpSend}))
	}},
	{name: "a receive in INIT", source: "IBTA 10.3.1, ibv_post_recv(3)", want: "ok", run: func(w *world) {
		a, _ := w.ends(rc)
		w.says(a.qp.PostRecv(&verbs.RecvWR{}))
	}},
	{name: "a send in RTR", source: "IBTA 10.3.1", want: "ErrSendState", run: func(w *world) {
		a, b := w.ends(rc)
		w.must(a.step(verbs.StateRTR, b))
		w.says(a.qp.PostSend(&verbs.SendWR{Op: verbs.OpSend}))
	}},
	{name: "a full send queue", source: "IBTA 11.4.1, ibv_post_send(3)", want: "ok, queue pair: send queue drained, 4 at least, ErrQueueFull", run: func(w *world) {
		a, b := w.pair(func(i *verbs.QPInit) { i.MaxSend = 4 })
		a.to(verbs.StateSQD) // nothing starts
		a.event(verbs.EventQPDrained, a.qp)
		var err error
		n := 0
		for wr := a.write(1, b.mem, 8); err == nil && n < 1000; n++ {
			err = a.qp.PostSend(&wr)
		}
		if n > 4 {
			w.say("4 at least")
		}
		w.says(err)
	}},
	{name: "a full receive queue", source: "IBTA 11.4.1, ibv_post_recv(3)", want: "4 at least, ErrQueueFull", run: func(w *world) {
		a, _ := w.pair(func(i *verbs.QPInit) { i.MaxRecv = 4 })
		var err error
		n := 0
		for ; err == nil && n < 1000; n++ {
			err = a.qp.PostRecv(&verbs.RecvWR{})
		}
		if n > 4 {
			w.say("4 at least")
		}
		w.says(err)
	}},
	refused("a list that is too long", "IBTA 11.4.1, ibv_post_send(3)", "ErrSGL", func(a, _ *end) verbs.SendWR {
		return verbs.SendWR{Op: verbs.OpSend, SGL: make([]verbs.SGE, 100)}
	}),
	{name: "a receive with a list that is too long", source: "IBTA 11.4.1, ibv_post_recv(3)", want: "ErrSGL", run: func(w *world) {
		a, _ := w.pair(rc)
		w.says(a.qp.PostRecv(&verbs.RecvWR{SGL: make([]verbs.SGE, 100)}))
	}},
	refused("more inline data than the queue pair has room for", "ibv_post_send(3)", "ErrInline", func(*end, *end) verbs.SendWR {
		return verbs.SendWR{Op: verbs.OpSend, Flags: verbs.Inline, Data: make([]byte, 1000)}
	}),
	refused("an inline READ", "ibv_post_send(3)", "ErrInline", func(_, b *end) verbs.SendWR {
		return verbs.SendWR{Op: verbs.OpRead, Flags: verbs.Inline, Data: make([]byte, 8), RemoteAddr: b.mem.VA(), RKey: b.mem.RKey()}
	}),
	refused("an unknown operation", "IBTA 11.4.1, ibv_post_send(3)", "ErrOp", func(*end, *end) verbs.SendWR { return verbs.SendWR{Op: 99} }),
	refused("a message of more than 2^31 bytes", "IBTA 9.7", "ErrTooLong", func(*end, *end) verbs.SendWR {
		return verbs.SendWR{Op: verbs.OpSend, SGL: []verbs.SGE{{Len: 1<<31 + 1}}}
	}),
	{name: "READ on UC", source: "ibv_post_send(3)", want: "ErrOp", run: func(w *world) {
		a, b := w.pair(uc)
		w.says(a.qp.PostSend(&verbs.SendWR{Op: verbs.OpRead, SGL: a.sgl(0, 8), RemoteAddr: b.mem.VA(), RKey: b.mem.RKey()}))
	}},
	{name: "WRITE on UD", source: "ibv_post_send(3)", want: "ErrOp", run: func(w *world) {
		a, b := w.pair(ud)
		wr := a.datagram(1, a.handle(b), b, 8)
		wr.Op = verbs.OpWrite
		w.says(a.qp.PostSend(&wr))
	}},
	{name: "Fence on UD", source: "ibv_post_send(3)", want: "ErrFence", run: func(w *world) {
		a, b := w.pair(ud)
		wr := a.datagram(1, a.handle(b), b, 8)
		wr.Flags = verbs.Fence
		w.says(a.qp.PostSend(&wr))
	}},
	{name: "a datagram without an address handle", source: "IBTA 11.4.1", want: "ErrAH", run: func(w *world) {
		a, b := w.pair(ud)
		wr := a.datagram(1, nil, b, 8)
		w.says(a.qp.PostSend(&wr))
	}},
}
