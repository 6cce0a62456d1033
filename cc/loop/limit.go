// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/cc/fourcase"
	"github.com/softroce/softroce-xdp/cc/priority"
)

// limitAhead bounds the policy's own rate, as a multiple of a limit that is below it: when the
// limit ends, the path has not been tried at more.
const limitAhead = 4

// limitOf returns what a destination allows this host (S1.8, S4.5), 0 = all. Priority "off" leaves
// the rate to the four-case policy alone.
func (l *Loop) limitOf(key bpf.DestKey, now uint64) uint64 {
	if priorityMode(l.cfg) == priority.ModeOff {
		return 0
	}
	return l.limit(key, now)
}

// limited returns the lesser of a rate and what the destination allows this host.
func (st *step) limited(rate uint64, params *fourcase.Params) uint64 {
	if st.limit == 0 || rate != 0 && rate <= st.limit {
		return rate
	}
	if params.Mode != fourcase.ModeFixed {
		st.policy.RateBps = min(st.policy.RateBps, max(limitAhead*st.limit, params.MinRateBps))
	}
	return st.limit
}

func priorityMode(cfg *bpf.Config) priority.Mode {
	prio, _ := bpf.PriorityAs[priority.Params, priority.State](cfg)
	return prio.Mode
}
