// SPDX-License-Identifier: Apache-2.0

package device_test

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/loader/device"
	"github.com/softroce/softroce-xdp/rocev2/rdma/proto"
	"github.com/softroce/softroce-xdp/rocev2/ring"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/rocev2/wqe"
)

// victim is a queue pair of a hostile process, whose rings it writes itself.
type victim struct {
	*raw
	pd, cq     proto.Handle
	qp         proto.CreateQPReply
	send, recv ring.Ring
	sendMem    []byte
	cqMem      []byte
	completed  *ring.CompletionConsumer
}

func (r *raw) queuePair() *victim {
	r.t.Helper()
	v := &victim{raw: r}
	must := func(fds []int, err error) []int {
		r.t.Helper()
		if err != nil {
			r.t.Fatal(err)
		}
		return fds
	}
	must(r.call(proto.TAllocPD, nil, &v.pd))
	var cq proto.CreateCQReply
	fds := must(r.call(proto.TCreateCQ, &proto.CreateCQ{Depth: 16}, &cq))
	v.cq.Handle, v.cqMem = cq.Handle, r.mappedAt(fds[0], cq.Offset, ring.Shape(cq.Ring).Bytes())
	completions, err := ring.Open(v.cqMem, ring.Shape(cq.Ring))
	if err != nil {
		r.t.Fatal(err)
	}
	v.completed = ring.NewCompletionConsumer(completions)
	m := &proto.CreateQP{
		PD: v.pd.Handle, SendCQ: cq.Handle, RecvCQ: cq.Handle, MaxSend: 16, MaxRecv: 16, MaxSendSGE: 2, MaxRecvSGE: 2, MaxInline: 64,
		Type: uint8(verbs.RC),
	}
	fds = must(r.call(proto.TCreateQP, m, &v.qp))
	shape := ring.Shape(v.qp.Send)
	v.sendMem = r.mappedAt(fds[0], v.qp.Offset, shape.Bytes()+ring.Shape(v.qp.Recv).Bytes())
	if v.send, err = ring.Open(v.sendMem, shape); err != nil {
		r.t.Fatal(err)
	}
	if v.recv, err = ring.Open(v.sendMem[shape.Bytes():], ring.Shape(v.qp.Recv)); err != nil {
		r.t.Fatal(err)
	}
	return v
}

// connect connects the queue pair with itself.
func (v *victim) connect() {
	v.t.Helper()
	for _, to := range []verbs.State{verbs.StateInit, verbs.StateRTR, verbs.StateRTS} {
		a := verbs.DefaultAttr()
		a.State, a.DestQPN, a.AV.Dst = to, v.qp.QPN, here
		m := &proto.ModifyQP{Handle: v.qp.Handle, Mask: uint32(verbs.RequiredMask(verbs.RC, to)), Attr: proto.AttrOf(a)}
		if _, err := v.call(proto.TModifyQP, m, nil); err != nil {
			v.t.Fatal(err)
		}
	}
}

func (v *victim) ring(queue uint32) {
	v.doorbell.Set(queue)
	_, _ = unix.Write(v.wake, []byte{1, 0, 0, 0, 0, 0, 0, 0})
}

func (v *victim) state() verbs.State { return verbs.State(v.send.State().Load()) }

// completion waits for the next completion.
func (v *victim) completion() verbs.Completion {
	v.t.Helper()
	testkit.Eventually(v.t, "a completion is written", v.completed.Ready)
	var entry [wqe.CqeBytes]byte
	v.completed.Copy(entry[:])
	return wqe.DecodeCompletion(entry[:])
}

// word is a word of a ring that the hostile process writes: 0 the producer's index, 1 the
// consumer's.
func word(mem []byte, i int) *atomic.Uint32 { return ring.Word(mem, i) }

// bystander is a pair of honest clients.
type bystander struct{ a, b *end }

