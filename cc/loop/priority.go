// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/cc/fourcase"
	"github.com/softroce/softroce-xdp/cc/priority"
)

// prioritizes reports whether priorities share the link: the nodes have some, and the mode is
// on.
func (l *Loop) prioritizes() bool {
	prio, _ := bpf.PriorityAs[priority.Params, priority.State](l.cfg)
	return prio.Mode == priority.ModeOn && l.sharer != nil
}

// observe collects what the priority policy needs to know of a destination whose rate is rate.
func observe(st *step, params *fourcase.Params, rate uint64) *priority.Observation {
	d, regs := st.regs, &st.policy
	return &priority.Observation{
		Bytes: d.TxBytes + etherLen*d.TxPackets, Paced: st.paced(),
		Queued:  regs.QueueingTxNs > int64(params.DeadbandNs) || regs.Action == fourcase.ActionLossCut || regs.Action == fourcase.ActionCECut,
		RateBps: rate, AllowedBps: regs.RateBps, LimitBps: st.limit, MinBps: params.MinRateBps,
		DecidedNs: regs.DecidedNs, DecreasedNs: regs.DecreasedNs,
	}
}

// ShareOut makes an allocation after an evaluation, and writes the outcome into the
// configuration.
func (l *Loop) ShareOut(now uint64) {
	prio, state := bpf.PriorityAs[priority.Params, priority.State](l.cfg)
	if !l.prioritizes() {
		*state = priority.State{}
		if l.sharer != nil {
			l.sharer.Reset()
		}
		return
	}
	*state = l.sharer.Share(prio.Limit(l.cfg.LinkRateBps), now)
}
