// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/cc/priority"
)

// limitOf returns what a destination allows this host (S1.8, S4.5), 0 = all. Priority "off" leaves
// the rate to the four-case policy alone.
func (l *Loop) limitOf(key bpf.DestKey, now uint64) uint64 {
	if priorityMode(l.cfg) == priority.ModeOff {
		return 0
	}
	return l.limit(key, now)
}

func priorityMode(cfg *bpf.Config) priority.Mode {
	prio, _ := bpf.PriorityAs[priority.Params, priority.State](cfg)
	return prio.Mode
}
