// SPDX-License-Identifier: Apache-2.0

package card

import (
	"math"
	"slices"

	"github.com/softroce/softroce-xdp/cc/precredit"
	"github.com/softroce/softroce-xdp/hwoffload/regs"
)

// creditView is what the registers of block precredit show.
type creditView struct {
	stale             bool
	list              []precredit.Entry
	free, outstanding uint32
	first             uint32 // list_first
	changes           uint32 // counter of changes of the other registers
}

// readCreditParams reads the parameters of block precredit. ok is false if a time is beyond 63
// bits.
func readCreditParams(e regs.Precredit) (r precredit.Params, s precredit.SenderParams, ok bool) {
	ok = true
	ns := func(v uint64) int64 {
		ok = ok && v <= math.MaxInt64
		return int64(v)
	}
	r = precredit.Params{
		BufferBytes: e.BudgetBytes(), ShareBytes: e.ShareBytes(), MinBytes: e.LeastBytes(),
		LifeNs: ns(e.LifeNs()), DelayNs: ns(e.DelayNs()), RetryNs: ns(e.RetryNs()),
	}
	s = precredit.SenderParams{
		LinkBps: e.LinkBps(), RTTNs: ns(e.RttNs()), BDPBytes: e.BdpBytes(), FlowBytes: e.FlowBytes(), MaxWaitNs: ns(e.MaxWaitNs()),
		SmallBias: e.SmallBias(), AgingStep: e.AgingStep(), Bound: precredit.Bound(e.Bound().BoundFlows()),
	}
	return r, s, ok
}

// showCreditState writes status.
func (d *dataPath) showCreditState(active bool) {
	d.in.W32(regs.PrecreditBase+regs.PrecreditStatusOffset, uint32(regs.PrecreditStatus(0).WithActive(active)))
}

// show brings list and counters up to date. It is called when a register of the block is read.
func (c *credits) show() {
	first := c.d.m.values[regs.PrecreditBase+regs.PrecreditListFirstOffset] // its reset value is 0
	if !c.shown.stale && first == c.shown.first {
		return
	}
	c.shown.stale = false
	c.showCounters()
	s := &c.shown
	r := c.end.Receiver
	list, free, outstanding := r.List(nil), r.Free(), r.Outstanding()
	if free != s.free || outstanding != s.outstanding || !slices.Equal(list, s.list) {
		s.free, s.outstanding, s.list = free, outstanding, list
		s.changes++
	} else if first == s.first {
		return
	}
	s.first = first
	c.showList()
}

// showList writes the list from list_first on.
func (c *credits) showList() {
	const at = regs.PrecreditBase
	list := c.shown.list
	c.d.in.W32(at+regs.PrecreditListChangesOffset, c.shown.changes)
	c.d.in.W32(at+regs.PrecreditSendersOffset, uint32(len(list)))
	c.d.in.W32(at+regs.PrecreditFreeBytesOffset, c.shown.free)
	c.d.in.W32(at+regs.PrecreditOutstandingBytesOffset, c.shown.outstanding)
	part := list[min(uint64(c.shown.first), uint64(len(list))):]
	for i := range uint64(regs.PrecreditListNodeCount) {
		var e precredit.Entry
		if i < uint64(len(part)) {
			e = part[i]
		}
		c.d.in.W32(at+regs.PrecreditListNodeOffset+i*regs.PrecreditListNodeStride, uint32(e.ID))
		c.d.in.W32(at+regs.PrecreditListShareOffset+i*regs.PrecreditListShareStride, e.Share)
		c.d.in.W32(at+regs.PrecreditListOutstandingOffset+i*regs.PrecreditListOutstandingStride, e.Outstanding)
	}
}

// showCounters writes the counters.
func (c *credits) showCounters() {
	const at = regs.PrecreditBase
	s, flows, count := c.end.Receiver.Stats(), c.end.SenderStats(), &c.end.Counts
	for _, r := range [...]struct{ offset, value uint64 }{
		{regs.PrecreditFlowsShareOffset, s.Flows[precredit.RuleShare]},
		{regs.PrecreditFlowsFreeOffset, s.Flows[precredit.RuleFree]},
		{regs.PrecreditFlowsHeadOffset, s.Flows[precredit.RuleHead]},
		{regs.PrecreditFlowsNoneOffset, s.Flows[precredit.RuleNone]},
		{regs.PrecreditGrantedOffset, s.Given},
		{regs.PrecreditDeliveredOffset, s.Drained},
		{regs.PrecreditUnusedOffset, s.Void},
		{regs.PrecreditLostOffset, s.Lost},
		{regs.PrecreditReclaimedOffset, s.Reclaimed},
		{regs.PrecreditUsedOffset, count.Used},
		{regs.PrecreditReturnedOffset, count.Returned},
		{regs.PrecreditBlockedOffset, flows.Waits},
		{regs.PrecreditRampsOffset, flows.Ramps},
		{regs.PrecreditGrantsSentOffset, count.Grants},
		{regs.PrecreditGrantsAgainOffset, s.Retries},
		{regs.PrecreditReturnsSentOffset, count.Returns},
		{regs.PrecreditIgnoredOffset, count.Ignored},
	} {
		c.d.in.W64(at+r.offset, r.value)
	}
}
