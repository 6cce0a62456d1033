// SPDX-License-Identifier: Apache-2.0

package wiretest

import (
	"fmt"
	"testing"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/qp"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

func silenceStream(selective bool) Stream {
	return Stream{
		Kind: verbs.OpWrite, Messages: 2000, Len: 64000, PMTU: rocev2.PMTU1024, Selective: selective,
		Queue: 16, Timeout: 10, RetryCnt: 3,
	}
}

// kinds runs f for what engines do between themselves and with other peers.
func kinds(t *testing.T, f func(t *testing.T, selective bool)) {
	for _, s := range []bool{true, false} {
		t.Run(fmt.Sprintf("selective=%v", s), func(t *testing.T) { f(t, s) })
	}
}

// A peer that disappears is given up within the computed bound, not before the
// first timeouts could have been answered, and with few packets sent into the void.
func TestPeerDisappears(t *testing.T) {
	kinds(t, func(t *testing.T, selective bool) {
		for _, at := range []qp.Time{0, 3 * Millisecond} {
			for _, retry := range []uint8{0, 3, 7} {
				st := silenceStream(selective)
				st.RetryCnt = retry
				w := st.Build(1)
				a, b := w.Pairs[0][0], w.Pairs[0][1]
				a.MayFail = true
				if at == 0 {
					b.Node.Restart()
				} else {
					w.After(at, func() { b.Node.Restart() })
				}
				gone := w.Now() + at
				l := a.Node.PathTo(b.Node).Watch(Millisecond)
				if err := w.run(a); err != nil {
					t.Fatal(err)
				}
				took := a.FailedAt - gone
				const roundTrip = Millisecond // queues included
				least, most := qp.RetryBound(st.Timeout, 0)*qp.Time(retry+1), qp.RetryBound(st.Timeout, retry)+roundTrip
				sent := l.Sum(gone+Millisecond, a.FailedAt+Millisecond)
				t.Logf("retry %d, gone at %d ms: %v after %.2f ms (%.2f to %.2f), %d packets sent into the void after the first ms",
					retry, at/Millisecond, a.Failed, ms(took), ms(least), ms(most), sent)
				if a.Failed != verbs.StatusRetryExceeded || took < least || took > most {
					t.Errorf("retry %d: %v after %.2f ms, want %v after %.2f to %.2f ms", retry, a.Failed, ms(took), verbs.StatusRetryExceeded, ms(least), ms(most))
				}
				if a.QP.State() != verbs.StateErr {
					t.Errorf("the queue pair is in %v", a.QP.State())
				}
				if sent > 100 {
					t.Errorf("%d packets sent into the void", sent)
				}
			}
		}
	})
}

func ms(d qp.Time) float64 { return float64(d) / float64(Millisecond) }

// run lets e work until nothing happens any more, and wants everything that was
// posted to have completed, once.
func (w *World) run(e *Endpoint) error {
	for _, n := range w.Nodes {
		n.Serve()
	}
	if err := w.Run(0); err != nil {
		return err
	}
	if len(e.out) > 0 || e.next != len(e.Ops) {
		w.Failf("%d of %d operations posted, %d without an end", e.next, len(e.Ops), len(e.out))
	}
	if what := e.Node.Quiet(); what != "" {
		w.Failf("nothing happens any more, but %s", what)
	}
	for _, n := range w.Nodes {
		n.check()
	}
	return w.Err()
}

// A peer that restarts knows nothing of the connection: the same queue pair number
// with other PSNs. Nothing succeeds any more, nothing is written at the new
// one, and the old one is given up.
func TestPeerRestarts(t *testing.T) {
	kinds(t, func(t *testing.T, selective bool) {
		// Not between +1 and the 252 packets that may be outstanding: a responder
		// that expects one of those takes the others for duplicates and acknowledges
		// them. That is why first PSNs are drawn at random.
		for _, jump := range []int{-1 << 22, -5000, -200, -100, -1, 300, 5000, 1 << 22} {
			st := silenceStream(selective)
			st.Messages, st.Queue = 300, 4
			w := st.Build(1)
			a, b := w.Pairs[0][0], w.Pairs[0][1]
			a.MayFail = true
			done := 0
			w.After(3*Millisecond, func() {
				expected := b.expected()
				b.Node.Restart()
				s := Settings{
					Type: verbs.RC, PMTU: st.PMTU, Selective: selective, RdAtomic: 4, Timeout: 10, RetryCnt: 3,
					MaxSend: 4, Receives: 1, Hold: 200,
				}
				again := NewEndpoint(b.Node, srqPD+50, &s, nil)
				if again.QP.QPN() != b.QP.QPN() {
					w.Failf("the queue pair of the restarted peer has another number")
				}
				again.MayFail = true // the middle of a message may be the first that it sees
				again.Up(a.Node, a.QP.QPN(), 7, uint32(expected.Add(jump)), &s)
				b.Node.Mem.Region(b.target.Key).Invalid = true
				// Acknowledgements of the old one may still be on their way.
				w.After(Millisecond/5, func() { done = a.Completed })
			})
			if err := w.run(a); err != nil {
				t.Errorf("PSN %+d: %v", jump, err)
				continue
			}
			c := a.Node.Count
			t.Logf("PSN %+d: %v %.2f ms after the restart; %d answers ignored, %d NAK PSN", jump, a.Failed, ms(a.FailedAt-3*Millisecond), c.StaleAnswer, c.SeqErr)
			if a.Failed != verbs.StatusRetryExceeded && a.Failed != verbs.StatusRemoteAccess && a.Failed != verbs.StatusRemoteInvalidRequest {
				t.Errorf("PSN %+d: %v", jump, a.Failed)
			}
			if good := a.FailedOp; good > done {
				t.Errorf("PSN %+d: %d operations succeeded after the restart", jump, good-done)
			}
			if d := a.FailedAt - 3*Millisecond; d > qp.RetryBound(10, 3)+Millisecond {
				t.Errorf("PSN %+d: given up after %.2f ms only", jump, ms(d))
			}
		}
	})
}

// After 50 ms in which nothing arrives in either direction, eight connections go on
// without a storm: few packets into the void, few timeouts, and after it no more
// load than before.
func TestBlackout(t *testing.T) {
	kinds(t, func(t *testing.T, selective bool) {
		for _, kind := range []verbs.Op{verbs.OpWrite, verbs.OpRead} {
			for timeout, most := range map[uint8]uint64{12: 24, 14: 12} { // 17 and 67 ms; timeouts, 1.5 times what is counted
				const pairs, messages, from, to = 8, 80, 10 * Millisecond, 60 * Millisecond
				st := silenceStream(selective)
				st.Kind, st.Pairs, st.Messages, st.Timeout, st.RetryCnt = kind, pairs, messages, timeout, 7
				st.Queue = 2
				w := st.Build(1)
				dark := func(*rocev2.Packet) bool { return w.Now() >= from && w.Now() < to }
				var l [2]*Load
				for i, n := range w.Nodes {
					p := n.PathTo(w.Nodes[1-i])
					p.Drop = dark
					l[i] = p.Watch(Millisecond)
				}
				if err := w.Finish(); err != nil {
					t.Fatal(err)
				}
				end := qp.Time(0)
				for _, p := range w.Pairs {
					end = max(end, p[0].Last)
				}
				side := 0
				if kind == verbs.OpRead {
					side = 1
				}
				before, after := l[side].Most(5*Millisecond, from), l[side].Most(to, end)
				void := l[0].Sum(from+2*Millisecond, to) + l[1].Sum(from+2*Millisecond, to)
				again := l[side].Data - pairs*messages*63
				c := w.Nodes[0].Count
				t.Logf("%s timeout %d: %d packets a ms before, %d in the dark, %d a ms after; %d more than needed, %d timeouts, %d probes; done at %.1f ms",
					opName(kind), timeout, before, void, after, again, c.Timeouts, c.TailProbes, ms(end))
				if void > pairs*10 { // 1.5 times what is counted
					t.Errorf("%d packets sent in the dark", void)
				}
				if after > before {
					t.Errorf("%d packets a ms after the blackout, %d before", after, before)
				}
				if c.Timeouts > most {
					t.Errorf("%d timeouts of %d connections, limit %d", c.Timeouts, pairs, most)
				}
				if again > pairs*2*63 {
					t.Errorf("%d packets sent again, with %d outstanding at most", again, pairs*2*63)
				}
				if idle := end - to - qp.Time(pairs*messages*63)*Microsecond; idle > 100*Millisecond {
					t.Errorf("it took until %.1f ms", ms(end))
				}
			}
		}
	})
}
