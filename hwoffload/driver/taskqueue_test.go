// SPDX-License-Identifier: Apache-2.0

package driver_test

import (
	"context"
	"errors"
	"testing"

	"github.com/softroce/softroce-xdp/hwoffload"
	"github.com/softroce/softroce-xdp/hwoffload/card"
	"github.com/softroce/softroce-xdp/hwoffload/driver"
	"github.com/softroce/softroce-xdp/hwoffload/regs"
	"github.com/softroce/softroce-xdp/rocev2/task"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/rocev2/wqe"
)

// A descriptor that is sent again is not executed again: its answer is repeated, and its result is
// not written. Payloads that are no descriptors are answered too.
func TestRemoteDuplicate(t *testing.T) {
	for name, serve := range executors {
		w := newLiveWorld(t, lossy, false)
		here, there := w.pair(rc)
		serve(w, there, &task.Regions{})
		w.connect(here, there)
		slot := here.memory(make([]byte, 2*task.SlotLen), verbs.AccessLocalWrite)
		send := func(b []byte) task.Answer {
			_, err := slot.WriteAt(b, 0)
			w.must(err)
			w.must(here.qp.PostRecv(&verbs.RecvWR{ID: 1, SGL: sge(slot, task.SlotLen, task.AnswerLen)}))
			w.must(here.qp.PostSend(&verbs.SendWR{Op: verbs.OpSend, SGL: sge(slot, 0, len(b))}))
			c := here.ends(1, verbs.StatusSuccess)
			if c.HasImm {
				return task.AnswerOf(c.Imm)
			}
			answer := make([]byte, task.AnswerLen)
			_, err = slot.ReadAt(answer, task.SlotLen)
			w.must(err)
			a, err := task.ParseAnswer(answer[:c.Bytes])
			w.must(err)
			return a
		}
		in, out := here.memory([]byte{1, 2}, allRights), here.memory([]byte{0, 0}, allRights)
		for id, immediate := range []bool{false, true} {
			d := task.Descriptor{ID: task.ID(id), Kernel: task.KernelAdd, Immediate: immediate, Result: operand(out, task.Uint8, true, 2)}
			d.Operands = []task.Operand{operand(in, task.Uint8, true, 2), operand(in, task.Uint8, true, 2)}
			b, err := d.Append(nil)
			w.must(err)
			for n := range 3 {
				if a := send(b); a.Status != task.StatusOK || a.ID != d.ID {
					t.Fatalf("%s: %+v", name, a)
				}
				if got := w.bytes(out); (got[1] == 4) != (n == 0) {
					t.Errorf("%s: answer %d, and the result is %d", name, n, got)
				}
				_, err := out.WriteAt([]byte{0, 0}, 0)
				w.must(err)
			}
		}
		if name == "card" && executed(w, there) != 2 {
			t.Errorf("%d tasks were executed", executed(w, there))
		}
		for n, b := range [][]byte{{1}, make([]byte, 100), make([]byte, task.SlotLen)} {
			if a := send(b); a.Status != task.StatusDescriptor {
				t.Errorf("%s: payload %d: %+v", name, n, a)
			}
		}
	}
}

// serve makes a task queue and closes it.
func (w *liveWorld) serve(n *node, depth int, bytes uint64) error {
	q, err := n.dev.ServeTasks(n.qp.(*driver.QP), depth, bytes)
	if err == nil {
		w.must(q.Close(w.limit()))
	}
	return err
}

// The card refuses task queues that cannot work, and says why. What was taken for them is free again.
func TestTaskQueueRefused(t *testing.T) {
	w := newLiveWorld(t, card.Faults{}, false)
	_, n := w.pair(rc)
	if err := w.serve(n, 4, 1<<20); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("without cores: %v", err)
	}
	w.cores(n.liveSide)
	free := n.card.Allocator().Available()
	ud := w.node(n.liveSide, func(i *verbs.QPInit) { i.Type = verbs.UD })
	srq, err := n.pd.CreateSRQ(4, 1)
	w.must(err)
	shared, err := n.pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: n.cq, RecvCQ: n.cq, SRQ: srq})
	w.must(err)
	fresh, err := n.pd.CreateQP(task.QPInit(n.cq, 0))
	w.must(err)
	busy := w.node(n.liveSide, rc)
	w.must(busy.qp.PostRecv(&verbs.RecvWR{}))
	for what, err := range map[string]error{
		"UD": w.serve(ud, 4, 1<<20), "depth 0": w.serve(n, 0, 1<<20), "deeper than the queue": w.serve(n, 17, 1<<20), "too little memory": w.serve(n, 4, 5000),
		"SRQ": w.serve(&node{liveSide: n.liveSide, qp: shared}, 4, 1<<20), "RESET": w.serve(&node{liveSide: n.liveSide, qp: fresh}, 4, 1<<20), "receives": w.serve(busy, 4, 1<<20),
		"more memory than the card has": w.serve(n, 4, 1<<36),
	} {
		if err == nil {
			t.Errorf("%s: a task queue", what)
		}
	}
	if now := n.card.Allocator().Available(); now != free {
		t.Errorf("free memory: %d, before %d", now, free)
	}
}

