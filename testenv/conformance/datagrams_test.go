// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	"bytes"
	"time"

	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

var datagramChecks = []check{
	{name: "a datagram", source: "IBTA 9.8, ibv_poll_cq(3)", want: `1 success, 2 success, 48 bytes, GRH true, SrcQP true, "datagram"`, run: func(w *world) {
		a, b := w.pair(ud)
		a.put(0, "datagram")
		b.recv(2, b.sgl(0, 100))
		a.post(a.datagram(1, a.handle(b), b, 8))
		a.result()
		c := b.result()
		w.say("%d bytes, GRH %v, SrcQP %v", c.Bytes, c.HasGRH, c.SrcQP == a.qp.QPN())
		b.get(verbs.GRHLen, 8)
	}},
	{name: "the header before a datagram", source: "IBTA A17", want: "2 success, IP version 4, source true, destination true", run: func(w *world) {
		a, b := w.pair(ud)
		b.recv(2, b.sgl(0, 100))
		a.post(a.datagram(1, a.handle(b), b, 8))
		b.result()
		h := b.bytes(20, 20)
		w.say("IP version %d", h[0]>>4)
		w.say("source %v, destination %v", bytes.Equal(h[12:16], a.addr.AsSlice()), bytes.Equal(h[16:20], b.addr.AsSlice()))
	}},
	{name: "a datagram with immediate data", source: "IBTA 9.8", want: "2 success, immediate true 7", run: func(w *world) {
		a, b := w.pair(ud)
		b.recv(2, b.sgl(0, 100))
		wr := a.datagram(1, a.handle(b), b, 8)
		wr.Op, wr.Imm = verbs.OpSendImm, 7
		a.post(wr)
		c := b.result()
		w.say("immediate %v %d", c.HasImm, c.Imm)
	}},
	{name: "a datagram with a wrong Q_Key is dropped", source: "IBTA 10.2, 9.6", want: "1 success, 2 success, 5 success, 43 bytes", run: func(w *world) {
		a, b := w.pair(ud)
		h := a.handle(b)
		b.recv(5, b.sgl(0, 100))
		wr := a.datagram(1, h, b, 8)
		wr.RemoteQKey++
		a.post(wr)
		a.post(a.datagram(2, h, b, 3))
		a.result()
		a.result()
		w.say("%d bytes", b.result().Bytes)
	}},
	{name: "a Q_Key with bit 31 set stands for that of the queue pair", source: "IBTA 10.2", want: "5 success, 48 bytes", run: func(w *world) {
		a, b := w.pair(ud)
		b.recv(5, b.sgl(0, 100))
		wr := a.datagram(1, a.handle(b), b, 8)
		wr.RemoteQKey = 1 << 31
		a.post(wr)
		w.say("%d bytes", b.result().Bytes)
	}},
	{name: "a datagram into a shared receive queue", source: "ibv_create_qp(3)", want: "5 success, 48 bytes", run: func(w *world) {
		a, b := w.end(0, ud), w.end(1, ud)
		s := b.sharedQueue(4)
		b.qp = b.queuePair(func(i *verbs.QPInit) { i.Type, i.SRQ = verbs.UD, s })
		a.init()
		b.init()
		connect(a, b, asDefault)
		w.must(s.PostRecv(&verbs.RecvWR{ID: 5, SGL: b.sgl(0, 100)}))
		a.post(a.datagram(1, a.handle(b), b, 8))
		w.say("%d bytes", b.result().Bytes)
	}},
	{name: "a datagram without a receive is dropped", source: "IBTA 9.8", want: "1 success, 5 success, 43 bytes", run: func(w *world) {
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
		w.say("%d bytes", b.result().Bytes)
	}},
	{name: "a datagram longer than the path MTU", source: "IBTA 9.8, 11.6.2", want: "not taken", run: func(w *world) {
		a, b := w.pair(ud)
		wr := a.datagram(1, a.handle(b), b, 10000)
		wr.Flags = verbs.Signaled
		if a.qp.PostSend(&wr) != nil || a.next().Status == verbs.StatusLocalLength {
			w.say("not taken")
		}
	}},
	{name: "a protection domain with an address handle stays", source: "IBTA 11.2, ibv_dealloc_pd(3)", want: "ErrBusy, ok, ok", run: func(w *world) {
		pd, err := w.dev[0].AllocPD()
		w.must(err)
		h, err := pd.CreateAH(verbs.AddressVector{Dst: w.addr[1]})
		w.must(err)
		w.says(pd.Free())
		w.says(h.Destroy())
		w.says(pd.Free())
	}},
	{name: "SEND on UC", source: "IBTA 9.8", want: `1 success, 2 success, "uc"`, run: func(w *world) {
		a, b := w.pair(uc)
		a.put(0, "uc")
		b.recv(2, b.sgl(0, 8))
		a.post(verbs.SendWR{ID: 1, Op: verbs.OpSend, SGL: a.sgl(0, 2)})
		a.result()
		b.result()
		b.get(0, 2)
	}},
	{name: "SEND on UC without a receive is dropped", source: "IBTA 9.8", want: `1 success, 2 success, 5 success, immediate 7, "uc"`, run: func(w *world) {
		a, b := w.pair(uc)
		a.put(0, "uc")
		b.put(0, "--")
		a.post(verbs.SendWR{ID: 1, Op: verbs.OpSendImm, Imm: 6})
		a.result()
		a.post(a.write(2, b.mem, 2))
		a.result()
		for until := time.Now().Add(patience); b.bytes(0, 1)[0] == '-' && time.Now().Before(until); { // then the SEND has arrived
			time.Sleep(time.Millisecond)
		}
		b.recv(5, nil)
		a.post(verbs.SendWR{ID: 3, Op: verbs.OpSendImm, Imm: 7})
		w.say("immediate %d", b.result().Imm)
		b.get(0, 2)
	}},
	{name: "WRITE with immediate data on UC", source: "IBTA 9.8", want: `1 success, 2 success, immediate 9, "uc"`, run: func(w *world) {
		a, b := w.pair(uc)
		a.put(0, "uc")
		b.recv(2, nil)
		wr := a.write(1, b.mem, 2)
		wr.Op, wr.Imm = verbs.OpWriteImm, 9
		a.post(wr)
		a.result()
		w.say("immediate %d", b.result().Imm)
		b.get(0, 2)
	}},
	{name: "WRITE on UC with a wrong rkey is dropped", source: "IBTA 9.8", want: `2 success, 3 success, immediate 9, "--", RTS`, run: func(w *world) {
		a, b := w.pair(uc)
		a.put(0, "uc")
		b.put(0, "--")
		b.recv(3, b.sgl(100, 8))
		wr := a.write(1, b.mem, 2)
		wr.RKey ^= 0x10
		w.must(a.qp.PostSend(&wr))
		a.post(verbs.SendWR{ID: 2, Op: verbs.OpSendImm, Imm: 9})
		a.result()
		w.say("immediate %d", b.result().Imm)
		b.get(0, 2)
		w.say("%s", b.qp.State())
	}},
}
