// SPDX-License-Identifier: Apache-2.0

package perf

import (
	"errors"
	"slices"
	"testing"

	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// portDevice is a device whose port can be read or not.
type portDevice struct {
	verbs.Device
	err error
}

func (d portDevice) Port() (verbs.Port, error) { return verbs.Port{}, d.err }

// A work request that was flushed because the device has ended fails with that reason.
func TestFailure(t *testing.T) {
	gone := &end{dev: portDevice{err: verbs.ErrGone}}
	if err := gone.failure("queue pair 1", verbs.StatusWRFlushed); !errors.Is(err, verbs.ErrGone) {
		t.Errorf("flushed by the end of the device: %v", err)
	}
	for _, e := range []*end{gone, {dev: portDevice{}}} {
		for _, s := range []verbs.Status{verbs.StatusRetryExceeded, verbs.StatusWRFlushed} {
			if e == gone && s == verbs.StatusWRFlushed {
				continue
			}
			if err := e.failure("queue pair 1", s); err.Error() != "queue pair 1: "+s.String() {
				t.Errorf("%s: %v", s, err)
			}
		}
	}
}

// The check of a run that was interrupted leaves out what nothing has completed on.
func TestCompareInterrupted(t *testing.T) {
	p := goodPlan()
	p.QPs, p.Size = 4, 100
	e := &end{plan: &p, qps: make([]verbs.QP, 4), stride: 128, buf: make([]byte, 4*128)}
	r := &run{end: e, posted: []uint64{2, 1, 0, 5}, open: []int{1, 1, 0, 0}}
	if got := r.idle(); !slices.Equal(got, []int{1, 2}) {
		t.Fatalf("idle: %v", got)
	}
	fill(e.data(0), 0)
	fill(e.data(3), 3)
	if bad := e.compare(r.idle()); bad != "" {
		t.Error(bad)
	}
	if bad := e.compare([]int{2}); bad != "queue pair 1: byte 0 differs" {
		t.Errorf("%q", bad)
	}
	e.data(3)[42]++
	if bad := e.compare(r.idle()); bad != "queue pair 3: byte 42 differs" {
		t.Errorf("%q", bad)
	}
}
