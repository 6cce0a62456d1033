// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	"bytes"
	"strings"

	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

var sendChecks = []check{
	{name: "SEND", source: "IBTA 9.4", want: `1 success, 2 success, receive of 5 bytes, "hello"`, run: func(w *world) {
		a, b := w.pair(rc)
		a.put(0, "hello")
		b.recv(2, b.sgl(100, 50))
		a.post(verbs.SendWR{ID: 1, Op: verbs.OpSend, SGL: a.sgl(0, 5)})
		a.result()
		c := b.result()
		w.say("%s of %d bytes", c.Op, c.Bytes)
		b.get(100, 5)
	}},
	{name: "SEND with immediate data", source: "IBTA 9.4, 9.2", want: "2 success, immediate true 0x1234567, 5 bytes", run: func(w *world) {
		a, b := w.pair(rc)
		b.recv(2, b.sgl(0, 50))
		a.post(verbs.SendWR{ID: 1, Op: verbs.OpSendImm, Imm: 0x1234567, SGL: a.sgl(0, 5)})
		c := b.result()
		w.say("immediate %v %#x", c.HasImm, c.Imm)
		w.say("%d bytes", c.Bytes)
	}},
	{name: "SEND of no bytes", source: "IBTA 9.4", want: "1 success, 2 success, 0 bytes", run: func(w *world) {
		a, b := w.pair(rc)
		b.recv(2, nil)
		a.post(verbs.SendWR{ID: 1, Op: verbs.OpSend})
		a.result()
		w.say("%d bytes", b.result().Bytes)
	}},
	{name: "SEND from three elements into three", source: "IBTA 10.7", want: `2 success, "abcd...efgh.ij"`, run: func(w *world) {
		a, b := w.pair(rc)
		a.put(0, "abc..defghi..j")
		b.put(0, strings.Repeat(".", 20))
		b.recv(2, append(append(b.sgl(0, 4), b.sgl(7, 4)...), b.sgl(12, 5)...))
		a.post(verbs.SendWR{ID: 1, Op: verbs.OpSend, SGL: append(append(a.sgl(0, 3), a.sgl(5, 6)...), a.sgl(13, 1)...)})
		b.result()
		b.get(0, 14)
	}},
	{name: "SEND of several packets", source: "IBTA 9.4", want: "2 success, 9001 bytes, equal true", run: func(w *world) {
		a, b := w.pair(rc)
		a.put(0, strings.Repeat("0123456", 1300))
		b.recv(2, b.sgl(1, 10000))
		a.post(verbs.SendWR{ID: 1, Op: verbs.OpSend, SGL: a.sgl(3, 9001)})
		w.say("%d bytes", b.result().Bytes)
		w.say("equal %v", bytes.Equal(a.bytes(3, 9001), b.bytes(1, 9001)))
	}},
	{name: "inline data may be changed after the post", source: "ibv_post_send(3)", want: `2 success, "inline"`, run: func(w *world) {
		a, b := w.pair(rc)
		b.recv(2, b.sgl(0, 50))
		data := []byte("inline")
		a.post(verbs.SendWR{ID: 1, Op: verbs.OpSend, Flags: verbs.Inline, Data: data})
		clear(data)
		b.result()
		b.get(0, 6)
	}},
	{name: "completions are in the order of the posts", source: "IBTA 10.8", want: "0 success, 1 success, 2 success, 3 success, 4 success, 5 success", run: func(w *world) {
		a, b := w.pair(rc)
		for id := range 6 {
			wr := a.write(uint64(id), b.mem, 3000-500*id)
			if id%2 == 1 {
				wr.Op = verbs.OpRead
			}
			a.post(wr)
		}
		for range 6 {
			a.result()
		}
	}},
	{name: "receives are taken in their order", source: "IBTA 10.2", want: `5 success, 6 success, "ab"`, run: func(w *world) {
		a, b := w.pair(rc)
		a.put(0, "ab")
		b.recv(5, b.sgl(0, 1))
		b.recv(6, b.sgl(1, 1))
		for i := range 2 {
			a.post(verbs.SendWR{Op: verbs.OpSend, SGL: a.sgl(i, 1)})
			b.result()
		}
		b.get(0, 2)
	}},
	{name: "work without Signaled has no completion", source: "IBTA 10.7, ibv_post_send(3)", want: "2 success, 0 completions", run: func(w *world) {
		a, b := w.pair(rc)
		wr := a.write(1, b.mem, 8)
		w.must(a.qp.PostSend(&wr))
		a.post(a.write(2, b.mem, 8))
		a.result()
		w.say("%d completions", a.cq.Poll(make([]verbs.Completion, 4)))
	}},
	{name: "all work has completions if SignalAll is set", source: "IBTA 11.2, ibv_create_qp(3)", want: "1 success", run: func(w *world) {
		a, b := w.pair(func(i *verbs.QPInit) { i.SignalAll = true })
		wr := a.write(1, b.mem, 8)
		w.must(a.qp.PostSend(&wr))
		a.result()
	}},
	{name: "a receive that is too short", source: "IBTA 9.9, 11.6.2", want: "2 local length error, 1 remote invalid request, ERR, ERR", run: func(w *world) {
		a, b := w.pair(rc)
		b.recv(2, b.sgl(0, 4))
		a.post(verbs.SendWR{ID: 1, Op: verbs.OpSend, SGL: a.sgl(0, 5)})
		b.result()
		a.result()
		a.state(verbs.StateErr)
		b.state(verbs.StateErr)
	}},
	{name: "a receive with a wrong lkey", source: "IBTA 9.9, 11.6.2", want: "2 local protection error, 1 remote operation error", run: func(w *world) {
		a, b := w.pair(rc)
		list := b.sgl(0, 8)
		list[0].LKey ^= 0x10
		b.recv(2, list)
		a.post(verbs.SendWR{ID: 1, Op: verbs.OpSend, SGL: a.sgl(0, 5)})
		b.result()
		a.result()
	}},
	{name: "a receive into memory without LocalWrite", source: "IBTA 10.6, ibv_reg_mr(3)", want: "2 local protection error, 1 remote operation error", run: func(w *world) {
		a, b := w.pair(rc)
		b.recv(2, sgl(b.region(64, 0), 0, 8))
		a.post(verbs.SendWR{ID: 1, Op: verbs.OpSend, SGL: a.sgl(0, 5)})
		b.result()
		a.result()
	}},
	{name: "SEND with a wrong lkey", source: "IBTA 10.6, 11.6.2", want: "1 local protection error, ERR", run: func(w *world) {
		a, _ := w.pair(rc)
		list := a.sgl(0, 8)
		list[0].LKey ^= 0x10
		a.post(verbs.SendWR{ID: 1, Op: verbs.OpSend, SGL: list})
		a.result()
		a.state(verbs.StateErr)
	}},
	{name: "SEND beyond the end of a region", source: "IBTA 10.6, 11.6.2", want: "1 local protection error", run: func(w *world) {
		a, _ := w.pair(rc)
		a.post(verbs.SendWR{ID: 1, Op: verbs.OpSend, SGL: a.sgl(memory-4, 8)})
		a.result()
	}},
	{name: "SEND from a region of another protection domain", source: "IBTA 10.2", want: "1 local protection error", run: func(w *world) {
		a, _ := w.pair(rc)
		a.post(verbs.SendWR{ID: 1, Op: verbs.OpSend, SGL: sgl(w.end(0, rc).mem, 0, 8)})
		a.result()
	}},
}
