// SPDX-License-Identifier: Apache-2.0

package ooo_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// mutants are wrong versions of this package, each with the test that must fail. They are tests of
// the tests.
var mutants = []struct {
	name, file, old, new, test string
}{
	{
		"a repeated response counts again, so the count matches early", "snd_response.go",
		"	if k.state == packetAnswered {\n		s.q.cfg.Count.Repeated++\n		return\n	}\n	if k.state == packetInFlight {",
		"	if m := s.messages.get(k.id); k.state == packetAnswered {\n		s.q.cfg.Count.Repeated++\n" +
			"		if m != nil && m.outstanding > 0 {\n			m.outstanding--\n			s.settle(m)\n		}\n		return\n	}\n	if k.state == packetInFlight {",
		"TestMessages",
	},
	{
		"the notification leaves at the first count of zero, with data that is not sent", "snd_suspension.go",
		"	if m.outstanding != 0 || m.status == messageSending || m.status == messageFree {\n		return\n	}\n",
		"	if m.outstanding != 0 || m.status == messageFree {\n		return\n	}\n" +
			"	if m.status == messageSending && m.next > 0 && m.notify {\n		m.status = messageWaiting\n	}\n",
		"TestMessages",
	},
	{
		"a repeated notification is put on its queue again", "rcv_request.go",
		"	if r.notified.has(f.Message) {", "	if false {", "TestMessages",
	},
	{
		"a duplicate is written again", "rcv_request.go",
		"	case class == psnDuplicate:\n	case int", "	case int", "TestMessages",
	},
	{
		"the arrival of a READ request counts as its answer", "snd_response.go",
		"	if k != nil && k.state != packetAnswered && (k.kind == packetWrite || k.kind == packetVoid) {",
		"	if k != nil && k.state != packetAnswered && k.kind != packetNotify {", "TestMessages",
	},
	{
		"the arrival of a notification counts as its acknowledgement", "snd_response.go",
		"	if k != nil && k.state != packetAnswered && (k.kind == packetWrite || k.kind == packetVoid) {",
		"	if k != nil && k.state != packetAnswered && k.kind != packetRead {", "TestFullQueue",
	},
	{
		"a READ response is placed again", "snd_response.go",
		"	if m == nil || k.state == packetAnswered {", "	if m == nil {", "TestMessages",
	},
	{
		"the window of the target opens with OACKs only", "snd_databuffer.go",
		"	b.accept(b.una)\n", "", "TestMessages",
	},
	{
		"a refused packet counts as arrived", "rcv_request.go",
		"	a.op, a.code = rocev2.OpONak, code\n	r.responses.put(r.q.cfg.Count, a)\n}",
		"	a.op, a.code = rocev2.OpONak, code\n	if r.arrivals.classify(a.psn) == psnNew {\n		r.arrivals.add(a.psn)\n	}\n	r.responses.put(r.q.cfg.Count, a)\n}",
		"TestRefusedEnd",
	},
	{
		"the target does not check the key", "rcv_memory.go",
		"	case mem.FaultNone:\n", "	case mem.FaultNone, mem.FaultKey:\n", "TestRefused",
	},
	{
		"a later answer means loss", "snd_loss.go",
		"	slack := max(2*r.variation, r.smoothed/4, s.q.cfg.MinReorder)\n	return r.smoothed + slack*s.loss.tolerance/toleranceUnit\n",
		"	return r.least\n", "TestReorderingIsNotLoss",
	},
	{
		"a path has no window of its own", "paths.go",
		"return p.inFlight < p.window.packets()", "return p.inFlight < 1000", "TestUnequalPaths",
	},
	{
		"a dead path is not replaced", "paths.go",
		"	return p.silent >= silentLosses || p.loss > lossTooHigh && p.loss > 2*s.loss\n", "	return false\n", "TestDeadPath",
	},
	{
		"a new port on a link in use fills the queue of the link", "path_window.go",
		"	case w.least > free:\n", "	case false:\n", "TestDeadPath",
	},
	{
		"responses leave on the first rail", "rcv_response.go", "	o.Rail = int(a.rail)\n	o.BECN", "	o.BECN", "TestAnswersOnRail",
	},
	{
		"READ responses leave on the first rail", "rcv_response.go", "	o.Rail = rail\n", "	_ = rail\n", "TestAnswersOnRail",
	},
	{
		"rails share the turn of READ responses", "qp.go", "	q.turn ^= 1 << rail\n", "	q.turn ^= 1<<MaxRails - 1\n", "TestReadsOnEachRail",
	},
	{
		"a rail that has died is tried without a pause", "rails.go", "	return r.trials > 0 && now < r.trialAt && s.anyGood()\n", "	return r == nil\n", "TestDeadRail",
	},
	{
		"the pause before a trial grows with the RTO", "snd_loss.go", "s.timeout(p)>>s.loss.backoff)", "s.timeout(p))", "TestTrialAfterSilence",
	},
	{
		"a rail that has died stays unused", "paths.go", "		s.rails[p.rail].trials = 0\n", "", "TestDeadRail",
	},
	{
		"packets leave on paths of any rail", "paths.go", "		case int(s.list[at].rail) != rail || !s.list", "		case !s.list", "TestUnequalRails",
	},
	{
		"an OACK of the same path stands for another that it does not contain", "rcv_respqueue.go",
		" && (a.psn&^63 == later.psn&^63 || a.psn.Before(base))", "", "TestOAckPerPath",
	},
	{
		"the OACK of a duplicate is left out", "rcv_request.go",
		"class == psnDuplicate || a.oeth", "a.oeth", "TestOAckPerPath",
	},
	{
		"the OACK of a packet that was overtaken is left out", "rcv_respqueue.go",
		" && later.psn.After(a.psn)", "", "TestOAckPerPath",
	},
	{
		"the OACK of a retransmission is left out", "rcv_request.go",
		" || a.oeth.Flags&rocev2.ORetry != 0", "", "TestOAckOfRetransmission",
	},
	{
		"a packet without an OACK of its own does not count for its path", "snd_response.go",
		"		s.credit(k)\n", "", "TestOAckCountsForPath",
	},
	{
		"the packets that one OACK answers hide a queue", "path_window.go",
		"if w.least == 0 ||", "if w.samples == 0 ||", "TestOAckShowsQueueing",
	},
	{
		"a packet that two OACKs answer counts twice for its path", "snd_loss.go",
		"p != nil && !k.credited {", "p != nil {", "TestOAckCountsOnce",
	},
	{
		"the packets of a moment take different paths", "paths.go",
		"r.burstLeft > 0 &&", "false &&", "TestOAckPerPath",
	},
	{
		"the base RTT of a path never rises", "path_window.go",
		"	if w.high++; w.high < highRounds {\n", "	if w.high >= 0 {\n", "TestLongerRoute",
	},
	{
		"the last packets of a message are not probed", "snd_probe.go",
		"	return m == nil || s.packets.stalled()\n", "	return m != nil && s.packets.stalled()\n", "TestTailLoss",
	},
	{
		"a packet that keeps the window closed is not probed", "snd_probe.go",
		"	return m == nil || s.packets.stalled()\n", "	return m == nil\n", "TestStalledWindow",
	},
	{
		"probes are not limited", "snd_probe.go",
		"			s.loss.credit -= probeCost\n", "", "TestProbeShare",
	},
	{
		"a source with data to send probes", "snd_grouping.go",
		"	m, kind := s.nextMessage()\n	if m == nil ||", "	m, kind := s.nextMessage()\n	s.loss.credit = probeCost\n	s.findSuspects(now)\n	if s.probe(now, rail, o) {\n		return true\n	}\n	if m == nil ||", "TestProbeShare",
	},
	{
		"an answer to a probe says nothing of the path before", "snd_probe.go",
		"k.before >= p.newest && s.paths.lost(p, true) {", "false {", "TestProbesReplacePath",
	},
	{
		"reordering that is over is tolerated for ever", "snd_loss.go",
		"l.tolerance = max(l.tolerance-toleranceStep/spuriousShare, toleranceMin)", "_ = toleranceMin", "TestReorderingEnds",
	},
	{
		"spurious losses change nothing", "snd_loss.go",
		"l.tolerance = min(l.tolerance+toleranceStep, toleranceMax)", "_ = toleranceMax", "TestReorderingIsNotLoss",
	},
	{
		"message ids do not wrap", "idwindow.go",
		"	d := int32(id - w.next)\n	return d < 0", "	d := int64(id) - int64(w.next)\n	return d < 0", "TestWrap",
	},
	{
		"an OWRITE may be longer than agreed", "rcv_request.go",
		" || len(data) > r.q.cfg.Payload:", ":", "TestPayloadTooLong",
	},
	{
		"the response to an OREAD_REQ may be longer than agreed", "rcv_request.go",
		"if a.oeth.Length > uint32(r.q.cfg.Payload) {", "if false {", "TestPayloadTooLong",
	},
	{
		"the largest payload leaves no room for the stamp", "config.go",
		"-rocev2.StampLen)", ")", "TestPayloadForMTU",
	},
	{
		"packets have the PMTU, whatever the payload is", "snd_suspension.go",
		"mtu: uint32(s.q.cfg.Payload)", "mtu: uint32(s.q.cfg.PMTU.Bytes())", "TestPayload",
	},
	{
		"the window of arrivals forgets where its first word ends", "psnwindow.go",
		"		arrived |= below\n", "		_ = below\n", "TestPSNWindow",
	},
	{
		"the window of message ids is too short", "idwindow.go",
		"const idWindowSize = 2 * MaxMessages", "const idWindowSize = MaxMessages / 2", "TestIDWindow",
	},
	{
		"the target takes packets in order only", "psnwindow.go",
		"	case d >= w.size():\n		return psnBeyond", "	case d > 0:\n		return psnBeyond", "TestPermutations",
	},
	{
		"limits are not checked", "config.go",
		"if l.value < l.min || l.value > l.max {", "if false {", "TestConfig",
	},
	{
		"local memory is not checked", "snd_suspension.go",
		"r.Local.Addr, r.Local.Len, need) != 0 {", "r.Local.Addr, 0, need) != 0 {", "TestPostErrors",
	},
	{
		"memory that went away is sent as zeros", "snd_memory.go",
		"	k, m := s.packets.get(o.data.psn), s.messages.get(o.data.id)\n",
		"	k, m := s.packets.get(o.data.psn), s.messages.get(o.data.id)\n	if k != nil {\n		return true\n	}\n", "TestLocalMemoryGone",
	},
	{
		"memory that went away is read as zeros", "rcv_memory.go",
		"	r.refuse(answer{psn: o.data.psn, message: o.data.id, port: o.SrcPort, rail: uint8(o.Rail)}, code)\n	return false\n", "	return true\n", "TestTargetMemoryGone",
	},
	{
		"the index of a READ response is believed", "snd_response.go",
		"	_, n := m.offset(k.index)\n", "	k.index = f.Index\n	_, n := m.offset(k.index)\n", "TestHostileReadResponse",
	},
	{
		"Close completes nothing", "qp.go", "	q.snd.flush(first)\n", "", "TestClose",
	},
	{
		"a queue number is given twice", "rcv_queues.go", "	if s.byNumber[number] != nil {", "	if false {", "TestQueues",
	},
	{
		"the limit of transmissions is ignored", "snd_loss.go", "max(int(k.tries), s.loss.silences) >= s.q.cfg.Tries", "int(k.tries) >= 255", "TestNoAnswer",
	},
	{
		"queue pairs share the window of message ids", "rcv_request.go",
		"	notified  idWindow\n	responses responseQueue\n}\n\nfunc (r *receiver) init(q *QP) {\n	r.q = q\n",
		"	notified  *idWindow\n	responses responseQueue\n}\n\nvar sharedIDs idWindow\n\nfunc (r *receiver) init(q *QP) {\n	r.q, r.notified = q, &sharedIDs\n", "TestTwoQueuePairs",
	},
}

