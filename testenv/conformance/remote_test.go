// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	"encoding/binary"

	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// denied is a check of an operation that the peer refuses.
func denied(name, source, want string, wr func(a, b *end) verbs.SendWR) check {
	return check{name: name, source: source, want: want, run: func(w *world) {
		a, b := w.pair(rc)
		a.post(wr(a, b))
		a.result()
		a.state(verbs.StateErr)
	}}
}

func (e *end) read(id uint64, from verbs.MR, n int) verbs.SendWR {
	return verbs.SendWR{ID: id, Op: verbs.OpRead, SGL: e.sgl(0, n), RemoteAddr: from.VA(), RKey: from.RKey()}
}

func (e *end) atomic(op verbs.Op, at verbs.MR) verbs.SendWR {
	return verbs.SendWR{ID: 1, Op: op, SGL: e.sgl(0, 8), RemoteAddr: at.VA(), RKey: at.RKey(), Add: 2, Compare: 40, Swap: 7}
}

func (e *end) number(off int) uint64 { return binary.NativeEndian.Uint64(e.bytes(off, 8)) }

// atomics is a check of an atomic operation on a word of 40 or another value.
func atomics(name string, op verbs.Op, before uint64, want string) check {
	return check{name: name, source: "IBTA 9.4", want: want, run: func(w *world) {
		a, b := w.pair(rc)
		b.put(0, string(binary.NativeEndian.AppendUint64(nil, before)))
		a.post(a.atomic(op, b.mem))
		a.result()
		w.say("%d before", a.number(0))
		w.say("%d after", b.number(0))
	}}
}

