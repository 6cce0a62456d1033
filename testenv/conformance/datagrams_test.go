// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	"bytes"

	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

var datagramChecks = []check{
	{name: "a datagram", source: "IBTA 9.8.3, ibv_poll_cq(3)", want: `1 success, 2 success, 48 true true, "datagram"`, run: func(w *world) {
		a, b := w.pair(ud)
		a.put(0, "datagram")
		b.recv(2, b.sgl(0, 100))
		a.post(a.datagram(1, a.handle(b), b, 8))
		a.result()
		c := b.result()
		w.say("%d %v %v", c.Bytes, c.HasGRH, c.SrcQP == a.qp.QPN())
		b.get(verbs.GRHLen, 8)
	}},
	{name: "the header before a datagram", source: "IBTA A17.4.4.3", want: "2 success, version 4, true true", run: func(w *world) {
		a, b := w.pair(ud)
		b.recv(2, b.sgl(0, 100))
		a.post(a.datagram(1, a.handle(b), b, 8))
		b.result()
		h := b.bytes(20, 20)
		w.say("version %d", h[0]>>4)
		w.say("%v %v", bytes.Equal(h[12:16], a.addr.AsSlice()), bytes.Equal(h[16:20], b.addr.AsSlice()))
	}},
	{name: "a datagram with immediate data", source: "IBTA 9.8.3", want: "2 success, true 7", run: func(w *world) {
		a, b := w.pair(ud)
		b.recv(2, b.sgl(0, 100))
		wr := a.datagram(1, a.handle(b), b, 8)
		wr.Op, wr.Imm = verbs.OpSendImm, 7
		a.post(wr)
		c := b.result()
		w.say("%v %d", c.HasImm, c.Imm)
	}},
	{name: "a datagram with a wrong Q_Key is dropped", source: "IBTA 10.2.5, 9.6.1.5", want: "1 success, 2 success, 5 success, 43", run: func(w *world) {
		a, b := w.pair(ud)
		h := a.handle(b)
		b.recv(5, b.sgl(0, 100))
		wr := a.datagram(1, h, b, 8)
		wr.RemoteQKey++
		a.post(wr)
		a.post(a.datagram(2, h, b, 3))
		a.result()
		a.result()
		w.say("%d", b.result().Bytes)
	}},
	{name: "a Q_Key with bit 31 set stands for that of the queue pair", source: "IBTA 10.2.5", want: "5 success, 48", run: func(w *world) {
		a, b := w.pair(ud)
		b.recv(5, b.sgl(0, 100))
		wr := a.datagram(1, a.handle(b), b, 8)
		wr.RemoteQKey = 1 << 31
		a.post(wr)
		w.say("%d", b.result().Bytes)
	}},
	{name: "a datagram without a receive is dropped", source: "IBTA 9.8.3", want: "1 success, 5 success, 43", run: func(w *world) {
		a, b := w.ends(ud)
		connect(a, b, asDefault)
		c := w.end(1, ud) // takes a datagram after the first, so that the first has arrived
		c.init()
		w.must(verbs.Connect(c.qp, c.endpoint(), a.endpoint(), verbs.DefaultAttr()))
		h := a.handle(b)
		c.recv(4, c.sgl(0, 100))
		a.post(a.datagram(1, h, b, 8))
		a.result()
		a.post(a.datagram(2, h, c, 8))
		a.next()
		c.next()
		b.recv(5, b.sgl(0, 100))
		a.post(a.datagram(3, h, b, 3))
		a.next()
		w.say("%d", b.result().Bytes)
	}},
	{name: "a datagram longer than the path MTU", source: "IBTA 9.8.3, 11.6.2", want: "not taken", run: func(w *world) {
		a, b := w.pair(ud)
		wr := a.datagram(1, a.handle(b), b, 10000)
		wr.Flags = verbs.Signaled
		if a.qp.PostSend(&wr) != nil || a.next().Status == verbs.StatusLocalLength {
			w.say("not taken")
		}
	}},
	{name: "a protection domain with an address handle stays", source: "IBTA 11.2.2.4, ibv_destroy_ah(3)", want: "ErrBusy, ok, ok", run: func(w *world) {
		pd, err := w.dev[0].AllocPD()
		w.must(err)
		h, err := pd.CreateAH(verbs.AddressVector{Dst: w.addr[1]})
		w.must(err)
		w.says(pd.Free())
		w.says(h.Destroy())
		w.says(pd.Free())
	}},
	{name: "SEND on UC", source: "IBTA 9.8.2", want: `1 success, 2 success, "uc"`, run: func(w *world) {
		a, b := w.pair(uc)
		a.put(0, "uc")
		b.recv(2, b.sgl(0, 8))
		a.post(verbs.SendWR{ID: 1, Op: verbs.OpSend, SGL: a.sgl(0, 2)})
		a.result()
		b.result()
		b.get(0, 2)
	}},
	{name: "WRITE with immediate data on UC", source: "IBTA 9.8.2", want: `1 success, 2 success, 9, "uc"`, run: func(w *world) {
		a, b := w.pair(uc)
		a.put(0, "uc")
		b.recv(2, nil)
		wr := a.write(1, b.mem, 2)
		wr.Op, wr.Imm = verbs.OpWriteImm, 9
		a.post(wr)
		a.result()
		w.say("%d", b.result().Imm)
		b.get(0, 2)
	}},
	{name: "WRITE on UC with a wrong rkey is dropped", source: "IBTA 9.8.2.2", want: `2 success, 3 success, 9, "\x00\x00", RTS`, run: func(w *world) {
		a, b := w.pair(uc)
		a.put(0, "uc")
		b.recv(3, b.sgl(100, 8))
		wr := a.write(1, b.mem, 2)
		wr.RKey ^= 0x10
		w.must(a.qp.PostSend(&wr))
		a.post(verbs.SendWR{ID: 2, Op: verbs.OpSendImm, Imm: 9})
		a.result()
		w.say("%d", b.result().Imm)
		b.get(0, 2)
		w.say("%s", b.qp.State())
	}},
}
