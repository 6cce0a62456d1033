// SPDX-License-Identifier: Apache-2.0

package mutants

var outOfOrder = area{name: "out-of-order mode", dir: "rocev2/ooo", pure: true, env: "OOO_MESSAGES=4000", list: []mutant{
	{
		name: "a repeated response counts again, so the count matches early", file: "snd_response.go",
		old: "	if k.state == packetAnswered {\n		s.q.cfg.Count.Repeated++\n		return\n	}\n	if k.state == packetInFlight {",
		new: "	if m := s.messages.get(k.id); k.state == packetAnswered {\n		s.q.cfg.Count.Repeated++\n" +
			"		if m != nil && m.outstanding > 0 {\n			m.outstanding--\n			s.settle(m)\n		}\n		return\n	}\n	if k.state == packetInFlight {",
		test: "TestMessages",
	},
	{
		name: "the notification leaves at the first count of zero, with data that is not sent", file: "snd_suspension.go",
		old: "	if m.outstanding != 0 || m.status == messageSending || m.status == messageFree {\n		return\n	}\n",
		new: "	if m.outstanding != 0 || m.status == messageFree {\n		return\n	}\n" +
			"	if m.status == messageSending && m.next > 0 && m.notify {\n		m.status = messageWaiting\n	}\n",
		test: "TestMessages",
	},
	{
		name: "a repeated notification is put on its queue again", file: "rcv_request.go",
		old: "	if r.notified.has(f.Message) {", new: "	if false {", test: "TestMessages",
	},
	{
		name: "a duplicate is written again", file: "rcv_request.go",
		old: "	case class == psnDuplicate:\n	case int", new: "	case int", test: "TestMessages",
	},
	{
		name: "the arrival of a READ request counts as its answer", file: "snd_response.go",
		old:  "	if k != nil && k.state != packetAnswered && (k.kind == packetWrite || k.kind == packetVoid) {",
		new:  "	if k != nil && k.state != packetAnswered && k.kind != packetNotify {",
		test: "TestMessages",
	},
	{
		name: "the arrival of a notification counts as its acknowledgement", file: "snd_response.go",
		old:  "	if k != nil && k.state != packetAnswered && (k.kind == packetWrite || k.kind == packetVoid) {",
		new:  "	if k != nil && k.state != packetAnswered && k.kind != packetRead {",
		test: "TestFullQueue",
	},
	{
		name: "a READ response is placed again", file: "snd_response.go",
		old: "	if m == nil || k.state == packetAnswered {", new: "	if m == nil {", test: "TestMessages",
	},
	{
		name: "the window of the target opens with OACKs only", file: "snd_databuffer.go",
		old: "	b.accept(b.una)\n", new: "", test: "TestMessages",
	},
	{
		name: "a refused packet counts as arrived", file: "rcv_request.go",
		old:  "	a.op, a.code = rocev2.OpONak, code\n	r.responses.put(r.q.cfg.Count, a)\n}",
		new:  "	a.op, a.code = rocev2.OpONak, code\n	if r.arrivals.classify(a.psn) == psnNew {\n		r.arrivals.add(a.psn)\n	}\n	r.responses.put(r.q.cfg.Count, a)\n}",
		test: "TestRefusedEnd",
	},
	{
		name: "the target does not check the key", file: "rcv_memory.go",
		old: "	case mem.FaultNone:\n", new: "	case mem.FaultNone, mem.FaultKey:\n", test: "TestRefused",
	},
	{
		name: "a later answer means loss", file: "snd_loss.go",
		old:  "	slack := max(2*r.variation, r.smoothed/4, s.q.cfg.MinReorder)\n	return r.smoothed + slack*s.loss.tolerance/toleranceUnit\n",
		new:  "	return r.least\n",
		test: "TestReorderingIsNotLoss",
	},
	{
		name: "a path has no window of its own", file: "paths.go",
		old: "return p.inFlight < p.window.packets()", new: "return p.inFlight < 1000", test: "TestUnequalPaths",
	},
	{
		name: "a dead path is not replaced", file: "paths.go",
		old: "	return p.silent >= silentLosses || p.loss > lossTooHigh && p.loss > 2*s.loss\n", new: "	return false\n",
		test: "TestDeadPath",
	},
	{
		name: "a new port on a link in use fills the queue of the link", file: "path_window.go",
		old: "	case w.least > free:\n", new: "	case false:\n", test: "TestDeadPath",
	},
	{
		name: "responses leave on the first rail", file: "rcv_response.go",
		old: "	o.Rail = int(a.rail)\n	o.BECN", new: "	o.BECN", test: "TestAnswersOnRail",
	},
	{
		name: "READ responses leave on the first rail", file: "rcv_response.go",
		old: "	o.Rail = rail\n", new: "	_ = rail\n", test: "TestAnswersOnRail",
	},
	{
		name: "rails share the turn of READ responses", file: "qp.go",
		old: "	q.turn ^= 1 << rail\n", new: "	q.turn ^= 1<<MaxRails - 1\n", test: "TestReadsOnEachRail",
	},
	{
		name: "a rail that has died is tried without a pause", file: "rails.go",
		old: "	return r.trials > 0 && now < r.trialAt && s.anyGood()\n", new: "	return r == nil\n", test: "TestDeadRail",
	},
	{
		name: "the pause before a trial grows with the RTO", file: "snd_loss.go",
		old: "s.timeout(p)>>s.loss.backoff)", new: "s.timeout(p))", test: "TestTrialAfterSilence",
	},
	{
		name: "a rail that has died stays unused", file: "paths.go",
		old: "		s.rails[p.rail].trials = 0\n", new: "", test: "TestDeadRail",
	},
	{
		name: "packets leave on paths of any rail", file: "paths.go",
		old: "		case int(s.list[at].rail) != rail || !s.list", new: "		case !s.list", test: "TestUnequalRails",
	},
	{
		name: "an OACK of the same path stands for another that it does not contain", file: "rcv_respqueue.go",
		old: " && (a.psn&^63 == later.psn&^63 || a.psn.Before(base))", new: "", test: "TestOAckPerPath",
	},
	{
		name: "the OACK of a duplicate is left out", file: "rcv_request.go",
		old: "class == psnDuplicate || a.oeth", new: "a.oeth", test: "TestOAckPerPath",
	},
	{
		name: "the OACK of a packet that was overtaken is left out", file: "rcv_respqueue.go",
		old: " && later.psn.After(a.psn)", new: "", test: "TestOAckPerPath",
	},
	{
		name: "the OACK of a retransmission is left out", file: "rcv_request.go",
		old: " || a.oeth.Flags&rocev2.ORetry != 0", new: "", test: "TestOAckOfRetransmission",
	},
	{
		name: "a packet without an OACK of its own does not count for its path", file: "snd_response.go",
		old: "		s.credit(k)\n", new: "", test: "TestOAckCountsForPath",
	},
	{
		name: "the packets that one OACK answers hide a queue", file: "path_window.go",
		old: "if w.least == 0 ||", new: "if w.samples == 0 ||", test: "TestOAckShowsQueueing",
	},
	{
		name: "a packet that two OACKs answer counts twice for its path", file: "snd_loss.go",
		old: "p != nil && !k.credited {", new: "p != nil {", test: "TestOAckCountsOnce",
	},
	{
		name: "the packets of a moment take different paths", file: "paths.go",
		old: "r.burstLeft > 0 &&", new: "false &&", test: "TestOAckPerPath",
	},
	{
		name: "the base RTT of a path never rises", file: "path_window.go",
		old: "	if w.high++; w.high < highRounds {\n", new: "	if w.high >= 0 {\n", test: "TestLongerRoute",
	},
	{
		name: "the last packets of a message are not probed", file: "snd_probe.go",
		old: "	return m == nil || s.packets.stalled()\n", new: "	return m != nil && s.packets.stalled()\n", test: "TestTailLoss",
	},
	{
		name: "a packet that keeps the window closed is not probed", file: "snd_probe.go",
		old: "	return m == nil || s.packets.stalled()\n", new: "	return m == nil\n", test: "TestStalledWindow",
	},
	{
		name: "probes are not limited", file: "snd_probe.go",
		old: "			s.loss.credit -= probeCost\n", new: "", test: "TestProbeShare",
	},
	{
		name: "a source with data to send probes", file: "snd_grouping.go",
		old:  "	m, kind := s.nextMessage()\n	if m == nil ||",
		new:  "	m, kind := s.nextMessage()\n	s.loss.credit = probeCost\n	s.findSuspects(now)\n	if s.probe(now, rail, o) {\n		return true\n	}\n	if m == nil ||",
		test: "TestProbeShare",
	},
	{
		name: "an answer to a probe says nothing of the path before", file: "snd_probe.go",
		old: "k.before >= p.newest && s.paths.lost(p, true) {", new: "false {", test: "TestProbesReplacePath",
	},
	{
		name: "reordering that is over is tolerated for ever", file: "snd_loss.go",
		old: "l.tolerance = max(l.tolerance-toleranceStep/spuriousShare, toleranceMin)", new: "_ = toleranceMin",
		test: "TestReorderingEnds",
	},
	{
		name: "spurious losses change nothing", file: "snd_loss.go",
		old: "l.tolerance = min(l.tolerance+toleranceStep, toleranceMax)", new: "_ = toleranceMax", test: "TestReorderingIsNotLoss",
	},
	{
		name: "message ids do not wrap", file: "idwindow.go",
		old: "	d := int32(id - w.next)\n	return d < 0", new: "	d := int64(id) - int64(w.next)\n	return d < 0", test: "TestWrap",
	},
	{
		name: "an OWRITE may be longer than agreed", file: "rcv_request.go",
		old: " || len(data) > r.q.cfg.Payload:", new: ":", test: "TestPayloadTooLong",
	},
	{
		name: "the response to an OREAD_REQ may be longer than agreed", file: "rcv_request.go",
		old: "if a.oeth.Length > uint32(r.q.cfg.Payload) {", new: "if false {", test: "TestPayloadTooLong",
	},
	{
		name: "the largest payload leaves no room for the stamp", file: "config.go",
		old: "-rocev2.StampLen)", new: ")", test: "TestPayloadForMTU",
	},
	{
		name: "packets have the PMTU, whatever the payload is", file: "snd_suspension.go",
		old: "mtu: uint32(s.q.cfg.Payload)", new: "mtu: uint32(s.q.cfg.PMTU.Bytes())", test: "TestPayload",
	},
	{
		name: "the window of arrivals forgets where its first word ends", file: "psnwindow.go",
		old: "		arrived |= below\n", new: "		_ = below\n", test: "TestPSNWindow",
	},
	{
		name: "the window of message ids is too short", file: "idwindow.go",
		old: "const idWindowSize = 2 * MaxMessages", new: "const idWindowSize = MaxMessages / 2", test: "TestIDWindow",
	},
	{
		name: "the target takes packets in order only", file: "psnwindow.go",
		old: "	case d >= w.size():\n		return psnBeyond", new: "	case d > 0:\n		return psnBeyond", test: "TestPermutations",
	},
	{
		name: "limits are not checked", file: "config.go",
		old: "if l.value < l.min || l.value > l.max {", new: "if false {", test: "TestConfig",
	},
	{
		name: "local memory is not checked", file: "snd_suspension.go",
		old: "r.Local.Addr, r.Local.Len, need) != 0 {", new: "r.Local.Addr, 0, need) != 0 {", test: "TestPostErrors",
	},
	{
		name: "memory that went away is sent as zeros", file: "snd_memory.go",
		old:  "	k, m := s.packets.get(o.data.psn), s.messages.get(o.data.id)\n",
		new:  "	k, m := s.packets.get(o.data.psn), s.messages.get(o.data.id)\n	if k != nil {\n		return true\n	}\n",
		test: "TestLocalMemoryGone",
	},
	{
		name: "memory that went away is read as zeros", file: "rcv_memory.go",
		old:  "	r.refuse(answer{psn: o.data.psn, message: o.data.id, port: o.SrcPort, rail: uint8(o.Rail)}, code)\n	return false\n",
		new:  "	return true\n",
		test: "TestTargetMemoryGone",
	},
	{
		name: "the index of a READ response is believed", file: "snd_response.go",
		old: "	_, n := m.offset(k.index)\n", new: "	k.index = f.Index\n	_, n := m.offset(k.index)\n", test: "TestHostileReadResponse",
	},
	{
		name: "Close completes nothing", file: "qp.go",
		old: "	q.snd.flush(first)\n", new: "", test: "TestClose",
	},
	{
		name: "a queue number is given twice", file: "rcv_queues.go",
		old: "	if s.byNumber[number] != nil {", new: "	if false {", test: "TestQueues",
	},
	{
		name: "the limit of transmissions is ignored", file: "snd_loss.go",
		old: "max(int(k.tries), s.loss.silences) >= s.q.cfg.Tries", new: "int(k.tries) >= 255", test: "TestNoAnswer",
	},
	{
		name: "queue pairs share the window of message ids", file: "rcv_request.go",
		old:  "	notified  idWindow\n	responses responseQueue\n}\n\nfunc (r *receiver) init(q *QP) {\n	r.q = q\n",
		new:  "	notified  *idWindow\n	responses responseQueue\n}\n\nvar sharedIDs idWindow\n\nfunc (r *receiver) init(q *QP) {\n	r.q, r.notified = q, &sharedIDs\n",
		test: "TestTwoQueuePairs",
	},
}}
