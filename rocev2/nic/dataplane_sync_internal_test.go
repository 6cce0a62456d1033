// SPDX-License-Identifier: Apache-2.0

package nic

import "testing"

// An iteration that applies the replies of the data plane has done something: a thread that sleeps must find out what they
// have changed, if a caller that polls has applied them.
func TestRepliesCount(t *testing.T) {
	d, err := OpenLoopback(Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	e := d.eng
	d.InLoop(func() {
		for e.iterate() != 0 {
		}
		s := &e.rails[0].sync
		s.out = true
		s.done.Store(true)
		if n := e.iterate(); n == 0 || s.done.Load() {
			t.Errorf("%d things were done, the replies still wait: %v", n, s.done.Load())
		}
		if n := e.iterate(); n != 0 {
			t.Errorf("%d things were done without replies", n)
		}
	})
}
