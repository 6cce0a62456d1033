// SPDX-License-Identifier: Apache-2.0

package nic

import (
	"testing"

	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// An iteration runs a bounded number of the functions that goroutines of many processes wait for, in
// order, and none is forgotten.
func TestCallBudget(t *testing.T) {
	d, err := OpenLoopback(Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	e, ran, most := d.eng, 0, 0
	d.InLoop(func() { // the owner of the loop calls takeCalls
		for i := range 10 * callBudget {
			e.post(func() {
				if ran != i {
					t.Errorf("function %d runs as number %d", i, ran)
				}
				ran++
			})
		}
		for range 100 {
			n := e.takeCalls()
			if most = max(most, n); n == 0 {
				break
			}
		}
	})
	if ran != 10*callBudget || most != callBudget {
		t.Errorf("%d of %d functions ran, up to %d in an iteration; want all, %d", ran, 10*callBudget, most, callBudget)
	}
	if e.calls.any.Load() {
		t.Error("something is left")
	}
}

// An overrun of a completion queue with many queue pairs ends all of them, a bounded part in each step.
func TestOverrunInParts(t *testing.T) {
	d, err := OpenLoopback(Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	pd, err := d.AllocPD()
	if err != nil {
		t.Fatal(err)
	}
	cq, err := d.CreateCQ(1)
	if err != nil {
		t.Fatal(err)
	}
	const qps, each = 100, 128
	var all []*QP
	for range qps {
		q, err := pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: cq, RecvCQ: cq, MaxRecv: each})
		if err != nil {
			t.Fatal(err)
		}
		a := verbs.DefaultAttr()
		a.State = verbs.StateInit
		if err := q.Modify(a, verbs.RequiredMask(verbs.RC, verbs.StateInit)); err != nil {
			t.Fatal(err)
		}
		for range each {
			if err := q.PostRecv(&verbs.RecvWR{}); err != nil {
				t.Fatal(err)
			}
		}
		all = append(all, q.(*QP))
	}
	e, parts := d.eng, 0
	d.InLoop(func() {
		e.takePosts()
		e.overrun(cq.(*CQ))
		for ; len(e.overruns) > 0 && parts < 10_000; parts++ {
			if n := e.failOverruns(); n > overrunSteps+each+2 {
				t.Errorf("part %d has %d steps, want at most %d", parts, n, overrunSteps+each+2)
			}
		}
	})
	for _, q := range all {
		if s := q.State(); s != verbs.StateErr {
			t.Fatalf("a queue pair is in %s after %d parts", s, parts)
		}
	}
	if want := qps * each / overrunSteps; parts < want {
		t.Errorf("%d parts, want %d or more", parts, want)
	}
}
