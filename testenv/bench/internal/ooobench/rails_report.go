// SPDX-License-Identifier: Apache-2.0

package ooobench

import (
	"slices"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/testenv/bench/internal/compare"
)

// Goals of out-of-order mode on several interfaces.
const (
	leastShare = 0.95 // of the sum of the rates
	mostRTOs   = 3    // without a notification, when an interface dies
)

// carrier is what a host sends, in Mbit/s.
type carrier struct {
	frames  [2]float64 // rate of L2 frames, without FCS and stamp, by each interface
	payload float64    // payload that consumers at the target were notified of
}

func (c *carrier) sum() float64 { return c.frames[0] + c.frames[1] }

// shares is the measurement with a number of queue pairs.
type shares struct {
	pairs  int
	both   carrier
	alone  [2]carrier // figures of each interface while the other one is dead
	resent uint64     // packets, while both are in use
}

// deaths is the measurement of an interface that has died several times. Times are in ms.
type deaths struct {
	rto     []float64 // RTOs at the time of the death
	gap     []float64 // the longest time without a notification
	slowest []float64 // the longest time that a message took

	resent           []float64 // packets
	posted, notified int
}

// ratio is the largest of some times, in RTOs.
func (d *deaths) ratio(of []float64) (most float64) {
	for i := range of {
		most = max(most, of[i]/d.rto[i])
	}
	return most
}

type results struct {
	shares []shares
	deaths [2]deaths
}

// payloadShare is what headers leave of the frames of a message, its ONOTIFY included.
func payloadShare(size int) float64 {
	const headers = 14 + 20 + 8 + rocev2.BTHLen + rocev2.OETHLen + rocev2.ICRCLen
	const notify = 14 + 20 + 8 + rocev2.BTHLen + rocev2.ONotifyLen + rocev2.ICRCLen
	packets := (size + PMTU.Bytes() - 1) / PMTU.Bytes()
	return float64(size) / float64(size+packets*headers+notify)
}

// goals compares the figures. Those of deaths are the worst of all.
func (r *results) goals(c railsConfig) (list compare.Goals) {
	sum := c.rates[0] + c.rates[1]
	for i := range r.shares {
		s := &r.shares[i]
		got, most := s.both.sum(), sum*payloadShare(c.size)
		list.Expect(got >= leastShare*sum, "%d queue pairs: %.1f Mbit/s of frames, want %.2f of %g", s.pairs, got, leastShare, sum)
		list.Expect(s.both.payload >= leastShare*most, "%d queue pairs: %.1f Mbit/s of payload, want %.2f of %.1f", s.pairs, s.both.payload, leastShare, most)
	}
	for rail := range r.deaths {
		d := &r.deaths[rail]
		list.Expect(d.posted == d.notified, "interface %d dies: %d messages posted, %d notifications", rail, d.posted, d.notified)
		if len(d.rto) == 0 {
			continue
		}
		gap, slowest := d.ratio(d.gap), d.ratio(d.slowest)
		list.Expect(gap <= mostRTOs, "interface %d dies: %.2f RTOs without a notification, want %d", rail, gap, mostRTOs)
		list.Expect(slowest <= mostRTOs, "interface %d dies: a message takes %.2f RTOs, want %d", rail, slowest, mostRTOs)
		list.Expect(slices.Min(d.resent) > 0, "interface %d dies: once no packet was sent again, so none was in flight", rail)
	}
	return list
}

func (r *results) report(out *compare.Report, c railsConfig) {
	sum := c.rates[0] + c.rates[1]
	out.Print("Two hosts on one machine with interfaces of %g and %g Mbit/s, messages of %d bytes, PMTU %d.\n", c.rates[0], c.rates[1], c.size, PMTU.Bytes())
	out.Print("%d messages of each queue pair outstanding, runs of %s. Mbit/s; frames without FCS and stamp, as the pacer counts them.\n", c.outstanding, c.each)
	out.Print("The headers leave %.1f of %g Mbit/s for payload. Alone: while the other interface is dead.\n\n", sum*payloadShare(c.size), sum)
	out.Print("%-11s | %-31s | %-15s | %-15s | %s\n", "queue pairs", "frames: first second   sum share", "payload   share", "alone: frames  ", "resent")
	for i := range r.shares {
		s := &r.shares[i]
		out.Print("%11d | %13.1f %6.1f %5.1f %5.3f | %7.1f   %5.3f | %7.1f %7.1f | %d\n", s.pairs, s.both.frames[0], s.both.frames[1], s.both.sum(), s.both.sum()/sum,
			s.both.payload, s.both.payload/(sum*payloadShare(c.size)), s.alone[0].frames[0], s.alone[1].frames[1], s.resent)
	}
	if c.deaths > 0 {
		out.Print("\nAn interface dies for %s, with %d messages of one queue pair in flight at all times, and comes back. The most of %d times.\n", c.dead, dyingOutstanding, c.deaths)
		out.Print("Until a notification: the longest time between two of them. Of a message: the longest time that one took.\n\n")
		out.Print("%-9s | %-6s | %-21s | %-15s | %-6s | %s\n", "interface", "RTO ms", "until a notification", "of a message", "resent", "messages, notifications")
		for rail := range r.deaths {
			d := &r.deaths[rail]
			out.Print("%9d | %6.1f | %7.1f ms %6.2f RTO | %4.1f ms %.2f RTO | %6.0f | %d %d\n", rail, compare.Series(d.rto).Median(),
				slices.Max(d.gap), d.ratio(d.gap), slices.Max(d.slowest), d.ratio(d.slowest), slices.Max(d.resent), d.posted, d.notified)
		}
	}
	out.Print("\n")
	out.Goals(r.goals(c).Unmet())
}