var remoteChecks = []check{
	{name: "WRITE", source: "IBTA 9.4", want: `1 success, "-written-"`, run: func(w *world) {
		a, b := w.pair(rc)
		a.put(0, "written")
		b.put(0, "---------")
		wr := a.write(1, b.mem, 7)
		wr.RemoteAddr++
		a.post(wr)
		a.result()
		b.get(0, 9)
	}},
	{name: "WRITE of no bytes with any key", source: "IBTA 9.7", want: "1 success", run: func(w *world) {
		a, _ := w.pair(rc)
		a.post(verbs.SendWR{ID: 1, Op: verbs.OpWrite, RemoteAddr: 1, RKey: 1})
		a.result()
	}},
	{name: "WRITE with immediate data takes a receive", source: "IBTA 9.4", want: "2 success, receive of WRITE with immediate true 5, 7 bytes", run: func(w *world) {
		a, b := w.pair(rc)
		b.recv(2, nil)
		wr := a.write(1, b.mem, 7)
		wr.Op, wr.Imm = verbs.OpWriteImm, 5
		a.post(wr)
		c := b.result()
		w.say("%s %v %d, %d bytes", c.Op, c.HasImm, c.Imm, c.Bytes)
	}},
	denied("WRITE with a wrong rkey", "IBTA 9.7", "1 remote access error, ERR", func(a, b *end) verbs.SendWR {
		wr := a.write(1, b.mem, 8)
		wr.RKey ^= 0x10
		return wr
	}),
	denied("WRITE beyond the end of a region", "IBTA 9.7", "1 remote access error, ERR", func(a, b *end) verbs.SendWR {
		wr := a.write(1, b.mem, 8)
		wr.RemoteAddr += memory - 4
		return wr
	}),
	denied("WRITE to a region without RemoteWrite", "IBTA 10.6, ibv_reg_mr(3)", "1 remote access error, ERR", func(a, b *end) verbs.SendWR {
		return a.write(1, b.region(64, verbs.AccessLocalWrite|verbs.AccessRemoteRead), 8)
	}),
	denied("WRITE to a region of another protection domain", "IBTA 10.2", "1 remote access error, ERR", func(a, b *end) verbs.SendWR {
		return a.write(1, a.w.end(1, rc).mem, 8)
	}),
	{name: "WRITE to a queue pair without that right", source: "IBTA 9.7, 10.2", want: "1 remote invalid request", run: func(w *world) {
		a, b := w.end(0, rc), w.end(1, rc)
		attr := verbs.DefaultAttr()
		attr.Access = verbs.AccessRemoteRead
		w.must(verbs.ToInit(b.qp, b.endpoint(), attr))
		a.init()
		connect(a, b, asDefault)
		a.post(a.write(1, b.mem, 8))
		a.result()
	}},
	{name: "a refused WRITE is an event of the peer", source: "IBTA 11.6.3", want: "1 remote access error, queue pair: access error", run: func(w *world) {
		a, b := w.pair(rc)
		wr := a.write(1, b.mem, 8)
		wr.RKey ^= 0x10
		a.post(wr)
		a.result()
		b.event(verbs.EventQPAccess, b.qp)
	}},
	{name: "READ", source: "IBTA 9.4", want: `1 success, READ of 11 bytes, "at the peer"`, run: func(w *world) {
		a, b := w.pair(rc)
		b.put(0, "at the peer")
		a.post(a.read(1, b.mem, 11))
		c := a.result()
		w.say("%s of %d bytes", c.Op, c.Bytes)
		a.get(0, 11)
	}},
	{name: "READ into several elements", source: "IBTA 9.4", want: `1 success, "at..the"`, run: func(w *world) {
		a, b := w.pair(rc)
		b.put(0, "atthe")
		a.put(0, ".......")
		wr := a.read(1, b.mem, 2)
		wr.SGL = append(wr.SGL, a.sgl(4, 3)...)
		a.post(wr)
		a.result()
		a.get(0, 7)
	}},
	denied("READ with a wrong rkey", "IBTA 9.7", "1 remote access error, ERR", func(a, b *end) verbs.SendWR {
		wr := a.read(1, b.mem, 8)
		wr.RKey ^= 0x10
		return wr
	}),
	denied("READ of a region without RemoteRead", "IBTA 10.6, ibv_reg_mr(3)", "1 remote access error, ERR", func(a, b *end) verbs.SendWR {
		return a.read(1, b.region(64, verbs.AccessLocalWrite|verbs.AccessRemoteWrite), 8)
	}),
	denied("READ into memory without LocalWrite", "IBTA 10.6, ibv_reg_mr(3)", "1 local protection error, ERR", func(a, b *end) verbs.SendWR {
		wr := a.read(1, b.mem, 8)
		wr.SGL = sgl(a.region(64, 0), 0, 8)
		return wr
	}),
	{name: "a fenced SEND has what a READ brought", source: "IBTA 10.8", want: `3 success, "at the peer"`, run: func(w *world) {
		a, b := w.pair(rc)
		b.put(0, "at the peer")
		b.recv(3, b.sgl(100, 20))
		a.post(a.read(1, b.mem, 11))
		a.post(verbs.SendWR{ID: 2, Op: verbs.OpSend, Flags: verbs.Fence, SGL: a.sgl(0, 11)})
		b.result()
		b.get(100, 11)
	}},
	atomics("fetch and add", verbs.OpFetchAdd, 40, "1 success, 40 before, 42 after"),
	atomics("fetch and add wraps", verbs.OpFetchAdd, 1<<64-1, "1 success, 18446744073709551615 before, 1 after"),
	atomics("compare and swap of an equal value", verbs.OpCompareSwap, 40, "1 success, 40 before, 7 after"),
	atomics("compare and swap of another value", verbs.OpCompareSwap, 41, "1 success, 41 before, 41 after"),
	denied("an ATOMIC at an address that is not a multiple of 8", "IBTA 9.4, 9.7", "1 remote invalid request, ERR", func(a, b *end) verbs.SendWR {
		wr := a.atomic(verbs.OpFetchAdd, b.mem)
		wr.RemoteAddr += 4
		return wr
	}),
	denied("an ATOMIC on a region without RemoteAtomic", "IBTA 10.6, ibv_reg_mr(3)", "1 remote access error, ERR", func(a, b *end) verbs.SendWR {
		return a.atomic(verbs.OpFetchAdd, b.region(64, verbs.AccessLocalWrite|verbs.AccessRemoteWrite))
	}),
}
