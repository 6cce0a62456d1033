// SPDX-License-Identifier: Apache-2.0

package device_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/internal/testkit/devices"
	"github.com/softroce/softroce-xdp/loader/device"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// couple is two queue pairs of one device, a log of what happened, and names for numbers that
// differ from run to run.
type couple struct {
	t      testing.TB
	dev    verbs.Device
	pd     verbs.PD
	cq     [2]verbs.CQ
	qp     [2]verbs.QP
	buf    [2][]byte
	mr     [2]verbs.MR
	srq    verbs.SRQ
	log    []string
	events <-chan verbs.Event
}

func newCouple(t testing.TB, d verbs.Device, alloc func(int) ([]byte, error), init verbs.QPInit, size int, srq bool) *couple {
	p := &couple{t: t, dev: d, events: d.Events()}
	var err error
	must := func(e error) {
		t.Helper()
		if e != nil {
			t.Fatal(e)
		}
	}
	p.pd, err = d.AllocPD()
	must(err)
	if srq {
		p.srq, err = p.pd.CreateSRQ(16, 2)
		must(err)
	}
	for i := range p.qp {
		p.cq[i], err = d.CreateCQ(64)
		must(err)
		p.buf[i], err = alloc(size)
		must(err)
		p.mr[i], err = p.pd.RegMR(p.buf[i], allRights|verbs.AccessBindWindows)
		must(err)
		init.SendCQ, init.RecvCQ, init.SRQ = p.cq[i], p.cq[i], nil
		if i == 1 && srq {
			init.SRQ = p.srq
		}
		p.qp[i], err = p.pd.CreateQP(init)
		must(err)
	}
	return p
}

func (p *couple) endpoint(i int) verbs.Endpoint {
	return verbs.Endpoint{Addr: here, QPN: p.qp[i].QPN(), PSN: 7, QKey: 0x11111111}
}

func (p *couple) connect() {
	p.t.Helper()
	for i := range 2 {
		if err := verbs.Connect(p.qp[i], p.endpoint(i), p.endpoint(1-i), verbs.DefaultAttr()); err != nil {
			p.t.Fatal(err)
		}
	}
}

func (p *couple) say(format string, args ...any) { p.log = append(p.log, fmt.Sprintf(format, args...)) }

func (p *couple) sgl(i, off, n int) []verbs.SGE {
	return []verbs.SGE{{Addr: p.mr[i].VA() + uint64(off), Len: uint32(n), LKey: p.mr[i].LKey()}}
}

// post logs the error of a post: which error of package verbs it wraps.
func (p *couple) post(i int, wr verbs.SendWR) {
	if err := p.qp[i].PostSend(&wr); err != nil {
		p.say("post %d: %s", wr.ID, kind(err))
	}
}

func (p *couple) receive(i int, wr verbs.RecvWR) {
	if err := p.qp[i].PostRecv(&wr); err != nil {
		p.say("receive %d: %s", wr.ID, kind(err))
	}
}

func kind(err error) string {
	for _, e := range []error{
		verbs.ErrSendState, verbs.ErrRecvState, verbs.ErrQueueFull, verbs.ErrSRQ, verbs.ErrOp, verbs.ErrSGL, verbs.ErrTooLong, verbs.ErrInline,
		verbs.ErrAtomic, verbs.ErrRdAtomic, verbs.ErrAH, verbs.ErrFence, verbs.ErrDestroyed, verbs.ErrBusy, verbs.ErrAccess, verbs.ErrRange,
	} {
		if errors.Is(err, e) {
			return e.Error()
		}
	}
	return "other: " + err.Error()
}

// completion logs the next completion of a side.
func (p *couple) completion(i int) {
	p.t.Helper()
	w := devices.Next(p.t, p.cq[i])
	who := slices.IndexFunc(p.qp[:], func(q verbs.QP) bool { return q.QPN() == w.QPN })
	from := slices.IndexFunc(p.qp[:], func(q verbs.QP) bool { return q.QPN() == w.SrcQP })
	w.QPN, w.SrcQP, w.InvKey = 0, 0, 0
	if w.Status != verbs.StatusSuccess {
		w.Op = 0 // not defined then
	}
	p.say("side %d: queue pair %d, from %d: %+v, state %s", i, who, from, w, p.qp[i].State())
}

