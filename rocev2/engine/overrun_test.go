// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"testing"

	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// An overrun of a completion queue with many queue pairs ends all of them, a bounded part in each step.
func TestOverrunInParts(t *testing.T) {
	l := newLoopback(t, 1)
	const qps, each = 100, 128
	all := make([]QP, qps)
	for i := range all {
		if err := l.e.AddQP(&all[i], l.config(verbs.RC, each)); err != nil {
			t.Fatal(err)
		}
		a := verbs.DefaultAttr()
		a.State = verbs.StateInit
		if _, err := l.e.Modify(&all[i], &a, verbs.RequiredMask(verbs.RC, verbs.StateInit), nil); err != nil {
			t.Fatal(err)
		}
		for range each {
			if err := l.e.Recv(&all[i], &verbs.RecvWR{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	l.e.Overrun(l.cq)
	parts := 0
	for ; len(l.e.overruns.list) > 0 && parts < 10_000; parts++ {
		if n := l.e.FailOverruns(); n > overrunSteps+each+2 {
			t.Errorf("part %d has %d steps, want at most %d", parts, n, overrunSteps+each+2)
		}
	}
	for i := range all {
		if s := all[i].State(); s != verbs.StateErr {
			t.Fatalf("a queue pair is in %s after %d parts", s, parts)
		}
	}
	if want := qps * each / overrunSteps; parts < want {
		t.Errorf("%d parts, want %d or more", parts, want)
	}
	if h := l.e.host.(*testHost); len(h.lost) != 1 || len(l.events) != qps {
		t.Errorf("%d and %d events, want one of the completion queue and %d of queue pairs", len(h.lost), len(l.events), qps)
	}
}
