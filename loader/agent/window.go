// SPDX-License-Identifier: Apache-2.0

package agent

import "github.com/softroce/softroce-xdp/cc/fourcase"

// setWindow says in the registers how much may be under way to a destination at the rate
// that is enforced; 0 = no limit. The engine holds to it (rocev2/qp/feed.go). What the
// host's stack has under way nobody knows: rxe sends what its own window lets it.
//
// The modes fixed and literal are rates alone. What is known of the way must be its round
// trip without a queue, and the delay that jitter adds is no reason to wait.
func setWindow(r *fourcase.Regs, p *fourcase.Params, rate uint64, off bool) {
	r.WindowBytes = 0
	if off || p.Mode != fourcase.ModeRobust || r.State&fourcase.StateBase == 0 || rate == 0 {
		return
	}
	at := *r
	at.RateBps = rate
	r.WindowBytes = fourcase.WindowBytes(&at, p, uint64(max(r.BaseRttNs, 0))+r.JitterNs)
}
