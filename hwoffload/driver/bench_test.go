// SPDX-License-Identifier: Apache-2.0

package driver_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/internal/testkit/devices"
	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

const (
	goodputMessage = 1 << 16
	goodputDepth   = 16
)

// BenchmarkGoodput has the model and the engine WRITE messages of 64 KB in packets of 4096 bytes in
// one process, 16 at a time: two models over a network in memory on one thread, and one engine over
// its loopback. Neither uses a socket, and both compute and check the ICRC. The model has no node for
// its peer, or one, or one with the rate of a port, so that every packet waits for the pacer.
func BenchmarkGoodput(b *testing.B) {
	b.Run("model", func(b *testing.B) {
		w := newWorld(b, 1)
		a, c := w.connect(verbs.RC, 0, rocev2.PMTU4096)
		benchModel(b, w, a, c)
	})
	for _, rate := range []uint64{0, 100e9} {
		b.Run(fmt.Sprintf("model to a node, rate %d", rate), func(b *testing.B) {
			w := newNodes(b, 2)
			a, c := w.pair(w.side[0], w.side[1], rocev2.PMTU4096)
			a.dest(c.side).SetRateBps(rate)
			benchModel(b, w, a, c)
		})
	}
	b.Run("engine", benchEngine)
}

func benchModel(b *testing.B, w *world, a, c *endpoint) {
	wr := verbs.SendWR{Op: verbs.OpWrite, Flags: verbs.Signaled, SGL: []verbs.SGE{a.sge(0, goodputMessage)}, RemoteAddr: regionVA, RKey: c.mr.RKey()}
	got := make([]verbs.Completion, goodputDepth)
	sent, done := 0, 0
	b.SetBytes(goodputMessage)
	b.ResetTimer()
	err := w.net.Run(1<<60, func() bool {
		n := a.cq.Poll(got)
		for _, c := range got[:n] {
			if c.Status != verbs.StatusSuccess {
				b.Fatal(c.Status)
			}
		}
		done += n
		for ; sent < b.N && sent-done < goodputDepth; sent++ {
			if err := a.qp.PostSend(&wr); err != nil {
				b.Fatal(err)
			}
		}
		return done == b.N
	})
	if err != nil {
		b.Fatal(err)
	}
}

func benchEngine(b *testing.B) {
	dev := devices.Loopback(b)
	pd, err1 := dev.AllocPD()
	cq, err2 := dev.CreateCQ(256)
	if err := errors.Join(err1, err2); err != nil {
		b.Fatal(err)
	}
	var q [2]verbs.QP
	for i := range q {
		q[i] = testkit.Must1(pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: cq, RecvCQ: cq, MaxSend: 2 * goodputDepth}))(b)
	}
	attr := verbs.DefaultAttr()
	attr.PMTU = rocev2.PMTU4096
	devices.Connect(b, q[0], q[1], attr)
	rights := verbs.AccessLocalWrite | verbs.AccessRemoteWrite
	from, err1 := pd.RegMR(make([]byte, regionBytes), rights)
	to, err2 := pd.RegMR(make([]byte, regionBytes), rights)
	if err := errors.Join(err1, err2); err != nil {
		b.Fatal(err)
	}
	wr := verbs.SendWR{Op: verbs.OpWrite, Flags: verbs.Signaled, SGL: []verbs.SGE{{Addr: from.VA(), Len: goodputMessage, LKey: from.LKey()}}, RemoteAddr: to.VA(), RKey: to.RKey()}
	got := make([]verbs.Completion, goodputDepth)
	b.SetBytes(goodputMessage)
	b.ResetTimer()
	for sent, done := 0, 0; done < b.N; {
		for ; sent < b.N && sent-done < goodputDepth; sent++ {
			if err := q[0].PostSend(&wr); err != nil {
				b.Fatal(err)
			}
		}
		n := cq.Poll(got)
		for _, c := range got[:n] {
			if c.Status != verbs.StatusSuccess {
				b.Fatal(c.Status)
			}
		}
		if done += n; n == 0 {
			if err := cq.Wait(context.Background(), false); err != nil {
				b.Fatal(err)
			}
		}
	}
}