func newBystander(t *testing.T, dir string) *bystander {
	s := &bystander{newEnd(t, open(t, dir), 1<<16, verbs.QPInit{Type: verbs.RC}), newEnd(t, open(t, dir), 1<<16, verbs.QPInit{Type: verbs.RC})}
	connect(t, s.a, s.b)
	return s
}

// works moves data and checks it.
func (s *bystander) works(t *testing.T) {
	t.Helper()
	fill(s.a.buf, byte(rand.Uint32()))
	clear(s.b.buf)
	wr := &verbs.SendWR{ID: 1, Op: verbs.OpWrite, Flags: verbs.Signaled, SGL: s.a.sgl(0, 1<<16), RemoteAddr: s.b.mr.VA(), RKey: s.b.mr.RKey()}
	if err := s.a.qp.PostSend(wr); err != nil {
		t.Fatal(err)
	}
	if c := s.a.wait(t); c.Status != verbs.StatusSuccess || string(s.a.buf) != string(s.b.buf) {
		t.Errorf("the transfer of another process: %s", c.Status)
	}
}

// A ring with an impossible index ends its queue pair, and nothing else.
func TestGarbageIndexes(t *testing.T) {
	for name, spoil := range map[string]func(v *victim){
		"producer of the send queue": func(v *victim) {
			word(v.sendMem, 0).Store(17)
			v.ring(v.qp.SendQueue)
		},
		"producer far away": func(v *victim) {
			word(v.sendMem, 0).Store(1 << 31)
			v.ring(v.qp.SendQueue)
		},
		"producer of the receive queue": func(v *victim) {
			word(v.sendMem[ring.Shape(v.qp.Send).Bytes():], 0).Store(0xffffffff)
			v.ring(v.qp.RecvQueue)
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, dir := serve(t, device.Config{})
			other := newBystander(t, dir)
			v := dial(t, dir).hello().queuePair()
			v.connect()
			for i := range uint32(ring.Queues) {
				v.doorbell.Set(i) // queues that do not exist
			}
			spoil(v)
			testkit.Eventually(t, "the queue pair is in ERR", func() bool { return v.state() == verbs.StateErr })
			other.works(t)
			if _, err := v.call(proto.TDestroyQP, &proto.Handle{Handle: v.qp.Handle}, nil); err != nil {
				t.Error(err)
			}
		})
	}
}

// post posts an entry of zeros if there is room, which is no operation: it completes with an error. Events of the
// process are read.
func (v *victim) post() {
	v.t.Helper()
	if posted := word(v.sendMem, 0); posted.Load()-v.send.Freed() < 16 {
		posted.Add(1)
	}
	v.ring(v.qp.SendQueue)
	if _, err := v.call(proto.TPort, nil, new(proto.PortReply)); err != nil {
		v.t.Fatal(err)
	}
}

// An impossible index of a completion queue's consumer is an overrun of it.
func TestGarbageConsumer(t *testing.T) {
	for name, index := range map[string]uint32{"far away": 1 << 30, "ahead": 17, "back": 1<<32 - 1} {
		t.Run(name, func(t *testing.T) {
			_, dir := serve(t, device.Config{})
			other := newBystander(t, dir)
			v := dial(t, dir).hello().queuePair()
			v.connect()
			word(v.cqMem, 1).Store(index)
			// More completions than the queue has entries make the server look at the index.
			for posts := 0; !v.overrun; posts++ {
				if posts > 1000 {
					t.Fatal("1000 completions without an overrun in a queue of 16")
				}
				v.post()
			}
			other.works(t)
		})
	}
}

