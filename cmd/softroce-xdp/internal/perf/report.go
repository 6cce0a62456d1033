// SPDX-License-Identifier: Apache-2.0

package perf

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/softroce/softroce-xdp/cmd/internal/cli"
)

// Result is what a run measured.
type Result struct {
	Plan      Plan              `json:"plan"`
	Interface string            `json:"interface"`
	Local     string            `json:"local"`
	Peer      string            `json:"peer"`
	PMTU      int               `json:"path_mtu"`
	Seconds   float64           `json:"seconds"`
	Messages  uint64            `json:"messages"`
	Bytes     uint64            `json:"bytes"`
	Bps       uint64            `json:"bits_per_second"`
	PerSecond float64           `json:"messages_per_second"`
	Sent      uint64            `json:"sent"`               // messages with those of the warm-up and after the end
	Received  uint64            `json:"received"`           // messages of Sent that arrived; fewer only with UC and UD
	Answered  bool              `json:"answered"`           // the peer has sent Received and PeerCount
	GivenUp   int               `json:"given_up,omitempty"` // messages outstanding when the run was interrupted
	Checked   bool              `json:"data_checked,omitempty"`
	Limits    map[string]uint64 `json:"send_limits,omitempty"` // samples of what kept the queue pairs here from sending
	Latency   *Latency          `json:"latency,omitempty"`
	Counters  map[string]uint64 `json:"counters"`      // counters of this host, that moved
	PeerCount map[string]uint64 `json:"peer_counters"` // counters of the peer
}

// Latency describes the times of single messages, from PostSend to the
// completion in the application's hands, in nanoseconds.
type Latency struct {
	Min    int64    `json:"min_ns"`
	Mean   float64  `json:"mean_ns"`
	P50    int64    `json:"p50_ns"`
	P90    int64    `json:"p90_ns"`
	P99    int64    `json:"p99_ns"`
	P999   int64    `json:"p99_9_ns"`
	Max    int64    `json:"max_ns"`
	Bucket []Bucket `json:"histogram"`
}

// Bucket is one bar of the histogram: how many messages took From to To.
type Bucket struct {
	From  int64 `json:"from_ns"`
	To    int64 `json:"to_ns"`
	Count int64 `json:"count"`
}

// newHistogram covers 100 ns to a minute with three digits.
func newHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(100, int64(time.Minute), 3)
}

func latencyOf(h *hdrhistogram.Histogram) *Latency {
	l := &Latency{
		Min: h.Min(), Mean: h.Mean(), Max: h.Max(),
		P50: h.ValueAtQuantile(50), P90: h.ValueAtQuantile(90),
		P99: h.ValueAtQuantile(99), P999: h.ValueAtQuantile(99.9),
	}
	// Bars of a quarter octave between the extremes.
	bars := h.Distribution()
	lo, hi := int64(1), int64(1)
	for step := 0; hi <= h.Max(); step++ {
		lo, hi = hi, int64(float64(int64(1)<<(step/4))*[4]float64{1, 1.189, 1.414, 1.682}[step%4])
		if hi <= lo {
			hi = lo + 1
		}
		b := Bucket{From: lo, To: hi}
		for len(bars) > 0 && bars[0].From < hi {
			b.Count += bars[0].Count
			bars = bars[1:]
		}
		if b.Count > 0 || len(l.Bucket) > 0 {
			l.Bucket = append(l.Bucket, b)
		}
	}
	return l
}

// Write prints the result for a person.
func (r *Result) Write(w io.Writer, histogram bool) {
	p := &r.Plan
	fmt.Fprintf(w, "%s %s of %s, %s to %s by %s, path MTU %d",
		strings.ToUpper(p.Service), p.Op, size(p.Size), r.Local, r.Peer, r.Interface, r.PMTU)
	if p.Payload != 0 {
		fmt.Fprintf(w, ", packets of %d bytes", p.Payload)
	}
	fmt.Fprintln(w)
	if l := r.Latency; l != nil {
		fmt.Fprintf(w, "%d messages: min %s, p50 %s, p90 %s, p99 %s, p99.9 %s, max %s\n", r.Messages,
			cli.Nanos(l.Min), cli.Nanos(l.P50), cli.Nanos(l.P90), cli.Nanos(l.P99), cli.Nanos(l.P999), cli.Nanos(l.Max))
		if histogram {
			l.bars(w)
		}
	} else {
		fmt.Fprintf(w, "%d queue pairs, %d messages outstanding on each\n", p.QPs, p.Depth)
		fmt.Fprintf(w, "%s messages in %.2fs: %sbit/s, %s messages/s\n",
			cli.Count(r.Messages), r.Seconds, cli.Rate(r.Bps), cli.Count(uint64(r.PerSecond)))
		if !p.reliable() && r.Answered {
			fmt.Fprintf(w, "%d of %d messages arrived (%.2f%%)\n", r.Received, r.Sent, 100*float64(r.Received)/float64(max(r.Sent, 1)))
		}
	}
	if s := limitShares(r.Limits); s != "" {
		fmt.Fprintf(w, "kept from sending by: %s\n", s)
	}
	if r.GivenUp > 0 {
		fmt.Fprintf(w, "interrupted: %d outstanding messages are given up\n", r.GivenUp)
	}
	switch {
	case r.Checked:
		fmt.Fprintln(w, "data checked: all bytes arrived as they were sent")
	case p.Check && !r.Answered:
		fmt.Fprintln(w, "data not checked: the peer has not sent its figures in time")
	case p.Check:
		fmt.Fprintln(w, "data checked in part: nothing has completed on the other queue pairs")
	}
	for _, side := range []struct {
		name   string
		counts map[string]uint64
	}{{"here", r.Counters}, {"peer", r.PeerCount}} {
		for _, name := range troubles {
			if n := side.counts[name]; n != 0 {
				fmt.Fprintf(w, "%s: %s %d\n", side.name, name, n)
			}
		}
	}
}

// bars draws the histogram.
func (l *Latency) bars(w io.Writer) {
	most := int64(1)
	for _, b := range l.Bucket {
		most = max(most, b.Count)
	}
	const width = 50
	for _, b := range l.Bucket {
		fmt.Fprintf(w, "%8s - %-8s %9d %s\n", cli.Nanos(b.From), cli.Nanos(b.To), b.Count,
			strings.Repeat("#", int((b.Count*width+most-1)/most)))
	}
}

// size writes bytes with binary units where they are even: 64KiB, 1MiB, 1000B.
func size(n uint32) string {
	switch {
	case n >= 1<<20 && n%(1<<20) == 0:
		return fmt.Sprintf("%dMiB", n>>20)
	case n >= 1<<10 && n%(1<<10) == 0:
		return fmt.Sprintf("%dKiB", n>>10)
	}
	return fmt.Sprintf("%dB", n)
}
