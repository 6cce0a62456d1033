// SPDX-License-Identifier: Apache-2.0

package mutants

var requester = area{name: "qp requester", dir: "rocev2/qp", pure: true, list: []mutant{
	{
		name: "an ACK acknowledges the packets before its PSN only", file: "req_ack.go",
		old: "r.onAcked(now, uint64(n+1))", new: "r.onAcked(now, uint64(n))", test: "TestCoalescedAndStaleAcks",
	},
	{
		name: "an ACK of the first packet that was not sent is taken", file: "req_ack.go",
		old: "n >= int64(r.sndMax) ||", new: "n > int64(r.sndMax) ||", test: "TestCoalescedAndStaleAcks",
	},
	{
		name: "progress does not reset the retry counter", file: "req_timer.go",
		old: "	c.probes, c.retries = 0, 0\n	c.since = 0\n", new: "	c.probes = 0\n	c.since = 0\n", test: "TestProgressStartsRetriesOver",
	},
	{
		name: "one retry more than configured", file: "req_timer.go",
		old: "if c.retries >= q.attr.RetryCnt {", new: "if c.retries > q.attr.RetryCnt {", test: "TestRetryExceeded",
	},
	{
		name: "the RNR retries of a packet count for the next one", file: "req_rnr.go",
		old: "c.rnrPacket, c.rnrRetries = n, 0", new: "c.rnrPacket = n", test: "TestNotReady",
	},
	{
		name: "the timer is not armed again while a response is due", file: "req_timer.go",
		old: "	if more {\n		c.restart(now)\n	}\n", new: "	_ = more\n", test: "TestTimerRunsUntilTheLastResponse",
	},
	{
		name: "a packet that was sent twice gives an RTT sample", file: "req_timer.go",
		old: "if !again && !c.timing {", new: "if !c.timing {", test: "TestNoSampleOfRetransmission",
	},
	{
		name: "a NAK flushes the requests before the refused one", file: "req_ack.go",
		old: "	if uint64(n) > r.sndUna {\n		r.advanceUna(now, uint64(n))\n		r.retire(now)\n	}\n	r.fail(", new: "	r.fail(",
		test: "TestFatalNaks",
	},
	{
		name: "what an RNR NAK has refused stays in flight", file: "req_rnr.go",
		old: "	r.loseInflight(n)\n", new: "", test: "TestRefusedIsNotInFlight",
	},
	{
		name: "what is sent again after an RNR NAK does not count", file: "req_segment.go",
		old: "if r.gone != 0 {", new: "if false {", test: "TestRefusedIsNotInFlight",
	},
	{
		name: "a reported loss does not halve the window", file: "req_window_loss.go",
		old: "w.size = max(uint32(min(flight/2, maxWindow)), least)", new: "w.size = max(uint32(min(flight, maxWindow)), least)", test: "TestWindow",
	},
}}

var responder = area{name: "qp responder", dir: "rocev2/qp", pure: true, list: []mutant{
	{
		name: "the packet before the expected one is executed again", file: "rsp_rc.go",
		old: "	case d < 0:\n", new: "	case d < -1:\n", test: "TestDuplicates",
	},
	{
		name: "a READ does not count in the MSN", file: "rsp_read.go",
		old: "	r.endMessage() // MSN", new: "	r.message = message{} // MSN", test: "TestReadAndAtomic",
	},
	{
		name: "a WRITE needs no right of the queue pair", file: "rsp_execute.go",
		old: "if q.attr.Access&verbs.AccessRemoteWrite == 0 || !r.lengthFits", new: "if !r.lengthFits", test: "TestRefusals",
	},
	{
		name: "the range of a WRITE is not checked with its first packet", file: "rsp_execute.go",
		old: "	if info.Position == rocev2.PosFirst {\n		if f :=", new: "	if false {\n		if f :=", test: "TestRefusals",
	},
	{
		name: "after one NAK no other gap is reported", file: "rsp_ack.go",
		old: "func (a *ackState) cancelNAK() { a.nakActive, a.nakDue = false, false }",
		new: "func (a *ackState) cancelNAK() { a.nakDue = false }", test: "TestSequenceError",
	},
	{
		name: "a duplicate READ may have another key", file: "rsp_read.go",
		old: "if reth.RKey() != o.rkey || reth.VA()", new: "if reth.VA()", test: "TestDuplicateRead",
	},
	{
		name: "a duplicate is not acknowledged again", file: "rsp_ack.go",
		old: "{ a.ackDue, a.repeatDue = true, true }", new: "{ a.ackDue = true }", test: "TestDuplicates",
	},
	{
		name: "packets without AckReq start no timer", file: "rsp_ack.go",
		old: "	case a.deadline == 0:\n		a.deadline = now + ackDelay\n", new: "", test: "TestAckCoalescing",
	},
	{
		name: "a SEND that fills its receive is too long", file: "rsp_execute.go",
		old: "if uint64(len(data)) > r.buf.room ||", new: "if uint64(len(data)) >= r.buf.room ||", test: "TestRefusals",
	},
	{
		name: "receives of an SRQ are accessed in the domain of the queue pair", file: "rsp_recvq.go",
		old: "		return s.cfg.PD\n", new: "		_ = s\n", test: "TestSRQDomain",
	},
}}

