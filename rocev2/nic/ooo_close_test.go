// SPDX-License-Identifier: Apache-2.0

package nic

import (
	"testing"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// A device that is closed in the middle: each work request of the mode completes once, with success or flushed.
func TestOutOfOrderClose(t *testing.T) {
	testkit.Eventually(t, "a device is closed before all is done", func() bool { return flushedByClose(t) > 0 })
}

// flushedByClose closes a device with work requests of the mode, and returns how many were flushed.
func flushedByClose(t *testing.T) (flushed int) {
	t.Helper()
	d, err := OpenLoopback(Options{})
	if err != nil {
		t.Fatal(err)
	}
	pd, err := d.AllocPD()
	if err != nil {
		t.Fatal(err)
	}
	cq, err := d.CreateCQ(1024)
	if err != nil {
		t.Fatal(err)
	}
	memory := make([]byte, 1<<20)
	region, err := pd.RegMR(memory, verbs.AccessLocalWrite|verbs.AccessRemoteWrite)
	if err != nil {
		t.Fatal(err)
	}
	var qps [2]verbs.QP
	for i := range qps {
		if qps[i], err = pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: cq, RecvCQ: cq, OutOfOrder: true}); err != nil {
			t.Fatal(err)
		}
	}
	for i, x := range qps {
		if err := verbs.Connect(x, verbs.Endpoint{}, verbs.Endpoint{Addr: loopbackGIDs[0], QPN: qps[1-i].QPN()}, verbs.DefaultAttr()); err != nil {
			t.Fatal(err)
		}
	}
	const messages = 100
	for id := range uint64(messages) {
		err := qps[0].PostSend(&verbs.SendWR{
			ID: id, Op: verbs.OpWrite, Flags: verbs.Signaled, RemoteAddr: region.VA(), RKey: region.RKey(),
			SGL: []verbs.SGE{{Addr: region.VA(), Len: 1 << 20, LKey: region.LKey()}},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	out, seen := make([]verbs.Completion, 1024), map[uint64]bool{}
	n := cq.Poll(out)
	for _, c := range out[:n] {
		switch {
		case seen[c.WRID] || c.Status != verbs.StatusSuccess && c.Status != verbs.StatusWRFlushed:
			t.Errorf("%+v, once before: %v", c, seen[c.WRID])
		case c.Status == verbs.StatusWRFlushed:
			flushed++
		}
		seen[c.WRID] = true
	}
	if n != messages {
		t.Errorf("%d completions of %d work requests, %d flushed", n, messages, flushed)
	}
	return flushed
}
