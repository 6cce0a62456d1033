// SPDX-License-Identifier: Apache-2.0

package conformance_test

import "github.com/softroce/softroce-xdp/rocev2/verbs"

// window binds a window to 64 bytes of the region, from offset 64 on.
func (e *end) window(of verbs.MR) verbs.MW {
	e.w.t.Helper()
	m, err := e.pd.AllocMW()
	e.w.must(err)
	e.post(verbs.SendWR{ID: 9, Op: verbs.OpBindWindow, Bind: verbs.Bind{
		Window: m.RKey(), Region: of.LKey(), Addr: of.VA() + 64, Length: 64, Access: verbs.AccessRemoteWrite, NewKey: uint8(m.RKey()) + 1,
	}})
	e.result()
	return m
}

// through is a WRITE of 8 bytes through a window.
func (e *end) through(id uint64, m verbs.MW, at uint64) verbs.SendWR {
	return verbs.SendWR{ID: id, Op: verbs.OpWrite, SGL: e.sgl(0, 8), RemoteAddr: at, RKey: m.RKey()}
}

var memoryChecks = []check{
	{name: "memory of the process is registered", source: "ibv_reg_mr(3)", want: `ok, 1 success, "process"`, lacks: []string{"card"}, run: func(w *world) {
		a, b := w.pair(rc)
		memory := make([]byte, 64)
		m, err := b.pd.RegMR(memory, allRights)
		if w.notOffered(err) {
			return
		}
		w.says(err)
		a.put(0, "process")
		a.post(a.write(1, m, 7))
		a.result()
		w.must(m.Deregister())
		w.say("%q", memory[:7])
	}},
	{name: "RemoteWrite without LocalWrite", source: "IBTA 10.6, ibv_reg_mr(3)", want: "ErrAccess", run: func(w *world) {
		a := w.end(0, rc)
		_, err := w.register(a.pd, 0, 64, verbs.AccessRemoteWrite)
		w.says(err)
	}},
	{name: "RemoteAtomic without LocalWrite", source: "IBTA 10.6, ibv_reg_mr(3)", want: "ErrAccess", run: func(w *world) {
		a := w.end(0, rc)
		_, err := w.register(a.pd, 0, 64, verbs.AccessRemoteAtomic)
		w.says(err)
	}},
	{name: "a region of addresses from 0", source: "ibv_reg_mr(3)", want: `address 0, 1 success, "zero"`, run: func(w *world) {
		a, b := w.pair(rc)
		b.mem = b.region(64, allRights&^verbs.AccessBindWindows|verbs.AccessZeroBased)
		w.say("address %d", b.mem.VA())
		a.put(0, "zero")
		wr := a.write(1, b.mem, 4)
		wr.RemoteAddr = 8
		a.post(wr)
		a.result()
		b.get(8, 4)
	}},
	{name: "WRITE to a region that was deregistered", source: "IBTA 11.2, ibv_dereg_mr(3)", want: "ok, 1 remote access error", run: func(w *world) {
		a, b := w.pair(rc)
		wr := a.write(1, b.mem, 8)
		w.says(b.mem.Deregister())
		a.post(wr)
		a.result()
	}},
	{name: "a region is deregistered once", source: "IBTA 11.2, ibv_dereg_mr(3)", want: "ok, ErrDestroyed", run: func(w *world) {
		a := w.end(0, rc)
		w.says(a.mem.Deregister())
		w.says(a.mem.Deregister())
	}},
	{name: "a protection domain with a region stays", source: "IBTA 11.2, ibv_dealloc_pd(3)", want: "ErrBusy, ok, ok", run: func(w *world) {
		pd, err := w.dev[0].AllocPD()
		w.must(err)
		m, err := w.register(pd, 0, 64, allRights)
		w.must(err)
		w.says(pd.Free())
		w.says(m.Deregister())
		w.says(pd.Free())
	}},
	{name: "WRITE through a window", source: "IBTA 10.6, ibv_post_send(3)", want: `9 success, 1 success, "windowed"`, run: func(w *world) {
		a, b := w.pair(rc)
		m := b.window(b.mem)
		a.put(0, "windowed")
		a.post(a.through(1, m, b.mem.VA()+64))
		a.result()
		b.get(64, 8)
	}},
	{name: "WRITE beyond the end of a window", source: "IBTA 10.6, 9.7", want: "9 success, 1 remote access error", run: func(w *world) {
		a, b := w.pair(rc)
		a.post(a.through(1, b.window(b.mem), b.mem.VA()+121))
		a.result()
	}},
	{name: "READ through a window for WRITE", source: "IBTA 10.6", want: "9 success, 1 remote access error", run: func(w *world) {
		a, b := w.pair(rc)
		wr := a.through(1, b.window(b.mem), b.mem.VA()+64)
		wr.Op = verbs.OpRead
		a.post(wr)
		a.result()
	}},
	{name: "a window of a region without BindWindows", source: "IBTA 10.6, ibv_reg_mr(3)", want: "9 memory window bind error", run: func(w *world) {
		a, _ := w.pair(rc)
		a.window(a.region(256, allRights&^verbs.AccessBindWindows))
	}},
	{name: "a window for WRITE of a region without LocalWrite", source: "ibv_bind_mw(3)", want: "9 memory window bind error", run: func(w *world) {
		a, _ := w.pair(rc)
		a.window(a.region(256, verbs.AccessRemoteRead|verbs.AccessBindWindows))
	}},
	{name: "WRITE through a window of another queue pair", source: "IBTA 10.6", want: "9 success, 1 remote access error", run: func(w *world) {
		a, b := w.pair(rc)
		m := b.window(b.mem)
		a.qp, b.qp = a.queuePair(rc), b.queuePair(rc)
		a.init()
		b.init()
		connect(a, b, asDefault)
		a.post(a.through(1, m, b.mem.VA()+64))
		a.result()
	}},
	{name: "a region with a window stays", source: "IBTA 11.2, ibv_dereg_mr(3)", want: "9 success, ErrBusy, ok, ok", run: func(w *world) {
		a, _ := w.pair(rc)
		m := a.window(a.mem)
		w.says(a.mem.Deregister())
		w.says(m.Free())
		w.says(a.mem.Deregister())
	}},
	{name: "SEND with invalidate", source: "IBTA 9.4, 10.6", want: "9 success, 1 success, 3 success, invalidated true, key true, 2 remote access error", run: func(w *world) {
		a, b := w.pair(rc)
		m := b.window(b.mem)
		key := m.RKey()
		b.recv(3, b.sgl(0, 8))
		a.post(verbs.SendWR{ID: 1, Op: verbs.OpSendInv, InvKey: key, SGL: a.sgl(0, 8)})
		a.result()
		c := b.result()
		w.say("invalidated %v, key %v", c.HasInv, c.InvKey == key)
		a.post(a.through(2, m, b.mem.VA()+64))
		a.result()
	}},
	{name: "local invalidate of a window", source: "IBTA 10.6, ibv_post_send(3)", want: "9 success, 8 success, 2 remote access error", run: func(w *world) {
		a, b := w.pair(rc)
		m := b.window(b.mem)
		b.post(verbs.SendWR{ID: 8, Op: verbs.OpLocalInv, InvKey: m.RKey()})
		b.result()
		a.post(a.through(2, m, b.mem.VA()+64))
		a.result()
	}},
}
