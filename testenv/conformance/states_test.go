// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// step goes to a state with all attributes that it needs.
func (e *end) step(to verbs.State, peer *end) error {
	a := verbs.DefaultAttr()
	a.State, a.QKey, a.DestQPN, a.RQPSN, a.SQPSN = to, qkey, peer.qp.QPN(), peer.endpoint().PSN, e.endpoint().PSN
	a.AV = verbs.AddressVector{Src: e.addr, Dst: peer.addr}
	return e.qp.Modify(a, verbs.RequiredMask(e.qp.Type(), to))
}

var stateChecks = []check{
	{name: "a new queue pair is in RESET", source: "IBTA 10.2, ibv_create_qp(3)", want: "RESET", run: func(w *world) {
		w.say("%s", w.end(0, rc).qp.State())
	}},
	{name: "RESET, INIT, RTR, RTS", source: "IBTA 10.3.1, ibv_modify_qp(3)", want: "INIT, RTR, RTS", run: func(w *world) {
		a, b := w.end(0, rc), w.end(1, rc)
		for _, s := range []verbs.State{verbs.StateInit, verbs.StateRTR, verbs.StateRTS} {
			w.must(a.step(s, b))
			w.say("%s", a.qp.State())
		}
	}},
	{name: "RESET to RTR is no step", source: "IBTA 10.3.1", want: "refused, RESET", run: func(w *world) {
		a, b := w.end(0, rc), w.end(1, rc)
		w.says(a.step(verbs.StateRTR, b))
		w.say("%s", a.qp.State())
	}},
	{name: "INIT to RTS is no step", source: "IBTA 10.3.1", want: "refused, INIT", run: func(w *world) {
		a, b := w.ends(rc)
		w.says(a.step(verbs.StateRTS, b))
		w.say("%s", a.qp.State())
	}},
	{name: "ERR to RTS is no step", source: "IBTA 10.3.1", want: "ok, refused, ERR", run: func(w *world) {
		a, b := w.pair(rc)
		a.to(verbs.StateErr)
		w.says(a.step(verbs.StateRTS, b))
		w.say("%s", a.qp.State())
	}},
	{name: "INIT without access rights", source: "IBTA 11.2, ibv_modify_qp(3)", want: "refused, RESET", run: func(w *world) {
		a := w.end(0, rc)
		a.to(verbs.StateInit)
		w.say("%s", a.qp.State())
	}},
	{name: "INIT to ERR", source: "IBTA 10.3.1", want: "ok, ERR", run: func(w *world) {
		a, _ := w.ends(rc)
		a.to(verbs.StateErr)
		w.say("%s", a.qp.State())
	}},
	{name: "ERR to RESET, and connected again", source: "IBTA 10.3.1", want: "ok, ok, ok, ok, 1 success", run: func(w *world) {
		a, b := w.pair(rc)
		for _, e := range []*end{a, b} {
			e.to(verbs.StateErr)
			e.to(verbs.StateReset)
		}
		connect(a, b, asDefault)
		a.post(a.write(1, b.mem, 8))
		a.result()
	}},
	{name: "RESET forgets the receives", source: "IBTA 10.3.1", want: "ok, ok, 0 completions, 5 success", run: func(w *world) {
		a, b := w.pair(rc)
		b.recv(1, b.sgl(0, 8))
		b.to(verbs.StateReset)
		a.to(verbs.StateReset)
		w.say("%d completions", b.cq.Poll(make([]verbs.Completion, 4)))
		b.init()
		b.recv(5, b.sgl(0, 8))
		connect(a, b, asDefault)
		a.post(verbs.SendWR{Op: verbs.OpSend, SGL: a.sgl(0, 8)})
		b.result()
	}},
	{name: "a step with an attribute that it does not have changes nothing", source: "ibv_modify_qp(3)", want: "refused, RTS, MinRNRTimer 1", run: func(w *world) {
		a, _ := w.pair(rc)
		w.says(a.qp.Modify(verbs.Attr{State: verbs.StateSQD, MinRNRTimer: 5}, verbs.MaskState|verbs.MaskMinRNRTimer))
		q, err := a.qp.Query()
		w.must(err)
		w.say("%s", q.State)
		w.say("MinRNRTimer %d", q.MinRNRTimer)
	}},
	{name: "Query returns what Modify has set", source: "IBTA 11.2, ibv_query_qp(3)", want: "RTS, peer true true, PMTU 512, MaxRdAtomic 3, Timeout 12, RetryCnt 5", run: func(w *world) {
		a, b := w.ends(rc)
		attr := verbs.DefaultAttr()
		attr.PMTU, attr.MaxRdAtomic, attr.Timeout, attr.RetryCnt = rocev2.PMTU512, 3, 12, 5
		w.must(verbs.Connect(a.qp, a.endpoint(), b.endpoint(), attr))
		q, err := a.qp.Query()
		w.must(err)
		w.say("%s", q.State)
		w.say("peer %v %v", q.DestQPN == b.qp.QPN(), q.AV.Dst == b.addr)
		w.say("PMTU %d", q.PMTU.Bytes())
		w.say("MaxRdAtomic %d, Timeout %d, RetryCnt %d", q.MaxRdAtomic, q.Timeout, q.RetryCnt)
	}},
	{name: "the first packet in RTR is an event", source: "IBTA 11.6.3, ibv_get_async_event(3)", want: "1 success, queue pair: first packet", run: func(w *world) {
		a, b := w.ends(rc)
		w.must(b.step(verbs.StateRTR, a))
		connect2(a, b)
		a.post(a.write(1, b.mem, 8))
		a.result()
		b.event(verbs.EventQPEstablished, b.qp)
	}},
	{name: "RTR receives", source: "IBTA 10.3.1", want: "1 success, 2 success, RTR", run: func(w *world) {
		a, b := w.ends(rc)
		b.recv(2, b.sgl(0, 8))
		w.must(b.step(verbs.StateRTR, a))
		connect2(a, b)
		a.post(verbs.SendWR{ID: 1, Op: verbs.OpSend, SGL: a.sgl(0, 8)})
		a.result()
		b.result()
		w.say("%s", b.qp.State())
	}},
	{name: "SQD drains and reports it", source: "IBTA 10.3.1, ibv_get_async_event(3)", want: "ok, queue pair: send queue drained, SQD", run: func(w *world) {
		a, _ := w.pair(rc)
		a.to(verbs.StateSQD)
		a.event(verbs.EventQPDrained, a.qp)
		w.say("%s", a.qp.State())
	}},
	{name: "work posted in SQD starts in RTS", source: "IBTA 10.3.1", want: "ok, queue pair: send queue drained, 0 completions, ok, 1 success", run: func(w *world) {
		a, b := w.pair(rc)
		a.to(verbs.StateSQD)
		a.event(verbs.EventQPDrained, a.qp)
		a.post(a.write(1, b.mem, 8))
		w.say("%d completions", a.cq.Poll(make([]verbs.Completion, 4)))
		a.to(verbs.StateRTS)
		a.result()
	}},
	{name: "ERR flushes receives in their order", source: "IBTA 10.3.1", want: "ok, 1 work request flushed, 2 work request flushed, 3 work request flushed", run: func(w *world) {
		a, _ := w.pair(rc)
		for id := range uint64(3) {
			a.recv(id+1, a.sgl(0, 8))
		}
		a.to(verbs.StateErr)
		for range 3 {
			a.result()
		}
	}},
	{name: "work posted in ERR is flushed", source: "IBTA 10.3.1, 11.4.1", want: "ok, 1 work request flushed, 2 work request flushed", run: func(w *world) {
		a, b := w.pair(rc)
		a.to(verbs.StateErr)
		a.post(a.write(1, b.mem, 8))
		a.result()
		a.recv(2, a.sgl(0, 8))
		a.result()
	}},
	{name: "unsignaled work that fails has a completion", source: "IBTA 10.7", want: "1 local protection error, 2 work request flushed", run: func(w *world) {
		a, _ := w.pair(rc)
		for id := range uint64(2) {
			w.must(a.qp.PostSend(&verbs.SendWR{ID: id + 1, Op: verbs.OpSend, SGL: []verbs.SGE{{Addr: 1, Len: 1, LKey: 1}}}))
			a.result()
		}
	}},
	{name: "a datagram that fails here takes UD to SQE, and RTS follows", source: "IBTA 10.3.1", want: "1 local protection error, SQE, 2 work request flushed, ok, 3 success, 5 success", run: func(w *world) {
		a, b := w.pair(ud)
		h := a.handle(b)
		b.recv(5, b.sgl(0, 100))
		bad := a.datagram(1, h, b, 8)
		bad.SGL[0].LKey ^= 0x10
		a.post(bad)
		a.result()
		a.state(verbs.StateSQE)
		a.post(a.datagram(2, h, b, 8))
		a.result()
		a.to(verbs.StateRTS)
		a.post(a.datagram(3, h, b, 8))
		a.result()
		b.result()
	}},
	{name: "a WRITE that fails here takes UC to SQE, and it receives", source: "IBTA 10.3.1", want: "1 local protection error, SQE, 5 success", run: func(w *world) {
		a, b := w.pair(uc)
		wr := a.write(1, b.mem, 8)
		wr.SGL[0].LKey ^= 0x10
		a.post(wr)
		a.result()
		a.state(verbs.StateSQE)
		a.recv(5, a.sgl(0, 8))
		b.post(verbs.SendWR{Op: verbs.OpSend, SGL: b.sgl(0, 8)})
		a.result()
	}},
	{name: "a protection domain with a queue pair stays", source: "IBTA 11.2, ibv_dealloc_pd(3)", want: "ErrBusy", run: func(w *world) {
		w.says(w.end(0, rc).pd.Free())
	}},
	{name: "more work requests than the device has", source: "IBTA 11.2, ibv_create_qp(3)", want: "refused", run: func(w *world) {
		a := w.end(0, rc)
		_, err := a.pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: a.cq, RecvCQ: a.cq, MaxSend: a.dev.Limits().WR + 1})
		w.says(err)
	}},
	{name: "the port is active and has addresses", source: "IBTA 11.2, ibv_query_port(3)", want: "active true, addresses true", run: func(w *world) {
		p, err := w.dev[0].Port()
		w.must(err)
		w.say("active %v, addresses %v", p.Active, len(p.GIDs) > 0)
	}},
}

// connect2 brings a to RTS, when b is in RTR already.
func connect2(a, b *end) {
	a.w.must(a.step(verbs.StateRTR, b))
	a.w.must(a.step(verbs.StateRTS, b))
}
