// SPDX-License-Identifier: Apache-2.0

package wiretest

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// One request that the peer must refuse, among random ones, under faults: those
// before it take effect, it completes with the reason, those after it are flushed,
// each once and in order, and nothing is written that it asked for.
func TestRefusedRequest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := Draw(drawn{t}, Limits{Type: verbs.RC, Pairs: 1, Ops: 20, MaxLen: 8192, Faults: 30})
		s.SRQ = false
		// A queue pair in error says nothing any more: a NAK that is lost is lost for good.
		s.Path[1].Loss, s.Path[1].Corrupt = 0, 0
		ops := s.Ops[0][0]
		bad := Op{
			Kind: []verbs.Op{verbs.OpWrite, verbs.OpRead, verbs.OpWriteImm, verbs.OpFetchAdd}[drawn{t}.Choose("bad operation", 4)],
			Len:  1 + drawn{t}.Choose("bad length", 5000), Cuts: 1, Flags: verbs.Signaled,
			BadKey: drawn{t}.Choose("bad key", 2) == 0,
		}
		bad.BadRange = !bad.BadKey
		at := drawn{t}.Choose("bad at", len(ops)+1)
		if at < len(ops) {
			ops[at].Relay = false
		}
		s.Ops[0][0] = append(ops[:at:at], append([]Op{bad}, ops[at:]...)...)
		s.Ops[0][1] = nil // or the peer's requests would be flushed as well
		w := Build(s)
		a, b := w.Pairs[0][0], w.Pairs[0][1]
		a.MayFail, b.MayFail = true, true
		if err := w.run(a); err != nil {
			t.Fatalf("%v\n%v", err, s)
		}
		if a.FailedOp != at || a.Failed != verbs.StatusRemoteAccess && (a.Failed != verbs.StatusRemoteInvalidRequest || !isAtomic(bad.Kind) || !bad.BadRange) {
			t.Fatalf("op %d failed with %v, want op %d with %v\n%v", a.FailedOp, a.Failed, at, verbs.StatusRemoteAccess, s)
		}
		if a.QP.State() != verbs.StateErr || b.QP.State() != verbs.StateErr {
			t.Fatalf("the queue pairs are in %v and %v", a.QP.State(), b.QP.State())
		}
		if n := len(b.expect); n != 0 && receivesBefore(a.Ops[:at]) != b.Messages {
			t.Fatalf("%d messages received of %d before the bad one", b.Messages, receivesBefore(a.Ops[:at]))
		}
	})
}

func receivesBefore(ops []Op) (n int) {
	for _, op := range ops {
		if receives(op.Kind) {
			n++
		}
	}
	return n
}

// A peer without receives is given up after RNRRetry waits.
func TestNoReceives(t *testing.T) {
	kinds(t, func(t *testing.T, selective bool) {
		for _, retry := range []uint8{0, 1, 6} {
			st := silenceStream(selective)
			st.Kind, st.Messages = verbs.OpSend, 10
			w := st.build(func(s *Scenario) { s.RNRRetry, s.MinRNRTimer = retry, 12 }) // 0.64 ms
			a, b := w.Pairs[0][0], w.Pairs[0][1]
			a.MayFail = true
			b.Recv.Left = 4
			if err := w.run(a); err != nil {
				t.Fatal(err)
			}
			if a.Failed != verbs.StatusRNRRetryExceeded || a.FailedOp != 4 || int(a.Node.Count.RNRReceived) != int(retry)+1 {
				t.Errorf("retry %d: op %d: %v after %d RNR NAKs", retry, a.FailedOp, a.Failed, a.Node.Count.RNRReceived)
			}
		}
	})
}
