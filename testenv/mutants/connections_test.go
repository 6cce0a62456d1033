// SPDX-License-Identifier: Apache-2.0

package mutants

var connections = area{name: "CM", dir: "rocev2/cm", pure: true, list: []mutant{
	{
		name: "the depths of the peer are exchanged", file: "active.go",
		old: "min(a.MaxRdAtomic, rep.ResponderResources())", new: "min(a.MaxRdAtomic, rep.InitiatorDepth())", test: "TestNegotiation",
	},
	{
		name: "an application that does not answer has no timer", file: "active.go",
		old: "	m.setTimer(c, c.deadline)\n}\n\n// Ready", new: "}\n\n// Ready", test: "TestEveryStateEnds",
	},
	{
		name: "an MRA moves the deadline", file: "active.go",
		old: "m.setTimer(c, min(now+timeoutNs(mra.ServiceTimeout())+c.interval, c.deadline))",
		new: "m.setTimer(c, now+timeoutNs(mra.ServiceTimeout())+c.interval)", test: "TestAttemptsEnd",
	},
	{
		name: "one connection more than allowed", file: "passive.go",
		old: "len(m.conns)-m.answered >= m.cfg.MaxConns", new: "len(m.conns)-m.answered > m.cfg.MaxConns", test: "TestMaxConns",
	},
	{
		name: "a lost RTU is not sent again", file: "active.go",
		old: "	case c.state == StateEstablished && c.active:\n		m.send(c, c.last)\n", new: "	case c.state == StateEstablished && c.active:\n",
		test: "TestLostRTU",
	},
	{
		name: "two connections may have one queue pair of the peer", file: "active.go",
		old: "	if m.byQP[c.qpKey()] != nil {\n		m.fail(", new: "	if false {\n		m.fail(", test: "TestRefusedREP",
	},
}}

var connectionService = area{name: "cmservice", dir: "rocev2/nic/internal/cmservice", pure: true, list: []mutant{
	{
		name: "requests for an application that does not take its events are not dropped", file: "run.go",
		old: "if s.listeners[id].waiting() >= MaxEvents {", new: "if false {", test: "TestSlowSession",
	},
	{
		name: "a session that ended still listens", file: "run.go",
		old: "		if owner == x {\n			s.unlisten(id)\n		}\n", new: "		_, _ = id, owner\n", test: "TestCloseSession",
	},
	{
		name: "a connection that is gone still belongs to its queue pair", file: "run.go",
		old: "	if left := slices.DeleteFunc(s.byQPN[c.qpn], func(x cm.ID) bool { return x == id }); len(left) > 0 {",
		new: "	if left := s.byQPN[c.qpn]; len(left) > 0 {", test: "TestRemove",
	},
	{
		name: "a request is accepted before there is a path to its sender", file: "run.go",
		old: "func() { s.enqueue(m) }) {\n				return\n			}", new: "func() {}) {\n				_ = m\n			}", test: "TestRequestsWaitForTheirPath",
	},
	{
		name: "the connections of a queue pair that was destroyed go on", file: "run.go",
		old: "		case pairDestroyed:\n			_ = s.manager.Disconnect(s.now(), id, nil) // refused where it has ended already\n", new: "", test: "TestDestroyed",
	},
}}

var sealing = area{name: "seal", dir: "rocev2/seal", pure: true, list: []mutant{
	{
		name: "the replay window accepts a packet behind its end", file: "window.go",
		old: "case w.highest-counter >= Window:", new: "case w.highest-counter > Window+wordBits:", test: "TestWindowModel",
	},
	{
		name: "the window clears the word before the new one", file: "window.go",
		old: "w.ring[(from+1+i)%ringWords] = 0", new: "w.ring[(from+i)%ringWords] = 0", test: "TestWindowModel",
	},
	{
		name: "a forged packet moves the replay window", file: "opener.go",
		old: "	a := &o.scratch\n	k.putNonce", new: "	k.window.accept(counter)\n	a := &o.scratch\n	k.putNonce", test: "TestForgedPacketMovesNothing",
	},
	{
		name: "the previous epoch never ends", file: "opener.go",
		old: "if o.previous != nil && now >= o.oldUntil {", new: "if false {", test: "TestOverlap",
	},
	{
		name: "the blocks of the old key count for the new one", file: "sealer.go",
		old: "s.key, s.next, s.counter, s.blocks = k, next, 0, 0", new: "s.key, s.next, s.counter = k, next, 0", test: "TestLowestMaxBlocks",
	},
	{
		name: "new epochs cost the peer nothing", file: "opener.go",
		old: "	o.credit -= keyBlocks\n", new: "", test: "TestKeysCostData",
	},
	{
		name: "a responder takes any suite", file: "handshake.go",
		old: "if c.Suite != 0 && suite != c.Suite {", new: "if false {", test: "TestHandshakeRefused",
	},
}}

