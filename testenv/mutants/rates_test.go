// SPDX-License-Identifier: Apache-2.0

package mutants

var fourCase = area{name: "fourcase", dir: "cc/fourcase", pure: true, list: []mutant{
	{
		name: "a queue is far above the target only from eight times of it on", file: "robust.go",
		old: "	case qTx > 4*d:\n		return rowFarAbove", new: "	case qTx > 8*d:\n		return rowFarAbove", test: "TestRows",
	},
	{
		name: "a decrease ends at the rate below the floor", file: "step.go",
		old: "r.RateBps = max(before-min(amount, before), least)", new: "r.RateBps = max(before-min(amount, before), p.minimumRate())", test: "TestSilenceAtTheFloor",
	},
	{
		name: "several decisions in one interval", file: "robust.go",
		old: "case now-r.DecidedNs < p.IntervalNs:\n", new: "case false:\n", test: "TestOneDecisionPerInterval",
	},
	{
		name: "the base delay never rises", file: "baseline.go",
		old: "if r.State&StateNext != 0 && now-r.BaseSinceNs >= p.BaseWindowNs {", new: "if false {", test: "TestRouteChange",
	},
	{
		name: "losses of one RTT decrease the rate again", file: "robust.go",
		old: "if signal && now-r.DecreasedNs >= max(p.IntervalNs, r.latestRTT()) {", new: "if signal {", test: "TestLossCutsOncePerRoundTrip",
	},
	{
		name: "a slow receiver costs no more than a queue", file: "robust.go",
		old: "	case rowReceiver:\n		cut += cut >> 1\n", new: "", test: "TestRows",
	},
	{
		name: "the row of the receiver compares the wrong way round", file: "robust.go",
		old: "dRx > e && qRx > qTx &&", new: "dRx > e && qRx < qTx &&", test: "TestRows",
	},
}}

var preCredit = area{name: "precredit", dir: "cc/precredit", pure: true, list: []mutant{
	{
		name: "bytes that were served do not come back to the budget", file: "receiver.go",
		old: "	p.done += n\n	r.out -= n\n", new: "	p.done += n\n", test: "TestGrantAndCredit",
	},
	{
		name: "shares are granted beyond the budget", file: "receiver.go",
		old: "n := min(want, r.p.BufferBytes-r.out)", new: "n := want", test: "TestPropertyConservation",
	},
	{
		name: "the timer of losses is not armed", file: "receiver.go",
		old: "	r.timers.by(p, p.lossTimerNs)\n}\n\n// lost", new: "}\n\n// lost", test: "TestPropertyShareComesBack",
	},
	{
		name: "the head of the list is not told to give up its share", file: "receiver.go",
		old: "	head.recall = true\n	r.grant(head)\n", new: "	head.recall = true\n", test: "TestHeadGivesUp",
	},
	{
		name: "the smallest share is at the head", file: "list.go",
		old: "return l[i].share > l[j].share", new: "return l[i].share < l[j].share", test: "TestListRules",
	},
	{
		name: "the share of a sender that left is not free", file: "receiver.go",
		old: "{ r.free += r.list.take(p) }", new: "{ r.list.take(p) }", test: "TestListRules",
	},
	{
		name: "a report of an earlier account is taken", file: "receiver.go",
		old: "if p == nil || m.Epoch != p.epoch {", new: "if p == nil {", test: "TestLies",
	},
	{
		name: "a retransmission counts as new data of its flow", file: "sender.go",
		old: "case !f.begun || again || n == 0:", new: "case !f.begun || n == 0:", test: "TestSenderRetransmission",
	},
	{
		name: "a peer whose packets found no room is not served again", file: "endpoint.go",
		old: "full || last {", new: "full && last {", test: "TestEndpointSend",
	},
	{
		name: "peers after the last packet of a Send are forgotten", file: "endpoint.go",
		old: "	kept += copy(e.ready[kept:], e.ready[i:])\n", new: "", test: "TestEndpointSend",
	},
	{
		name: "pre-credit goes on with a peer that lost the capability", file: "peer.go",
		old: "since\n		p.Implied = false\n", new: "since\n", test: "TestPeerUnderstands",
	},
	{
		name: "flows are released although packets are in flight", file: "endpoint.go",
		old: "; busy {", new: "; busy && false {", test: "TestEndpointEndsWaits",
	},
	{
		name: "what is unused when pre-credit ends is not returned", file: "peer.go",
		old: "	p.sendReturn(p.Stop())\n", new: "	p.Stop()\n", test: "TestEndpoints",
	},
}}

var priorities = area{name: "cc priority", dir: "cc/priority", pure: true, list: []mutant{
	{
		name: "the maximum of a node does not bound it", file: "priority.go",
		old: "{ return min(n.Max, n.Demand) }", new: "{ return n.Demand }", test: "TestAllocate",
	},
	{
		name: "odd units go to nobody", file: "priority.go",
		old: "		grants[p.index]++\n", new: "		_ = p\n", test: "TestProportion",
	},
	{
		name: "a level that fits exactly counts as congested", file: "priority.go",
		old: "for end <= Levels && !more[end].above(left) {", new: "for end <= Levels && more[end].lo < left {", test: "TestAllocate",
	},
	{
		name: "sources that ended keep their part", file: "receiver.go",
		old: "if now-s.seen > sourceIdle {", new: "if false {", test: "TestReceiverFollowsDemand",
	},
	{
		name: "the limit goes below the floor", file: "destination.go",
		old: "return min(d.node.max, d.limit), d.floor", new: "return min(d.node.max, d.limit), 0", test: "TestSharerMinimum",
	},
	{
		name: "a counter that starts again gives a huge usage", file: "destination.go",
		old: "case u.at == 0 || bytes < u.bytes ||", new: "case u.at == 0 ||", test: "TestUsageOfCounterThatStartsAgain",
	},
	{
		name: "ten users are not many", file: "judge.go",
		old: "if users >= many {", new: "if users > many {", test: "TestJudge",
	},
}}

