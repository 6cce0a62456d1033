// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"time"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/cc/fourcase"
)

// busy knows the destinations that had traffic in the last one to two of its spans. It
// tells one that is idle from one that sends and hears nothing, which the registers alone
// do not.
type busy struct {
	now, before map[bpf.DestKey]struct{}
	since       uint64 // start of the span
}

const busySpan = uint64(640 * time.Millisecond)

// note takes a destination with traffic, and reports whether it had some before.
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

// count is how many there are, about.
func (b *busy) count() int { return max(len(b.now), len(b.before), 1) }

// sends reports whether we have data for a destination, and not only the peer for us.
// waits: packets wait in the pacer for some time.
func (a *Agent) sends(d *bpf.DestRegs, waits bool, now uint64) bool {
	return waits || d.WinPaced > 0 || now+a.clockOffset < d.LastTxNs+busySpan
}

// wake gives a destination that has data again after it was idle for long its even share
// back: that of those that have data. What congestion made of its rate then is past.
func (a *Agent) wake(slot *bpf.ExchangeSlot, params *fourcase.Params, now uint64) {
	if a.busy.note(slot.Key, now) {
		return
	}
	p := *params
	p.InitialRateBps = a.share(params)
	fourcase.Wake(bpf.PolicyAs[fourcase.Regs](&slot.Regs.Policy), &p, now)
}

// share is a destination's even share among those that have data, or what was set.
func (a *Agent) share(params *fourcase.Params) uint64 {
	if params.InitialRateBps != 0 {
		return params.InitialRateBps
	}
	return min(max(fourcase.EvenShare(a.cfg.LinkRateBps, a.busy.count()), params.MinRateBps), params.MaxRateBps)
}