var deviceLimits = area{name: "device limits", dir: "loader/device/limits", pure: true, list: []mutant{
	{
		name: "a user that has processes is removed with those that have ended", file: "budget.go",
		old: "u.inUse[Processes] == 0 && ", new: "", test: "TestLiveUserStays",
	},
	{
		name: "a signal waits for what other processes of its user cost", file: "budget.go",
		old: "	return p.budget.spendEngine(now, cost, engineShare, engineSaved, engineBacklog)\n", new: "	return p.SpendEngine(now, cost)\n",
		test: "TestSignalsOfSibling",
	},
	{
		name: "processes of a user are suspended for signals to others", file: "budget.go",
		old: "userEngineSaved, 0)", new: "userEngineSaved, engineBacklog)", test: "TestSignalsOfUser",
	},
	{
		name: "the wait for processes that have ended has no end", file: "budget.go",
		old: "cost*share, saved+backlog)", new: "cost*share, longest)", test: "TestSignalsOfSibling",
	},
}}

var completionRing = area{name: "completion ring", dir: "rocev2/ring", pure: true, list: []mutant{
	{
		name: "two threads signal for one request", file: "completions.go",
		old: "	if r.ring.armed.Swap(0) == 0 {\n		return false\n	}\n", new: "", test: "TestOneSignal",
	},
	{
		name: "a thread that fills the gap in front of an alert does not signal", file: "completions.go",
		old: "if r.alerted.Load() <= first {", new: "if !alert {", test: "TestAlertBehindGap",
	},
	{
		name: "an index of the consumer beyond what was written frees entries", file: "completions.go",
		old: "	if index > r.taken.Load() {\n		return free + r.size\n	}\n", new: "", test: "TestConsumerIndex",
	},
	{
		name: "two threads take the same entries", file: "completions.go",
		old: "if got = min(n, r.limit(taken+n)-taken); r.taken.CompareAndSwap(taken, taken+got) {",
		new: "got = min(n, r.limit(taken+n)-taken); r.taken.Store(taken+got); if true {", test: "TestTakenOnce",
	},
	{
		name: "entries are new in the first pass only", file: "completions.go",
		old: "if i&uint64(r.ring.Len()) == 0 {", new: "if true {", test: "TestGap",
	},
}}

var deviceServer = area{name: "device server", dir: "loader/device", root: true, quick: 1, list: []mutant{
	{
		name: "a queue that has ended gives back the number of another one", file: "rings.go",
		old: "if int(number) >= len(r.queues) || r.queues[number] != q {", new: "if int(number) >= len(r.queues) {", test: "TestQueueNumbers",
	},
	{
		name: "a completion queue that ended still counts", file: "calls_queue.go",
		old: "	c.s.dev.InLoop(func() { q.ended = true })\n	c.account.Release(q.cost...)\n",
		new: "	c.s.dev.InLoop(func() { q.ended = true })\n", test: "TestLimitsAreGivenBack",
	},
	{
		name: "a process may connect the queue pair of another one", file: "cm.go",
		old: "	if _, ok := c.qpns[qpn]; ok {\n		return nil\n	}\n	return fmt.Errorf(\"%w: queue pair %#x\", proto.ErrHandle, qpn)\n",
		new: "	return nil\n", test: "TestForeignConnections",
	},
	{
		name: "a queue pair that was destroyed still belongs to its process", file: "calls_queue.go",
		old: "	delete(c.qpns, q.qp.QPN()) // another process may have the number next\n", new: "", test: "TestDestroyedQueuePair",
	},
	{
		name: "a process that reopens the device is not suspended for others of its user", file: "fairness.go",
		old: "	f.processes = append(f.processes, r)\n	f.charge(r)\n", new: "	f.processes = append(f.processes, r)\n", test: "TestFloodsOfUser",
	},
	{
		name: "any process may set a controlled Q_Key", file: "calls_queue.go",
		old: "	if err := c.process.mayUse(m); err != nil {\n		return err\n	}\n", new: "", test: "TestControlledQKey",
	},
	{
		name: "a listener that was refused still counts", file: "cm.go",
		old: "	if err := x.session.Listen(id, min(backlog, maxBacklog)); err != nil {\n		x.c.account.Release(oneListener)\n",
		new: "	if err := x.session.Listen(id, min(backlog, maxBacklog)); err != nil {\n", test: "TestRefusedCallsDoNotCount",
	},
}}
