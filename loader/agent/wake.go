// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"time"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/cc/fourcase"
)

// busy has the destinations to which this host had data in the last one to two of its spans.
// It distinguishes an idle destination from one without feedback, which the registers alone
// do not.
type busy struct {
	now, before map[bpf.DestKey]struct{} // of the present and of the previous span
	since       uint64                   // start of the span
}

const busySpan = uint64(640 * time.Millisecond)

// note records a destination with data, and reports whether it was recorded in the present
// or the previous span already.
func (b *busy) note(key bpf.DestKey, now uint64) (was bool) {
	if over := now - b.since; over >= busySpan {
		b.before, b.now, b.since = b.now, b.before, now
		if over >= 2*busySpan {
			clear(b.before)
		}
		clear(b.now)
		if b.now == nil {
			b.now = map[bpf.DestKey]struct{}{}
		}
	}
	if _, was = b.now[key]; !was {
		_, was = b.before[key]
		b.now[key] = struct{}{}
	}
	return was
}

// count returns the approximate number of destinations, at least 1.
func (b *busy) count() int { return max(len(b.now), len(b.before), 1) }

// sends reports whether this host has data for a destination; packets of the peer alone make
// it active too.
func (a *Agent) sends(st *step, now uint64) bool {
	return st.waits || st.paced() || now+a.clockOffset < st.regs.LastTxNs+busySpan
}

// wake restarts a destination that has data again after idle, at the even share among those
// with data: the congestion that lowered its rate before is over.
func (a *Agent) wake(st *step, params *fourcase.Params, now uint64) {
	if a.busy.note(st.key, now) {
		return
	}
	p := *params
	p.InitialRateBps = a.share(params)
	fourcase.RestartIdle(&st.policy, &p, now)
}

// share returns a destination's even share among those with data, or initial_rate_bps of the
// policy if it is set.
func (a *Agent) share(params *fourcase.Params) uint64 {
	if params.InitialRateBps != 0 {
		return params.InitialRateBps
	}
	return min(max(fourcase.EvenShare(a.cfg.LinkRateBps, a.busy.count()), params.MinRateBps), params.MaxRateBps)
}
