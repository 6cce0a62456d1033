// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"time"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/cc/fourcase"
)

// recentlyActive has the destinations to which this host had data in the last one to two of its
// spans. It distinguishes an idle destination from one without feedback, which the registers alone
// do not.
type recentlyActive struct {
	now, before map[bpf.DestKey]struct{} // destinations with traffic in the present and in the previous span
	since       uint64                   // start of the span
}

const activeSpan = uint64(640 * time.Millisecond)

// note records a destination with data, and reports whether it was recorded in the present
// or the previous span already.
func (r *recentlyActive) note(key bpf.DestKey, now uint64) (was bool) {
	r.advance(now)
	if r.now == nil {
		r.now = map[bpf.DestKey]struct{}{}
	}
	if _, was = r.now[key]; !was {
		_, was = r.before[key]
		r.now[key] = struct{}{}
	}
	return was
}

// advance begins a new span if the present one is over.
func (r *recentlyActive) advance(now uint64) {
	over := now - r.since
	if over < activeSpan {
		return
	}
	r.before, r.now, r.since = r.now, r.before, now
	if over >= 2*activeSpan {
		clear(r.before)
	}
	clear(r.now)
}

// count returns the approximate number of destinations, at least 1.
func (r *recentlyActive) count() int { return max(len(r.now), len(r.before), 1) }

// others returns the approximate number of destinations for one that is not among them.
func (r *recentlyActive) others() int { return max(len(r.now), len(r.before)) }

// sends reports whether this host has data for a destination; packets of the peer alone make
// it active too.
func (l *Loop) sends(st *step, now uint64) bool {
	return st.waits || st.paced() || now+l.ClockOffset < st.regs.LastTxNs+activeSpan
}

// restartIdle restarts a destination that has data again after idle, at the even share among those
// with data: the congestion that lowered its rate before is over.
func (l *Loop) restartIdle(st *step, params *fourcase.Params, now uint64) {
	p := *params
	p.InitialRateBps = l.share(params)
	if r := &st.policy; r.Decisions == 0 && p.Mode == fourcase.ModeRobust {
		// No congestion was measured. The entry is older than its first data, and others were
		// counted for its share that are idle now.
		r.RateBps = max(r.RateBps, p.InitialRateBps)
	}
	fourcase.RestartIdle(&st.policy, &p, now)
}

// share returns a destination's even share among those with data, or initial_rate_bps of the
// policy if it is set.
func (l *Loop) share(params *fourcase.Params) uint64 {
	if params.InitialRateBps != 0 {
		return params.InitialRateBps
	}
	return min(max(fourcase.EvenShare(l.cfg.LinkRateBps, l.recentlyActive.count()), params.MinRateBps), params.MaxRateBps)
}
