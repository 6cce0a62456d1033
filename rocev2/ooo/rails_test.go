// SPDX-License-Identifier: Apache-2.0

package ooo_test

import (
	"os"
	"strconv"
	"testing"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/ooo"
	"github.com/softroce/softroce-xdp/rocev2/qp"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/testenv/wiretest"
)

// onRails makes each link of a world an interface of its own, at both nodes, with ports of these rates.
func onRails(w *world, rates ...int64) *world {
	for _, n := range w.nodes {
		n.Rails = rates
	}
	return w
}

// unequalRails makes a world with links of 100 and 300 Mbit/s, each with interfaces of its own, whose
// ports have these rates.
func unequalRails(seed uint64, n int, ports ...int64) *world {
	return onRails(unequalConfig(seed, 0, n, func(c *ooo.Config) { c.Window, c.Rails = 256, 2 }), ports...)
}

// wireRate is the rate of frames that carried what has completed since a moment.
func (w *world) wireRate(bytes int, from qp.Time) float64 {
	return float64(w.app.Bytes-bytes) / 1024 * frameLen * 8 / (float64(w.app.Last-from) / 1e9)
}

// Two interfaces with links of 100 and 300 Mbit/s carry 0.95 of 400 Mbit/s, paced at the rates of the
// links or not at all. Each link carries what its rate is.
func TestUnequalRails(t *testing.T) {
	for _, ports := range [][]int64{{100e6, 300e6}, {10e9, 10e9}} {
		for seed := range uint64(5) {
			w := unequalRails(seed, 2000, ports...)
			w.run(t)
			rate := w.wireRate(0, 0)
			c, links := &w.nodes[0].Count, w.nodes[0].Links
			t.Logf("ports %d Mbit/s, seed %d: %.1f Mbit/s of frames; %d packets, %d resent, %d spurious, overflow %d and %d; %d and %d packets on the links", ports[0]/1e6, seed,
				rate/1e6, c.SentPackets, c.Resent, c.Spurious, links[0].Overflow, links[1].Overflow, links[0].Sent, links[1].Sent)
			if rate < 0.95*400e6 {
				t.Errorf("ports %d, seed %d: %.1f Mbit/s", ports, seed, rate/1e6)
			}
		}
	}
}

// A response leaves on the interface on which its packet arrived: what each link carries in one direction
// has its answer in the other one.
func TestAnswersOnRail(t *testing.T) {
	w := unequalRails(1, 200, 100e6, 300e6)
	writes := w.app.Next
	w.app.Next = func(i int) (wiretest.OOOMessage, bool) {
		op, ok := writes(i)
		if i%2 != 0 {
			op.Op, op.Notify = verbs.OpRead, false
		}
		return op, ok
	}
	type trip struct {
		psn  rocev2.PSN
		port uint16
	}
	for i := range 2 {
		asked := map[trip]bool{}
		w.nodes[0].Links[i].Tap = func(p *rocev2.Packet) { asked[trip{p.BTH().PSN(), p.SrcPort()}] = true }
		w.nodes[1].Links[i].Tap = func(p *rocev2.Packet) {
			if !asked[trip{p.BTH().PSN(), p.SrcPort()}] {
				t.Errorf("link %d: %s of PSN %d, whose packet has not come there", i, p.Opcode(), p.BTH().PSN())
			}
		}
	}
	w.run(t)
	for i, n := range w.nodes {
		if n.Links[0].Sent == 0 || n.Links[1].Sent == 0 {
			t.Errorf("node %d has sent %d and %d packets", i, n.Links[0].Sent, n.Links[1].Sent)
		}
	}
}

// The memory of a READ goes away: the refusal, too, leaves on the rail of the request.
func TestRefusalOnRail(t *testing.T) {
	e := newEnds(t, 1, func(c *ooo.Config) { c.Rails = 2 })
	if err := e.qps[0].Post(e.request(0, verbs.OpRead)); err != nil {
		t.Fatal(err)
	}
	e.qps[1].ReceiveOn(e.now, 1, sendOn(e.qps[0], e.now, 1), 0)
	e.memory[1].Invalid = true
	if p := sendOn(e.qps[1], e.now, 1); p != nil {
		t.Fatalf("%s of memory that went away", p.Opcode())
	}
	var o ooo.Outbound
	if !e.qps[1].NextAck(&o) || o.Opcode != rocev2.OpONak || o.Rail != 1 {
		t.Errorf("%s leaves on rail %d", o.Opcode, o.Rail)
	}
}

// Rails that are asked in turn each send their READ responses, though there is other data all the time.
func TestReadsOnEachRail(t *testing.T) {
	e := newEnds(t, 64, func(c *ooo.Config) { c.Rails = 2 })
	for side, op := range []verbs.Op{verbs.OpRead, verbs.OpWrite} {
		if err := e.qps[side].Post(e.request(side, op)); err != nil {
			t.Fatal(err)
		}
	}
	for rail := range 2 {
		for range 8 {
			e.qps[1].ReceiveOn(e.now, rail, sendOn(e.qps[0], e.now, rail), 0)
		}
	}
	var sent [2]map[rocev2.Opcode]int
	for range 8 {
		for rail := range sent {
			if sent[rail] == nil {
				sent[rail] = map[rocev2.Opcode]int{}
			}
			sent[rail][sendOn(e.qps[1], e.now, rail).Opcode()]++
		}
	}
	for rail, n := range sent {
		if n[rocev2.OpOReadResp] != 4 || n[rocev2.OpOWrite] != 4 {
			t.Errorf("rail %d has sent %v, want half of each", rail, n)
		}
	}
}

