// SPDX-License-Identifier: Apache-2.0

package ooo_test

import (
	"os"
	"strconv"
	"testing"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/ooo"
	"github.com/softroce/softroce-xdp/rocev2/qp"
	"github.com/softroce/softroce-xdp/testenv/wiretest"
)

// unequal makes a world with links of 100 and 300 Mbit/s and a base RTT of 1 ms.
func unequal(seed uint64, port int64, window, n int) *world {
	return unequalConfig(seed, port, n, func(c *ooo.Config) { c.Window = window })
}

// unequalConfig is unequal with a configuration that is changed.
func unequalConfig(seed uint64, port int64, n int, change func(*ooo.Config)) *world {
	ops := make([]wiretest.OOOMessage, n)
	for i := range ops {
		ops[i] = write(32 << 10)
	}
	cfg := config()
	change(&cfg)
	cfg.MinRTO = ooo.Millisecond
	cfg.InitialRTO = 10 * ooo.Millisecond
	w := newWorld(seed, cfg, 2, 16, ops)
	for i, rate := range []int64{100e6, 300e6} {
		for side, node := range w.nodes {
			l := node.Links[i]
			l.Delay = 500 * wiretest.Microsecond
			if side == 0 {
				l.Rate, l.Queue = rate, 4*wiretest.Millisecond
			}
		}
		w.nodes[i].Rate = port
	}
	return w
}

// frameLen is the length of an OWRITE with a payload of 1024 bytes on the wire: Ethernet with
// preamble and gap, IPv4, UDP, BTH, OETH, payload, ICRC, stamp.
const frameLen = 38 + 20 + 8 + 12 + 24 + 1024 + 4 + 40

// Two links of 100 and 300 Mbit/s carry 0.95 of 400 Mbit/s, paced at their sum or not at all.
func TestUnequalPaths(t *testing.T) {
	for _, port := range []int64{400e6, 10e9} {
		for seed := range uint64(5) {
			w := unequal(seed, port, 256, 2000)
			w.run(t)
			rate := float64(w.app.Bytes) / 1024 * frameLen * 8 / (float64(w.app.Last) / 1e9)
			c := &w.nodes[0].Count
			t.Logf("port %d Mbit/s, seed %d: %.1f Mbit/s of frames (%.1f of payload); %d packets, %d resent, %d spurious, overflow %d and %d", port/1e6, seed,
				rate/1e6, rate/1e6*1024/frameLen, c.SentPackets, c.Resent, c.Spurious, w.nodes[0].Links[0].Overflow, w.nodes[0].Links[1].Overflow)
			if rate < 0.95*400e6 {
				t.Errorf("port %d Mbit/s, seed %d: %.1f Mbit/s", port/1e6, seed, rate/1e6)
			}
		}
	}
}