// event logs the next event.
func (p *couple) event() {
	p.t.Helper()
	e := testkit.Receive(p.t, "an event", p.events)
	about := "nothing"
	switch {
	case e.QP != nil:
		about = fmt.Sprint("queue pair ", slices.Index(p.qp[:], e.QP))
	case e.SRQ != nil:
		about = fmt.Sprint("SRQ ", e.SRQ == p.srq)
	case e.CQ != nil:
		about = fmt.Sprint("CQ ", slices.Index(p.cq[:], e.CQ))
	}
	p.say("%s: %s", e.Type, about)
}

// scripts are what is done with a couple, and lines that its log must have.
var scripts = map[string]struct {
	init verbs.QPInit
	srq  bool
	run  func(p *couple)
	want string
}{
	"write": {init: verbs.QPInit{Type: verbs.RC, MaxInline: 64}, run: func(p *couple) {
		p.connect()
		copy(p.buf[0], "written")
		p.post(0, verbs.SendWR{ID: 1, Op: verbs.OpWrite, Flags: verbs.Signaled, SGL: p.sgl(0, 0, 7), RemoteAddr: p.mr[1].VA(), RKey: p.mr[1].RKey()})
		p.completion(0)
		p.say("%q", p.buf[1][:8])
		p.post(0, verbs.SendWR{ID: 2, Op: verbs.OpWrite, Flags: verbs.Signaled | verbs.Inline, Data: []byte("inline"), RemoteAddr: p.mr[1].VA() + 100, RKey: p.mr[1].RKey()})
		p.completion(0)
		p.say("%q", p.buf[1][100:107])
		p.receive(1, verbs.RecvWR{ID: 9})
		p.post(0, verbs.SendWR{ID: 3, Op: verbs.OpWriteImm, Imm: 5, Flags: verbs.Signaled, SGL: p.sgl(0, 0, 3), RemoteAddr: p.mr[1].VA() + 200, RKey: p.mr[1].RKey()})
		p.completion(0)
		p.completion(1)
	}, want: `"written\x00"`},
	"read and atomics": {init: verbs.QPInit{Type: verbs.RC}, run: func(p *couple) {
		p.connect()
		copy(p.buf[1], "at the peer")
		p.post(0, verbs.SendWR{ID: 1, Op: verbs.OpRead, Flags: verbs.Signaled, SGL: p.sgl(0, 0, 11), RemoteAddr: p.mr[1].VA(), RKey: p.mr[1].RKey()})
		p.completion(0)
		p.say("%q", p.buf[0][:11])
		binary.NativeEndian.PutUint64(p.buf[1][64:], 40)
		at := p.mr[1].VA() + 64
		p.post(0, verbs.SendWR{ID: 2, Op: verbs.OpFetchAdd, Add: 2, Flags: verbs.Signaled, SGL: p.sgl(0, 64, 8), RemoteAddr: at, RKey: p.mr[1].RKey()})
		p.completion(0)
		p.post(0, verbs.SendWR{ID: 3, Op: verbs.OpCompareSwap, Compare: 42, Swap: 7, Flags: verbs.Signaled, SGL: p.sgl(0, 72, 8), RemoteAddr: at, RKey: p.mr[1].RKey()})
		p.completion(0)
		p.say("%d %d %d", p.buf[0][64], p.buf[0][72], p.buf[1][64])
	}, want: "40 42 7"},
	"unsignaled, then the key is wrong": {init: verbs.QPInit{Type: verbs.RC}, run: func(p *couple) {
		p.connect()
		p.receive(0, verbs.RecvWR{ID: 11, SGL: p.sgl(0, 0, 8)})
		ok := verbs.SendWR{ID: 1, Op: verbs.OpWrite, SGL: p.sgl(0, 0, 8), RemoteAddr: p.mr[1].VA(), RKey: p.mr[1].RKey()}
		p.post(0, ok)
		bad := ok
		bad.ID, bad.RKey = 2, ok.RKey+1
		p.post(0, bad)
		p.completion(0)
		p.completion(0)
		p.event()
		p.post(0, verbs.SendWR{ID: 3, Op: verbs.OpSend, SGL: p.sgl(0, 0, 8)})
		p.completion(0)
	}, want: "Status:remote access error"},
	"posts that are refused": {init: verbs.QPInit{Type: verbs.RC, MaxInline: 16, MaxRecv: 4, MaxSend: 4}, run: func(p *couple) {
		p.post(0, verbs.SendWR{ID: 1, Op: verbs.OpSend})
		p.receive(0, verbs.RecvWR{ID: 2})
		if err := verbs.ToInit(p.qp[0], p.endpoint(0), verbs.DefaultAttr()); err != nil {
			p.t.Fatal(err)
		}
		for i := range 5 {
			p.receive(0, verbs.RecvWR{ID: uint64(10 + i), SGL: p.sgl(0, 0, 8)})
		}
		p.receive(0, verbs.RecvWR{ID: 3, SGL: append(p.sgl(0, 0, 8), p.sgl(0, 8, 8)...)})
		p.connect()
		p.post(0, verbs.SendWR{ID: 4, Op: verbs.OpSend, SGL: append(p.sgl(0, 0, 8), p.sgl(0, 8, 8)...)})
		p.post(0, verbs.SendWR{ID: 5, Op: verbs.OpSend, Flags: verbs.Inline, Data: make([]byte, 17)})
		p.post(0, verbs.SendWR{ID: 6, Op: verbs.OpFetchAdd, SGL: p.sgl(0, 0, 4)})
		p.post(0, verbs.SendWR{ID: 7, Op: 99})
		if err := p.qp[0].Destroy(); err != nil {
			p.t.Fatal(err)
		}
		p.post(0, verbs.SendWR{ID: 8, Op: verbs.OpSend})
		p.say("%s, %s", kind(p.qp[0].Destroy()), p.qp[0].State())
		if err := p.cq[1].Destroy(); err == nil || !errors.Is(err, verbs.ErrBusy) {
			p.say("destroy a queue in use: %v", err)
		}
	}, want: "receive 14: " + verbs.ErrQueueFull.Error()},
	"queues wrap": {init: verbs.QPInit{Type: verbs.RC, MaxSend: 3, MaxRecv: 3}, run: func(p *couple) {
		p.connect()
		for i := range 50 {
			p.receive(1, verbs.RecvWR{ID: uint64(i), SGL: p.sgl(1, 8*i, 8)})
			binary.NativeEndian.PutUint64(p.buf[0][8*i:], uint64(i))
			p.post(0, verbs.SendWR{ID: uint64(i), Op: verbs.OpSend, Flags: verbs.Signaled, SGL: p.sgl(0, 8*i, 8)})
			p.completion(0)
			p.completion(1)
		}
		p.say("%v", slices.Equal(p.buf[0][:400], p.buf[1][:400]))
	}, want: "true"},
	"datagrams": {init: verbs.QPInit{Type: verbs.UD}, run: func(p *couple) {
		p.connect()
		ah, err := p.pd.CreateAH(verbs.AddressVector{Dst: here})
		if err != nil {
			p.t.Fatal(err)
		}
		p.receive(1, verbs.RecvWR{ID: 3, SGL: p.sgl(1, 0, 128)})
		copy(p.buf[0], "datagram")
		wr := verbs.SendWR{ID: 1, Op: verbs.OpSend, Flags: verbs.Signaled, SGL: p.sgl(0, 0, 8), AH: ah, RemoteQPN: p.qp[1].QPN(), RemoteQKey: 0x11111111}
		p.post(0, wr)
		p.completion(0)
		p.completion(1)
		p.say("%q", p.buf[1][verbs.GRHLen:verbs.GRHLen+8])
		wr.AH = nil
		p.post(0, wr)
		p.say("%v", ah.Destroy())
	}, want: `"datagram"`},
	"shared receive queue": {init: verbs.QPInit{Type: verbs.RC}, srq: true, run: func(p *couple) {
		p.connect()
		p.receive(1, verbs.RecvWR{ID: 1})
		for i := range 4 {
			if err := p.srq.PostRecv(&verbs.RecvWR{ID: uint64(20 + i), SGL: p.sgl(1, 64*i, 64)}); err != nil {
				p.t.Fatal(err)
			}
		}
		p.say("%s", kind(p.srq.PostRecv(&verbs.RecvWR{SGL: make([]verbs.SGE, 3)})))
		// Posts and calls are in order, so that the limit counts all four.
		if err := p.srq.SetLimit(3); err != nil {
			p.t.Fatal(err)
		}
		for i := range 2 {
			p.post(0, verbs.SendWR{ID: uint64(i), Op: verbs.OpSend, Flags: verbs.Signaled, SGL: p.sgl(0, 0, 8)})
			p.completion(0)
			p.completion(1)
		}
		p.event()
		p.say("%s", kind(p.srq.Destroy()))
	}, want: "SRQ: limit reached: SRQ true"},
	"window": {init: verbs.QPInit{Type: verbs.RC}, run: func(p *couple) {
		p.connect()
		w, err := p.pd.AllocMW()
		if err != nil {
			p.t.Fatal(err)
		}
		before := w.RKey()
		p.post(1, verbs.SendWR{ID: 1, Op: verbs.OpBindWindow, Flags: verbs.Signaled, Bind: verbs.Bind{
			Window: before, Region: p.mr[1].LKey(), Addr: p.mr[1].VA() + 64, Length: 64, Access: verbs.AccessRemoteWrite, NewKey: uint8(before) + 1,
		}})
		p.completion(1)
		p.say("%v", w.RKey() == before&^0xff|uint32(uint8(before)+1))
		copy(p.buf[0], "window")
		p.post(0, verbs.SendWR{ID: 2, Op: verbs.OpWrite, Flags: verbs.Signaled, SGL: p.sgl(0, 0, 6), RemoteAddr: p.mr[1].VA() + 64, RKey: w.RKey()})
		p.completion(0)
		p.say("%q, %s", p.buf[1][64:70], kind(p.mr[1].Deregister()))
		p.post(0, verbs.SendWR{ID: 3, Op: verbs.OpSendInv, InvKey: w.RKey(), Flags: verbs.Signaled, SGL: p.sgl(0, 0, 6)})
		p.receive(1, verbs.RecvWR{ID: 4, SGL: p.sgl(1, 0, 64)})
		p.completion(0)
		p.completion(1)
		p.say("%v %v", w.Free(), p.mr[1].Deregister())
	}, want: `"window", still in use`},
}

// The device of a server does what the engine in this process does: the same completions, states,
// events and errors.
func TestSameAsInProcess(t *testing.T) {
	for name, s := range scripts {
		t.Run(name, func(t *testing.T) {
			inProcess := devices.Loopback(t)
			p := newCouple(t, inProcess, func(n int) ([]byte, error) { return make([]byte, n), nil }, s.init, 8192, s.srq)
			s.run(p)
			want := strings.Join(p.log, "\n")
			if !strings.Contains(want, s.want) {
				t.Fatalf("the log lacks %s:\n%s", s.want, want)
			}
			_, dir := serve(t, device.Config{})
			d := open(t, dir)
			for memory, alloc := range map[string]func(int) ([]byte, error){
				"of the arena": d.Alloc, "of Go": func(n int) ([]byte, error) { return make([]byte, n), nil },
			} {
				q := newCouple(t, d, alloc, s.init, 8192, s.srq)
				s.run(q)
				if got := strings.Join(q.log, "\n"); got != want {
					t.Errorf("through the server, memory %s:\n%s\n\nin this process:\n%s", memory, got, want)
				}
			}
		})
	}
}
