// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"time"

	"github.com/softroce/softroce-xdp/cc/fourcase"
)

// setWindow says in the registers how much may be under way to a destination at the rate
// that is enforced; 0 = no limit. The engine holds to it (rocev2/qp/req_window_congestion.go). What the
// host's stack has under way nobody knows: rxe sends what its own window lets it.
//
// The modes fixed and literal are rates alone. The delay that jitter adds is no reason to
// wait. As long as nothing is known of the way it is taken for one of a millisecond: the
// first answer, a HELLO's mostly, tells, and until then a longer one starts slowly.
func setWindow(r *fourcase.Regs, p *fourcase.Params, rate uint64, off bool) {
	r.WindowBytes = 0
	if off || p.Mode != fourcase.ModeRobust || rate == 0 {
		return
	}
	rtt := unknownRTT
	if r.State&fourcase.StateBase != 0 {
		rtt = uint64(max(r.BaseRttNs, 0))
	}
	at := *r
	at.RateBps = rate
	r.WindowBytes = fourcase.WindowBytes(&at, p, rtt+uint64(r.JitterNs))
}

const unknownRTT = uint64(time.Millisecond)