// policySteps is the step of the policy in the loop, and neverChanges a policy that decides and never changes a rate.
const (
	policySteps  = "	st.sender.decided(fourcase.Step(&st.policy, &below, sample, now), &st.policy)\n"
	neverChanges = `	before := st.policy.RateBps
	decision := fourcase.Step(&st.policy, &below, sample, now)
	if before != 0 {
		st.policy.RateBps = before
	}
	st.sender.decided(decision, &st.policy)
`
)

var policyLoop = area{name: "policy loop", dir: "cc/loop", pure: true, list: []mutant{
	{
		name: "the policy never changes a rate", file: "evaluate.go",
		old: policySteps, new: neverChanges, test: "TestLinkShareSeesCongestion",
	},
	{
		name: "kernel stack and engine get each other's part", file: "split.go",
		old: "st.rate, st.stackRate, st.engineRate = rate, stack, engine", new: "st.rate, st.stackRate, st.engineRate = rate, engine, stack",
		test: "TestSplitByDemand",
	},
	{
		name: "the limit of a destination is not enforced", file: "bounds.go",
		old: "BoundReceiver: st.limit}", new: "}", test: "TestLimitIsObeyedForItsLife",
	},
	{
		name: "the greatest bound sets the rate", file: "bounds.go",
		old: "limit > bps == (bound == BoundFloor)", new: "limit > bps == (bound != BoundFloor)", test: "TestBounds",
	},
	{
		name: "the floor is a bound like the others", file: "bounds.go",
		old: "limit > bps == (bound == BoundFloor)", new: "limit < bps", test: "TestBoundsProperty",
	},
	{
		name: "the policy's own rate does not follow the rate", file: "bounds.go",
		old: "ahead := maxAhead * min(bps, priority.All/maxAhead)", new: "ahead := uint64(priority.All)", test: "TestPolicyRate",
	},
	{
		name: "a bound that changes alone is not stored", file: "bounds.go",
		old: "if uint8(st.bound) != st.regs.Bound {", new: "if false {", test: "TestBoundAloneIsStored",
	},
	{
		name: "a bound changes the rate that was configured", file: "bounds.go",
		old: "if params.Mode != fourcase.ModeFixed {", new: "if true {", test: "TestBoundsLeaveAConfiguredRate",
	},
	{
		name: "decisions that change no rate are not stored", file: "evaluate.go",
		old: "	if st.policyChanged() {\n		st.set |= bpf.SetPolicy\n	}\n", new: "", test: "TestDecisionWithoutNewRateIsStored",
	},
	{
		name: "a receiver that is not ready counts as loss", file: "step.go",
		old: "if d.WinRnr == 0 {", new: "if true {", test: "TestSampleOf",
	},
	{
		name: "the window is that of the policy's own rate", file: "window.go",
		old: "	at.RateBps = rate\n", new: "", test: "TestSetWindow",
	},
	{
		name: "packets that wait in the pacer do not count as data", file: "step.go",
		old: "d.WinPaced == 0 && !waits", new: "d.WinPaced == 0", test: "TestSampleOf",
	},
}}

var pacers = area{name: "pacer", dir: "loader/pacer", root: true, list: []mutant{
	{
		name: "the burst of a class has as many bytes as bits", file: "htb.go",
		old: "min(bps/8*uint64(Burst)/1e9, 1<<30)", new: "min(bps*uint64(Burst)/1e9, 1<<30)", test: "TestClass",
	},
	{
		name: "the rates of an earlier agent are taken as bits", file: "htb.go",
		old: "h.rates[c.Handle] = c.Rate * 8", new: "h.rates[c.Handle] = c.Rate", test: "TestAdoptedClassesAreRepaired",
	},
	{
		name: "the number of a class is not free after Release", file: "htb.go",
		old: "	h.give(class)\n	delete(h.rates, class)\n", new: "	delete(h.rates, class)\n", test: "TestReleasedNumberIsFree",
	},
	{
		name: "a class that was released still counts", file: "htb.go",
		old: "	h.give(class)\n	delete(h.rates, class)\n", new: "	h.give(class)\n", test: "TestHTB",
	},
	{
		name: "Restore removes the root qdisc of somebody else", file: "pacer.go",
		old: "if err != nil || root == nil || !isOurs(root) {", new: "if err != nil || root == nil {", test: "TestConfiguredQdisc",
	},
	{
		name: "a class has the queue of the interface", file: "htb.go",
		old: "	if err := h.addLeaf(class); err != nil {\n		return errors.Join(err, netlink.ClassDel(c))\n	}\n", new: "", test: "TestClass",
	},
}}
