// SPDX-License-Identifier: Apache-2.0

package ooo_test

import (
	"testing"

	"github.com/softroce/softroce-xdp/rocev2/qp"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/testenv/wiretest"
)

// SendLimit names no limit exactly while NextOn has a packet: what keeps such a queue pair from sending is a limit of
// the engine.
func TestSendLimit(t *testing.T) {
	x := newTransport(t, &somePeer{announced: true})
	expect := func(when string, want qp.SendLimit) {
		t.Helper()
		if got := x.SendLimit(1); got != want {
			t.Errorf("%s: %s, want %s", when, got, want)
		}
	}
	expect("before anything is posted", qp.LimitNoWork)
	x.post(t, 1)
	expect("posted", qp.NotLimited)
	if !x.NextOn(1, 0, &x.out) {
		t.Fatal("nothing is sent")
	}
	expect("all is sent", qp.LimitNoWork)
	r := x.base.Config().Memory.(*wiretest.Memory).Register(0, 8<<20, verbs.AccessLocalWrite)
	long := verbs.SendWR{ID: 2, Op: verbs.OpWrite, SGL: []verbs.SGE{{Addr: r.Addr, Len: uint32(len(r.Data)), LKey: r.Key}}}
	if err := x.PostSend(&long); err != nil {
		t.Fatal(err)
	}
	sent := 0
	for x.SendLimit(1) == qp.NotLimited {
		if !x.NextOn(1, 0, &x.out) {
			t.Fatalf("after %d packets: not limited, and there is none", sent)
		}
		sent++
	}
	expect("the windows are full", qp.LimitLossWindow)
	if sent == 0 || x.NextOn(1, 0, &x.out) {
		t.Errorf("%d packets were sent, and there is another: %t", sent, x.NextOn(1, 0, &x.out))
	}
	if err := x.Modify(verbs.Attr{State: verbs.StateErr}, verbs.MaskState); err != nil {
		t.Fatal(err)
	}
	expect("ERR", qp.LimitState)
}