var regions = area{name: "mr", dir: "rocev2/mr", pure: true, list: []mutant{
	{
		name: "the end of an access wraps", file: "entry.go",
		old: "return off <= e.length && n <= e.length-off", new: "return off+n <= e.length", test: "TestRefusals",
	},
	{
		name: "the protection domain is not compared", file: "entry.go",
		old: "	if e.pd != pd {\n		return mem.FaultPD\n	}\n	if f :=", new: "	if f :=", test: "TestRefusals",
	},
	{
		name: "any queue pair uses a window", file: "table.go",
		old: "	if e.region != nil && e.window != nil && e.qpn != qpn {\n		return nil, mem.FaultPD\n	}\n", new: "", test: "TestWindowLife",
	},
	{
		name: "Deregister does not wait for accesses", file: "region.go",
		old: "	t.domains.release(e.pd)\n	t.mu.Unlock()\n	e.drain()\n", new: "	t.domains.release(e.pd)\n	t.mu.Unlock()\n", test: "TestDeregisterWaits",
	},
	{
		name: "Reregister keeps the key", file: "region.go",
		old: "e.region, e.key = r, t.keys.next(r.slot)", new: "e.region, e.key = r, old.key", test: "TestKeysRotate",
	},
	{
		name: "Reregister keeps the old domain", file: "region.go",
		old: "	t.domains.release(old.pd)\n", new: "", test: "TestReregister",
	},
	{
		name: "a region without local write gets a window with remote write", file: "window.go",
		old: " || // C10-73\n		b.Access&(verbs.AccessRemoteWrite|verbs.AccessRemoteAtomic) != 0 && target.access&verbs.AccessLocalWrite == 0 { // C10-74",
		new: " { // C10-73", test: "TestBindRefuses",
	},
	{
		name: "a window that ended still holds its region", file: "window.go",
		old: "	e.region.windows--\n", new: "", test: "TestWindowLife",
	},
}}

var scheduler = area{name: "scheduler", dir: "rocev2/engine", pure: true, list: []mutant{
	{
		name: "lag is made up for without end", file: "bucket.go",
		old: "	b.lag -= back\n", new: "", test: "TestLag",
	},
	{
		name: "an idle destination has no burst", file: "bucket.go",
		old: "if saved := now - burst; b.empty", new: "if saved := now + 0*burst; b.empty", test: "TestBucket",
	},
	{
		name: "a wait is scaled by the inverse of the rates", file: "bucket.go",
		old: "float64(b.rate) / float64(rate))", new: "float64(rate) / float64(b.rate))", test: "TestWaitFollowsTheRate",
	},
	{
		name: "what a flow has sent too much is not deducted", file: "drr.go",
		old: "q.Enqueue(f, x, quantum+left)", new: "q.Enqueue(f, x, quantum+max(left, 0))", test: "TestDeficit",
	},
	{
		name: "a flow that was alone owes all that it has sent", file: "drr.go",
		old: "max(q.first.deficit-n, -n)", new: "q.first.deficit - n", test: "TestDeficitAlone",
	},
	{
		name: "the last flow is removed, and the queue still ends in it", file: "drr.go",
		old: "	if before.next = f.next; q.last == f {\n		q.last = before\n	}\n", new: "	before.next = f.next\n", test: "TestQueueOrder",
	},
	{
		name: "a timer fires before its time", file: "wheel.go",
		old: "if (at+tick-1)>>tickShift > when {", new: "if at>>tickShift > when {", test: "TestFiresAtTheEndOfTheTick",
	},
	{
		name: "the slot of the last timer that stopped stays occupied", file: "wheel.go",
		old: "		if t.next == nil {\n			w.occupied", new: "		if t.next != nil {\n			w.occupied", test: "TestModel",
	},
}}