// TestMutants builds each mutant and runs its test, which must fail.
func TestMutants(t *testing.T) {
	if os.Getenv("OOO_MESSAGES") != "" {
		t.Skip("this is a mutant")
	}
	if testing.Short() {
		t.Skip("builds a test binary for each mutant")
	}
	dir, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range mutants {
		t.Run(strings.ReplaceAll(m.name, " ", "_"), func(t *testing.T) { runMutant(t, dir, m.file, m.old, m.new, m.test) })
	}
}

func runMutant(t *testing.T, dir, file, old, replacement, test string) {
	path := filepath.Join(dir, file)
	source, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(source), old); n != 1 {
		t.Fatalf("%s has the text to replace %d times: adapt the mutant", file, n)
	}
	mutated := filepath.Join(t.TempDir(), file)
	if err := os.WriteFile(mutated, []byte(strings.Replace(string(source), old, replacement, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{path: mutated}})
	if err != nil {
		t.Fatal(err)
	}
	overlayFile := filepath.Join(t.TempDir(), "overlay.json")
	if err := os.WriteFile(overlayFile, overlay, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", "test", "-count=1", "-vet=off", "-overlay", overlayFile, "-run", "^"+test+"$", ".")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "OOO_MESSAGES=4000")
	out, err := cmd.CombinedOutput()
	switch {
	case err == nil:
		t.Errorf("%s does not fail", test)
	case !strings.Contains(string(out), "--- FAIL: "+test):
		t.Fatalf("the mutant was not tested: %v\n%s", err, out)
	}
	t.Logf("%.400s", out)
}