// A queue pair has one task queue, whose receives are the card's. It ends with RESET, and after that
// there can be another one.
func TestTaskQueueOwnsReceives(t *testing.T) {
	w := newLiveWorld(t, card.Faults{}, false)
	_, n := w.pair(rc)
	w.cores(n.liveSide)
	q, err := n.dev.ServeTasks(n.qp.(*driver.QP), 4, 1<<20)
	w.must(err)
	if err := w.serve(n, 4, 1<<20); err == nil {
		t.Error("two task queues of a queue pair")
	}
	w.must(n.qp.PostRecv(&verbs.RecvWR{ID: 3})) // the doorbell is refused
	if got := regs.InterruptsOf(n.card).BadDoorbells(); got != 1 {
		t.Errorf("%d doorbells were refused", got)
	}
	if q.Ended() {
		t.Error("a refused doorbell has ended the queue")
	}
	w.must(n.qp.Modify(verbs.Attr{}, verbs.MaskState)) // RESET
	for ctx := w.limit(); !q.Ended(); {
		w.must(ctx.Err())
	}
	w.must(q.Close(w.limit()))
	var c [1]verbs.Completion
	if n.cq.Poll(c[:]) != 0 {
		t.Errorf("a completion of a receive of the card: %+v", c[0])
	}
	w.must(verbs.ToInit(n.qp, verbs.Endpoint{}, verbs.DefaultAttr()))
	if err := w.serve(n, 4, 1<<20); err != nil {
		t.Errorf("after RESET: %v", err)
	}
}

// Task queues end with the cores of the card.
func TestTaskQueueWithoutCores(t *testing.T) {
	w := newLiveWorld(t, card.Faults{}, false)
	_, n := w.pair(rc)
	cores, err := n.m.StartTasks()
	w.must(err)
	q, err := n.dev.ServeTasks(n.qp.(*driver.QP), 4, 1<<20)
	w.must(err)
	w.must(cores.Close(context.Background()))
	if !q.Ended() {
		t.Error("a task queue without cores")
	}
	w.must(q.Close(w.limit()))
}

// Rings and regions have memory of their own, and a card has one driver.Device.
func TestOneOwnerOfMemory(t *testing.T) {
	w := newLiveWorld(t, card.Faults{}, false)
	s := w.side[0]
	if _, err := driver.New(s.card, driver.Config{RingBytes: 1 << 20, Page: 1}); !errors.Is(err, verbs.ErrBusy) {
		t.Errorf("a second device: %v", err)
	}
	pd, err := s.dev.AllocPD()
	w.must(err)
	m, err := pd.(verbs.DeviceMemory).AllocDM(1<<20, verbs.AccessLocalWrite)
	w.must(err)
	used := map[uint64]string{} // pages of 4 KB
	own := func(what string, at, bytes uint64) {
		for page := at / 4096; page <= (at+bytes-1)/4096; page++ {
			if have, taken := used[page]; taken && have != what {
				t.Errorf("page %#x is used by %s and by %s", page, have, what)
			}
			used[page] = what
		}
	}
	for at, n := range m.(*driver.DM).Space().Ranges(0, 1<<20) {
		own("the region", at, n)
	}
	for _, what := range []string{"a queue", "another queue"} {
		cq, err := s.dev.CreateCQ(1024)
		w.must(err)
		own(what, regs.CqOf(s.card, int(cq.(*driver.CQ).Number())).Ring().CqAddress(), 1024*wqe.CqeBytes)
		defer func() { w.must(cq.Destroy()) }()
	}
	for bank, free := range s.card.Allocator().Available() {
		rest, err := s.card.Allocator().AllocBank(bank, free, 0)
		w.must(err)
		own("who takes the rest", rest.Address(0), free)
	}
	if _, err := pd.(verbs.DeviceMemory).AllocDM(1, verbs.AccessLocalWrite); !errors.Is(err, hwoffload.ErrDDRFull) {
		t.Errorf("a region when all memory is taken: %v", err)
	}
}