// One of two links dies in the middle of a message. No notification is lost or comes twice. Within
// 3 RTOs each packet that was lost is on the other link, and from then on that link is full. That
// also holds for the packets that try later whether the dead link is back.
//
// The seeds in the list are those of the first 1000 that once took longer, most of them as a new port
// on the link in use filled its queue, so that 100 retransmissions delayed each other. In seed 126 an
// old packet kept the window closed. OOO_SEEDS is for more seeds.
func TestDeadPath(t *testing.T) {
	seeds := []uint64{43, 84, 126, 131, 157, 289, 457, 702, 719}
	n := 20
	if s := os.Getenv("OOO_SEEDS"); s != "" {
		n, _ = strconv.Atoi(s)
	}
	for seed := range uint64(n) {
		seeds = append(seeds, seed)
	}
	for _, seed := range seeds {
		w := unequal(seed, 400e6, 256, 300)
		var died, rto, longest qp.Time
		var lost int
		swallowed := map[rocev2.PSN]qp.Time{} // by the dead link, not yet sent on the other one
		link, other := w.nodes[0].Links[seed%2], w.nodes[0].Links[1-seed%2]
		answered := map[rocev2.PSN]bool{} // a copy of the packet has arrived
		for _, l := range w.nodes[1].Links {
			l.Tap = func(p *rocev2.Packet) { answered[p.BTH().PSN()] = true }
		}
		other.Tap = func(p *rocev2.Packet) {
			if at, ok := swallowed[p.BTH().PSN()]; ok {
				longest = max(longest, w.Now()-at)
				delete(swallowed, p.BTH().PSN())
			}
		}
		link.Drop = func(p *rocev2.Packet) bool {
			if w.app.Completed < 50 {
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
		var bytes int
		var from qp.Time
		w.app.Done = func(int) {
			if from == 0 && died != 0 && w.Now() > died+3*rto {
				from, bytes = w.Now(), w.app.Bytes
			}
		}
		w.run(t)
		for psn := range swallowed { // a repetition of a packet that the other link has carried
			if answered[psn] {
				delete(swallowed, psn)
			}
		}
		c := &w.nodes[0].Count
		after := float64(w.app.Bytes-bytes) / 1024 * frameLen * 8 / (float64(w.app.Last-from) / 1e9)
		t.Logf("seed %d: died at %d us, %d packets lost, RTO %d us, on the other link after %d us at most; %.1f of %d Mbit/s; %d paths replaced, %d resent",
			seed, died/1000, lost, rto/1000, longest/1000, after/1e6, other.Rate/1e6, c.PathsReplaced, c.Resent)
		if died == 0 || lost == 0 || len(swallowed) != 0 || longest > 3*rto {
			t.Errorf("seed %d: died at %d, %d packets not sent again, recovered after %d, RTO %d", seed, died, len(swallowed), longest, rto)
		}
		if lost > 300 { // its ports are replaced, and new ones are tried with one packet
			t.Errorf("seed %d: %d packets sent on the dead link", seed, lost)
		}
		if after < 0.9*float64(other.Rate) {
			t.Errorf("seed %d: %.1f Mbit/s", seed, after/1e6)
		}
	}
}

// Reordering does not look like loss: without loss almost nothing is sent again, whatever the share
// of packets that others overtake.
func TestReorderingIsNotLoss(t *testing.T) {
	for _, share := range []float64{0.1, 0.5, 1} {
		for _, noStamp := range []bool{false, true} {
			ops := make([]wiretest.OOOMessage, 1000)
			for i := range ops {
				ops[i] = write(16 << 10)
			}
			cfg := config()
			cfg.Paths, cfg.MinRTO = 1, 20*ooo.Millisecond
			w := newWorld(3, cfg, 1, 16, ops)
			w.faults(wiretest.Faults{Reorder: share, ReorderBy: 50 * wiretest.Microsecond})
			w.nodes[0].NoStamp, w.nodes[1].NoStamp = noStamp, noStamp
			w.run(t)
			c := &w.nodes[0].Count
			t.Logf("%.0f %% reordered, no stamps %v: %d packets, %d sent again", 100*share, noStamp, c.SentPackets, c.Resent)
			if c.Resent > c.SentPackets/100 {
				t.Errorf("%.0f %% reordered, no stamps %v: %d of %d packets sent again", 100*share, noStamp, c.Resent, c.SentPackets)
			}
		}
	}
}

// The route of the only path becomes five times as long. Its RTT is no queue, so the link is full again soon.
func TestLongerRoute(t *testing.T) {
	const before, after = 500, 1500
	ops := make([]wiretest.OOOMessage, before+after)
	for i := range ops {
		ops[i] = write(32 << 10)
	}
	cfg := config()
	cfg.Paths, cfg.MinRTO = 1, 20*ooo.Millisecond
	w := newWorld(3, cfg, 1, 16, ops)
	const rate = 1e9
	w.nodes[0].Rate = rate
	for _, n := range w.nodes {
		n.Links[0].Delay = 100 * wiretest.Microsecond
	}
	var from qp.Time
	w.app.Done = func(int) {
		switch w.app.Completed {
		case before:
			for _, n := range w.nodes {
				n.Links[0].Delay = 500 * wiretest.Microsecond
			}
		case before + after/3:
			from = w.Now()
		}
	}
	w.run(t)
	share := float64(after-after/3) * 32 * frameLen * 8 / (float64(w.app.Last-from) / 1e9) / rate
	t.Logf("%.2f of the link, RTT %d us; %+v", share, w.app.QP.RTT()/1000, w.nodes[0].Count)
	if share < 0.9 {
		t.Errorf("%.2f of the link is used on the longer route", share)
	}
}
