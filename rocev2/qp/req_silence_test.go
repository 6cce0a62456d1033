// SPDX-License-Identifier: Apache-2.0

package qp

import (
	"testing"

	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Probes of a silent destination neither use up retries nor prolong them: a peer that is gone ends the
// connection at RetryBound, whatever Timeout is.
func TestSilenceKeepsRetryBound(t *testing.T) {
	for timeout := uint8(8); timeout <= 19; timeout++ {
		for _, op := range []verbs.Op{verbs.OpWrite, verbs.OpRead} {
			f := NewFlight()
			x := newSource(t, verbs.RC, func(_ *Config, a *verbs.Attr) { a.Timeout = timeout })
			x.q.SetFlight(&f)
			x.post(op, 8, 0)
			start := x.now
			for x.q.State() == verbs.StateRTS {
				x.sends(100)
				x.expire()
			}
			x.wantDone(0, verbs.StatusRetryExceeded)
			if got, bound := x.now-start, RetryBound(timeout, 3); got != bound {
				t.Errorf("Timeout %d, operation %d: given up after %d ns, bound %d", timeout, op, got, bound)
			}
			if least := uint64(min(RetryBound(timeout, 3), 3_200_000_000) / silentProbeTime / 2); x.count.TailProbes < least {
				t.Errorf("Timeout %d: %d probes, want %d at least", timeout, x.count.TailProbes, least)
			}
		}
	}
}

// Without a timeout the probes of a peer that is gone become rare.
func TestSilenceWithoutTimeout(t *testing.T) {
	f := NewFlight()
	x := newSource(t, verbs.RC, func(_ *Config, a *verbs.Attr) { a.Timeout = 0 })
	x.q.SetFlight(&f)
	x.post(verbs.OpWrite, 1, 0)
	for range 300 {
		x.sends(10)
		x.expire()
	}
	x.wantState(verbs.StateRTS)
	if x.now < 1000e9 {
		t.Errorf("300 probes in %d s", x.now/1e9)
	}
}
