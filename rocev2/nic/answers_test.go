// SPDX-License-Identifier: Apache-2.0

package nic

import (
	"testing"

	"github.com/softroce/softroce-xdp/rocev2/mad"
	"github.com/softroce/softroce-xdp/rocev2/nic/internal/route"
)

// A destination of answers alone is reported as such, until a queue pair leads there or a request is sent
// there; it is never one again while it exists (S10).
func TestDestinationOfAnswers(t *testing.T) {
	e := bench(t)
	e.sync.init()
	p := route.Fixed(route.State{Src: us, Dst: peer})
	d := e.answerDestination(p)
	if !d.answers || len(e.syncQueue) != 1 {
		t.Errorf("answers %v, %d to be reported", d.answers, len(e.syncQueue))
	}
	e.syncQueue, d.syncQueued, d.initialSyncs = nil, false, 0
	if same := e.answerDestination(p); same != d || !d.answers || len(e.syncQueue) != 0 {
		t.Errorf("the same path: answers %v, %d to be reported", d.answers, len(e.syncQueue))
	}
	if same := e.destination(p); same != d || d.answers || len(e.syncQueue) != 1 || d.initialSyncs != initialSyncReports {
		t.Errorf("with a queue pair: answers %v, %d to be reported, %d times", d.answers, len(e.syncQueue), d.initialSyncs)
	}
	if e.answerDestination(p); d.answers {
		t.Error("answers to the peer of a queue pair make it a destination of answers")
	}
}

// What the communication manager sends of its own accord is no answer.
func TestIsAnswer(t *testing.T) {
	for attr, want := range map[mad.Attr]bool{
		mad.AttrREQ: false, mad.AttrMRA: true, mad.AttrREJ: true, mad.AttrREP: true, mad.AttrRTU: false, mad.AttrDREQ: false,
		mad.AttrDREP: true, mad.AttrSIDRREQ: false, mad.AttrSIDRREP: true,
	} {
		m := mad.NewREQ(1).Header
		m[16], m[17] = byte(attr>>8), byte(attr)
		if got := isAnswer(m); got != want {
			t.Errorf("%s: %v", attr, got)
		}
	}
}