// Both interfaces carry nothing for a while, so that the RTO is doubled several times. When one of them is
// back, the other one is tried after the pause of 16 RTOs that are not doubled.
func TestTrialAfterSilence(t *testing.T) {
	e := newEnds(t, 4096, func(c *ooo.Config) { c.Rails = 2 })
	e.post(t)
	for range 4 {
		e.trip(50 * ooo.Microsecond)
	}
	q, rto := e.qps[0], e.qps[0].RTO()
	for range 10 { // nothing arrives
		send(q, e.now)
		for at := q.Deadline(); at != 0; at = q.Deadline() { // all is found lost
			e.now = at
			q.Expire(e.now)
		}
	}
	doubled := q.RTO() / rto
	back := e.now
	for first := true; first || sendOn(q, e.now, 1) == nil; first = false {
		echo := ooo.EchoUs(rocev2.Stamp{Flags: rocev2.StampT1, T1: uint64(e.now)})
		for p := sendOn(q, e.now, 0); p != nil; p = sendOn(q, e.now, 0) {
			e.qps[1].ReceiveOn(e.now, 0, p, echo)
		}
		if e.now += rto; e.now > back+17*rto {
			t.Fatalf("the RTO was %d-fold, and the second rail is not tried after %d RTOs", doubled, (e.now-back)/rto)
		}
		answers := send(e.qps[1], e.now)
		for i := range answers {
			q.ReceiveOn(e.now, 0, &answers[i], 0)
		}
		q.Expire(e.now)
	}
	if q.Ended() || doubled < 64 {
		t.Errorf("ended: %v; the RTO was %d-fold", q.Ended(), doubled)
	}
}

// One of two interfaces dies in the middle of a message, in both directions. No notification is lost or
// comes twice. Within 3 RTOs each packet that was lost is on the other interface. That one is full from
// then on. When the link is back, both are full.
//
// OOO_SEEDS is for more seeds.
func TestDeadRail(t *testing.T) {
	n := 20
	if s := os.Getenv("OOO_SEEDS"); s != "" {
		n, _ = strconv.Atoi(s)
	}
	for seed := range uint64(n) {
		w := unequalRails(seed, 1500, 100e6, 300e6)
		dead, alive := int(seed%2), int(1-seed%2)
		other := w.nodes[0].Links[alive]
		var died, rto, longest qp.Time
		const back = 300                      // messages after which the link is back
		swallowed := map[rocev2.PSN]qp.Time{} // by the dead link, not yet sent on the other one
		answered := map[rocev2.PSN]bool{}
		lost := 0
		for _, l := range w.nodes[1].Links {
			l.Tap = func(p *rocev2.Packet) { answered[p.BTH().PSN()] = true }
		}
		other.Tap = func(p *rocev2.Packet) {
			if at, ok := swallowed[p.BTH().PSN()]; ok {
				longest = max(longest, w.Now()-at)
				delete(swallowed, p.BTH().PSN())
			}
		}
		down := func() bool { return w.app.Completed >= 50 && w.app.Completed < back }
		w.nodes[1].Links[dead].Drop = func(*rocev2.Packet) bool { return down() }
		w.nodes[0].Links[dead].Drop = func(p *rocev2.Packet) bool {
			if !down() {
				return false
			}
			if died == 0 {
				died, rto = w.Now(), qp.Time(w.app.QP.RTO())
			}
			lost++
			if psn := p.BTH().PSN(); swallowed[psn] == 0 {
				swallowed[psn] = w.Now()
			}
			return true
		}
		var marks [3]struct { // the dead link's share is over, the link is back, both are in use
			bytes int
			at    qp.Time
		}
		w.app.Done = func(int) {
			for i, reached := range []bool{died != 0 && w.Now() > died+3*rto, w.app.Completed >= back, w.app.Completed >= back+600} {
				if reached && marks[i].at == 0 {
					marks[i].bytes, marks[i].at = w.app.Bytes, w.Now()
				}
			}
		}
		w.run(t)
		for psn := range swallowed { // a repetition of a packet that the other link has carried
			if answered[psn] {
				delete(swallowed, psn)
			}
		}
		alone := float64(marks[1].bytes-marks[0].bytes) / 1024 * frameLen * 8 / (float64(marks[1].at-marks[0].at) / 1e9)
		both := w.wireRate(marks[2].bytes, marks[2].at)
		c := &w.nodes[0].Count
		t.Logf("seed %d: link %d died at %d us, %d packets lost, RTO %d us, on the other link after %d us at most (%.1f RTO); %.1f of %d Mbit/s then, %.1f when it was back; %d paths replaced, %d resent",
			seed, dead, died/1000, lost, rto/1000, longest/1000, float64(longest)/float64(rto), alone/1e6, w.nodes[0].Rails[alive]/1e6, both/1e6, c.PathsReplaced, c.Resent)
		if died == 0 || lost == 0 || len(swallowed) != 0 || longest > 3*rto {
			t.Errorf("seed %d: died at %d, %d packets not sent again, recovered after %d, RTO %d", seed, died, len(swallowed), longest, rto)
		}
		if lost > 200 { // trials are rare
			t.Errorf("seed %d: %d packets sent on the dead link", seed, lost)
		}
		if alone < 0.95*float64(w.nodes[0].Rails[alive]) || both < 0.95*400e6 {
			t.Errorf("seed %d: %.1f Mbit/s while the link was dead, %.1f after", seed, alone/1e6, both/1e6)
		}
	}
}
