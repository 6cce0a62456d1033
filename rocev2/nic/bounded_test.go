// SPDX-License-Identifier: Apache-2.0

package nic

import "testing"

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
