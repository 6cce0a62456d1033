// SPDX-License-Identifier: Apache-2.0

package device_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/internal/testkit/devices"
	"github.com/softroce/softroce-xdp/loader/device"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// A receive counts when PostRecv has returned: a message that is sent afterwards finds it, also while the engine has
// not taken it from the ring yet. UD and UC would lose the message otherwise, and RC without retries would fail.
func TestReceiveCountsWhenPosted(t *testing.T) {
	for _, typ := range []verbs.QPType{verbs.UD, verbs.UC, verbs.RC} {
		for _, shared := range []bool{false, true} {
			if shared && typ == verbs.UC {
				continue // has no SRQ
			}
			t.Run(fmt.Sprintf("%s, SRQ %v", typ, shared), func(t *testing.T) { receiveBehindOthers(t, typ, shared) })
		}
	}
}

// receiveBehindOthers posts a receive behind so many others that the engine takes the message to it first.
func receiveBehindOthers(t *testing.T, typ verbs.QPType, shared bool) {
	const (
		depth  = 64
		others = 5 // with the depth, more than the engine takes from a process in one iteration
	)
	_, engine, dir := serveEngine(t, device.Config{})
	dev := open(t, dir)
	b := newEnd(t, dev, 4096, verbs.QPInit{Type: typ})
	a := newEnd(t, open(t, dir), 4096, verbs.QPInit{Type: typ})
	var before [others]verbs.SRQ
	for i := range before {
		var err error
		if before[i], err = b.pd.CreateSRQ(depth, 1); err != nil {
			t.Fatal(err)
		}
	}
	var receive func(*verbs.RecvWR) error
	if shared {
		receive = b.share(t)
	} else {
		b.again(t, nil)
		receive = b.qp.PostRecv
	}
	attr := verbs.DefaultAttr()
	attr.RNRRetry = 0
	devices.Connect(t, a.qp, b.qp, attr)
	wr := verbs.SendWR{Op: verbs.OpSend, Flags: verbs.Signaled, SGL: a.sgl(0, 8)}
	if typ == verbs.UD {
		ah, err := a.pd.CreateAH(verbs.AddressVector{Dst: here})
		if err != nil {
			t.Fatal(err)
		}
		wr.AH, wr.RemoteQPN, wr.RemoteQKey = ah, b.qp.QPN(), 0x11111111
	}

	engine.InLoop(func() { // between two iterations
		for _, q := range before {
			for range depth {
				if err := q.PostRecv(&verbs.RecvWR{SGL: b.sgl(0, 100)}); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := errors.Join(receive(&verbs.RecvWR{SGL: b.sgl(0, 100)}), a.qp.PostSend(&wr)); err != nil {
			t.Fatal(err)
		}
	})
	if c := a.wait(t); c.Status != verbs.StatusSuccess {
		t.Fatalf("%+v", c)
	}
	var c [1]verbs.Completion
	lost := func() uint64 {
		for _, c := range dev.Counters() {
			if c.Name == "rx_no_buffer" {
				return c.Value
			}
		}
		t.Fatal("no counter rx_no_buffer")
		return 0
	}
	testkit.Eventually(t, "a completion, or a message without a receive", func() bool { return b.cq.Poll(c[:]) == 1 || lost() > 0 })
	if n := lost(); n > 0 {
		t.Error("the message found no receive")
	}
}

// share makes the queue pair again, with a shared receive queue, and returns the queue's PostRecv.
func (e *end) share(t *testing.T) func(*verbs.RecvWR) error {
	t.Helper()
	srq, err := e.pd.CreateSRQ(128, 1)
	if err != nil {
		t.Fatal(err)
	}
	e.again(t, srq)
	return srq.PostRecv
}

// again makes the queue pair again, behind the queues that are there.
func (e *end) again(t *testing.T, srq verbs.SRQ) {
	t.Helper()
	init := verbs.QPInit{Type: e.qp.Type(), SendCQ: e.cq, RecvCQ: e.cq, SRQ: srq}
	q, err := e.pd.CreateQP(init)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.qp.Destroy(); err != nil {
		t.Fatal(err)
	}
	e.qp = q
}