// A process writes anything to its completion ring while the server completes to it: indexes, requests for signals,
// entries. Only its own completions are wrong.
func TestGarbageCompletionRing(t *testing.T) {
	_, dir := serve(t, device.Config{})
	other := newBystander(t, dir)
	v := dial(t, dir).hello().queuePair()
	v.connect()
	var stop atomic.Bool
	var storm sync.WaitGroup
	defer storm.Wait()
	defer stop.Store(true)
	storm.Go(func() {
		rng := rand.New(rand.NewPCG(3, 4))
		for !stop.Load() {
			at := rng.IntN(len(v.cqMem)/64) * 64 // the words are at the beginning of a cache line each
			ring.Word(v.cqMem[at:], 0).Store(rng.Uint32() >> rng.IntN(32))
		}
	})
	for range 300 {
		v.post()
	}
	other.works(t)
	for _, x := range []struct {
		t      proto.Type
		handle uint32
	}{{proto.TDestroyQP, v.qp.Handle}, {proto.TDestroyCQ, v.cq.Handle}} {
		if _, err := v.call(x.t, &proto.Handle{Handle: x.handle}, nil); err != nil {
			t.Error(err)
		}
	}
}

// Entries with random bytes end the queue pair or are refused; memory of others is out of reach.
func TestGarbageEntries(t *testing.T) {
	_, dir := serve(t, device.Config{})
	other := newBystander(t, dir)
	secret := append([]byte(nil), other.b.buf...)
	rng := rand.New(rand.NewPCG(1, 2))
	r := dial(t, dir).hello()
	for range 300 {
		v := r.queuePair()
		v.connect()
		entries := v.sendMem[256:ring.Shape(v.qp.Send).Bytes()]
		for i := range entries {
			entries[i] = byte(rng.Uint32())
		}
		size := int(v.qp.Send.EntryBytes)
		for i := range 16 { // operations that exist, with keys of the other process
			w := wqe.Wqe(entries[i*size:])
			if rng.IntN(4) > 0 {
				w.SetOpcode(uint32(1 + rng.IntN(10)))
				w.SetCount(uint32(rng.IntN(3)))
				w.SetInline(false)
				s := wqe.Sge(entries[i*size+wqe.WqeBytes:])
				s.SetAddr(other.b.mr.VA())
				s.SetLkey(other.b.mr.LKey())
				s.SetLength(rng.Uint32() >> rng.IntN(32))
				wqe.WqeRdma(w).SetRemoteAddr(other.b.mr.VA())
				wqe.WqeRdma(w).SetRkey(other.b.mr.RKey())
			}
		}
		word(v.sendMem, 0).Store(16)
		v.ring(v.qp.SendQueue)
		testkit.Eventually(t, "the queue pair is in ERR", func() bool { return v.state() == verbs.StateErr })
		for _, h := range []struct {
			t proto.Type
			h uint32
		}{{proto.TDestroyQP, v.qp.Handle}, {proto.TDestroyCQ, v.cq.Handle}, {proto.TFreePD, v.pd.Handle}} {
			if _, err := v.call(h.t, &proto.Handle{Handle: h.h}, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	if string(secret) != string(other.b.buf) {
		t.Error("memory of another process was written")
	}
	other.works(t)
}

// An entry with more elements than it has room for is no work request, not one without elements.
func TestOverlongList(t *testing.T) {
	_, dir := serve(t, device.Config{})
	v := dial(t, dir).hello().queuePair()
	v.connect()
	w := wqe.Wqe(v.sendMem[256:])
	w.SetOpcode(wqe.WqeOpcodeWrite)
	w.SetSignaled(true)
	w.SetCount(1000)
	word(v.sendMem, 0).Store(1)
	v.ring(v.qp.SendQueue)
	if c := v.completion(); c.Status != verbs.StatusLocalQPOperation {
		t.Errorf("%+v", c)
	}
}

// An idle server says that it sleeps, and is woken.
func TestSleeps(t *testing.T) {
	_, dir := serve(t, device.Config{})
	v := dial(t, dir).hello().queuePair()
	v.connect()
	for i := range uint32(3) {
		testkit.Eventually(t, "the engine sleeps", func() bool { return v.page.Sleeps(v.qp.SendQueue) })
		word(v.sendMem, 0).Store(i + 1) // no operation: it ends the queue pair, and the others are flushed
		v.ring(v.qp.SendQueue)
		v.completion()
	}
}
