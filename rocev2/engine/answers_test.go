// SPDX-License-Identifier: Apache-2.0

package engine

import "testing"

// A destination of answers alone is reported as such, until a queue pair leads there or a request is sent
// there; it is never one again while it exists (S10).
func TestDestinationOfAnswers(t *testing.T) {
	e := bench(t)
	p := fixed(PathState{Src: us, Dst: peer})
	d := e.dests.answerDestination(p)
	if !d.answers || len(e.dests.rails[0].syncQueue) != 1 {
		t.Errorf("answers %v, %d to be reported", d.answers, len(e.dests.rails[0].syncQueue))
	}
	e.dests.rails[0].syncQueue, d.syncQueued, d.initialSyncs = nil, false, 0
	if same := e.dests.answerDestination(p); same != d || !d.answers || len(e.dests.rails[0].syncQueue) != 0 {
		t.Errorf("the same path: answers %v, %d to be reported", d.answers, len(e.dests.rails[0].syncQueue))
	}
	if same := e.dests.destination(p); same != d || d.answers || len(e.dests.rails[0].syncQueue) != 1 || d.initialSyncs != initialSyncReports {
		t.Errorf("with a queue pair: answers %v, %d to be reported, %d times", d.answers, len(e.dests.rails[0].syncQueue), d.initialSyncs)
	}
	if e.dests.answerDestination(p); d.answers {
		t.Error("answers to the peer of a queue pair make it a destination of answers")
	}
}
