// SPDX-License-Identifier: Apache-2.0

package device_test

import (
	"fmt"
	"testing"

	"github.com/softroce/softroce-xdp/loader/device"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// A receive counts when PostRecv has returned: a message that is sent afterwards finds it. UD and UC would lose
// the message otherwise, and RC without retries would fail.
func TestReceiveCountsWhenPosted(t *testing.T) {
	const rounds = 1000
	for _, typ := range []verbs.QPType{verbs.UD, verbs.UC, verbs.RC} {
		for _, shared := range []bool{false, true} {
			if shared && typ == verbs.UC {
				continue // has no SRQ
			}
			t.Run(fmt.Sprintf("%s, SRQ %v", typ, shared), func(t *testing.T) {
				_, dir := serve(t, device.Config{})
				dev := open(t, dir)
				a, b := newEnd(t, open(t, dir), 4096, verbs.QPInit{Type: typ}), newEnd(t, dev, 4096, verbs.QPInit{Type: typ})
				receive := b.qp.PostRecv
				if shared {
					receive = b.share(t)
				}
				attr := verbs.DefaultAttr()
				attr.RNRRetry = 0
				for _, p := range [][2]*end{{a, b}, {b, a}} {
					if err := verbs.Connect(p[0].qp, p[0].endpoint(), p[1].endpoint(), attr); err != nil {
						t.Fatal(err)
					}
				}
				wr := verbs.SendWR{Op: verbs.OpSend, Flags: verbs.Signaled, SGL: a.sgl(0, 8)}
				if typ == verbs.UD {
					ah, err := a.pd.CreateAH(verbs.AddressVector{Dst: here})
					if err != nil {
						t.Fatal(err)
					}
					wr.AH, wr.RemoteQPN, wr.RemoteQKey = ah, b.qp.QPN(), 0x11111111
				}
				received := 0
				take := func() bool {
					var c [16]verbs.Completion
					for n := b.cq.Poll(c[:]); n > 0; n = b.cq.Poll(c[:]) {
						received += n
					}
					return received == rounds
				}
				for i := range rounds {
					if err := receive(&verbs.RecvWR{SGL: b.sgl(0, 100)}); err != nil {
						t.Fatal(err)
					}
					if err := a.qp.PostSend(&wr); err != nil {
						t.Fatal(err)
					}
					if c := a.wait(t); c.Status != verbs.StatusSuccess {
						t.Fatalf("message %d: %+v", i, c)
					}
					take()
				}
				lost := func() (n uint64) {
					for _, c := range dev.Counters() {
						if c.Name == "rx_no_buffer" {
							n = c.Value
						}
					}
					return n
				}
				wait(t, func() bool { return take() || lost() > 0 })
				if n := lost(); n > 0 {
					t.Errorf("%d of %d messages found no receive, and %d did", n, rounds, received)
				}
			})
		}
	}
}

// share makes the queue pair again, with a shared receive queue, and returns the queue's PostRecv.
func (e *end) share(t *testing.T) func(*verbs.RecvWR) error {
	t.Helper()
	srq, err := e.pd.CreateSRQ(128, 1)
	if err != nil {
		t.Fatal(err)
	}
	init := verbs.QPInit{Type: e.qp.Type(), SendCQ: e.cq, RecvCQ: e.cq, SRQ: srq}
	if err := e.qp.Destroy(); err != nil {
		t.Fatal(err)
	}
	if e.qp, err = e.pd.CreateQP(init); err != nil {
		t.Fatal(err)
	}
	return srq.PostRecv
}
