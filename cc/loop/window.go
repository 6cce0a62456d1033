// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"time"

	"github.com/softroce/softroce-xdp/cc/fourcase"
)

// setWindow writes into the registers how many bytes may be in flight to a destination at its rate;
// 0 = no limit. The engine obeys it (rocev2/qp/req_window_congestion.go). The bytes that the kernel
// stack has in flight are not known: rxe has a window of its own.
//
// The modes fixed and literal have rates only. The window allows for the delay that jitter
// adds (spike_ns). Until the first answer, which is mostly that of a HELLO, the RTT is taken
// as unknownRTT, so that a path with a longer RTT starts slowly.
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
	r.WindowBytes = fourcase.WindowBytes(&at, p, rtt+uint64(r.SpikeNs))
}

const unknownRTT = uint64(time.Millisecond)
