// SPDX-License-Identifier: Apache-2.0

package card

import (
	"math"
	"slices"

	"github.com/softroce/softroce-xdp/cc/precredit"
	"github.com/softroce/softroce-xdp/hwoffload/regs"
	"github.com/softroce/softroce-xdp/rocev2/engine"
)

// Block precredit (S5). The engine has pre-credit with the nodes that understand it, while control.enable is set.

// control is pre-credit as the registers have it.
type control struct {
	d        *dataPath
	endpoint *precredit.Endpoint // nil: it is off
	epoch    uint32              // number of the next account, if endpoint was set before
	used     bool
	shown    controlView
}

// set starts or ends pre-credit when enable changes.
func (c *control) set(was, now regs.PrecreditControl) {
	if was.Enable() == now.Enable() {
		return
	}
	if c.endpoint != nil {
		c.end()
	}
	if now.Enable() {
		c.start()
	}
	signal(c.d.m.wake)
}

// start starts pre-credit if the parameters are within their ranges.
func (c *control) start() {
	r, s, ok := readParams(regs.PrecreditOf(c.d.in))
	if !ok || r.Validate() != nil || s.Validate() != nil {
		return
	}
	epoch := regs.PrecreditOf(c.d.in).Epoch()
	if c.used && int32(epoch-c.epoch) < 0 {
		epoch = c.epoch
	}
	c.used = true
	c.d.net.renewRoutes()
	c.endpoint = c.d.net.core.UsePreCredit(engine.PreCredit{Receiver: &r, Sender: s, FirstEpoch: epoch})
	c.shown = controlView{stale: true, changes: c.d.m.stored(regs.PrecreditBase + regs.PrecreditListChangesOffset)}
	c.d.net.entriesStale = true
	c.showActive(true)
}

// end ends it. Frames of the last messages wait to be sent.
func (c *control) end() {
	c.d.net.core.EndPreCredit()
	c.shown.stale = true
	c.show()
	c.shown = controlView{changes: c.shown.changes + 1}
	c.showList()
	c.epoch = c.endpoint.Receiver.Epoch()
	c.endpoint = nil
	for _, e := range c.d.net.entries {
		e.ahead = 0
	}
	c.showActive(false)
}

// controlView is what the registers of block precredit show.
type controlView struct {
	stale             bool
	list              []precredit.Entry
	free, outstanding uint32
	first             uint32 // list_first
	changes           uint32 // counter of changes of the other registers
}

// readParams reads the parameters of block precredit. ok is false if a time is beyond 63
// bits.
func readParams(e regs.Precredit) (r precredit.Params, s precredit.SenderParams, ok bool) {
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

// showActive writes status.
func (c *control) showActive(active bool) {
	c.d.in.W32(regs.PrecreditBase+regs.PrecreditStatusOffset, uint32(regs.PrecreditStatus(0).WithActive(active)))
}

// show brings list and counters up to date. It is called when a register of the block is read.
func (c *control) show() {
	first := c.d.m.stored(regs.PrecreditBase + regs.PrecreditListFirstOffset)
	if !c.shown.stale && first == c.shown.first {
		return
	}
	c.shown.stale = false
	c.showCounters()
	s := &c.shown
	r := c.endpoint.Receiver
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
func (c *control) showList() {
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
func (c *control) showCounters() {
	const at = regs.PrecreditBase
	s, flows, count := c.endpoint.Receiver.Stats(), c.endpoint.SenderStats(), &c.endpoint.Counts
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
