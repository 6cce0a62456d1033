// SPDX-License-Identifier: Apache-2.0

package ping

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/softroce/softroce-xdp/cmd/internal/cli"
	"github.com/softroce/softroce-xdp/rocev2/rdma/rping"
)

// Summary is the sum of all round trips. Times are in nanoseconds, and those of round trips that came
// back, with wrong data too.
type Summary struct {
	Peer      string `json:"peer"`
	Interface string `json:"interface"`
	Size      int    `json:"size"`
	Verified  bool   `json:"verified"` // the data was compared
	Sent      uint64 `json:"sent"`
	Answered  uint64 `json:"answered"`
	Lost      uint64 `json:"lost"`
	Wrong     uint64 `json:"wrong_data"`
	Min       int64  `json:"min_ns"`
	Avg       int64  `json:"avg_ns"`
	P99       int64  `json:"p99_ns"` // 99th percentile, within a thousandth
	Max       int64  `json:"max_ns"`

	total int64
	hist  *hdrhistogram.Histogram
}

// newSummary covers times up to an hour, which is the longest timeout.
func newSummary(p Plan) *Summary {
	return &Summary{Peer: p.Server, Size: p.Size, Verified: p.Verify, hist: hdrhistogram.New(1, int64(time.Hour), 3)}
}

func (s *Summary) add(t Trip) {
	s.Sent++
	if t.Err != nil && !errors.Is(t.Err, rping.ErrData) {
		s.Lost++
		return
	}
	if t.Err != nil {
		s.Wrong++
	}
	ns := int64(t.Time)
	if s.Answered++; s.Answered == 1 || ns < s.Min {
		s.Min = ns
	}
	s.Max = max(s.Max, ns)
	s.total += ns
	s.Avg = s.total / int64(s.Answered)
	_ = s.hist.RecordValue(min(ns, int64(time.Hour))) // in range
	s.P99 = min(max(s.hist.ValueAtQuantile(99), s.Min), s.Max)
}

// Write writes the summary for a person.
func (s *Summary) Write(w io.Writer) {
	lost := 0.0
	if s.Sent > 0 {
		lost = 100 * float64(s.Lost) / float64(s.Sent)
	}
	fmt.Fprintf(w, "--- %s ---\n%s: %d answered, %d lost (%.3g%%)", s.Peer, roundTrips(s.Sent), s.Answered, s.Lost, lost)
	switch {
	case s.Wrong > 0:
		fmt.Fprintf(w, ", %d with wrong data", s.Wrong)
	case s.Verified && s.Answered > 0:
		fmt.Fprint(w, ", all data verified")
	}
	fmt.Fprintln(w)
	if s.Answered > 0 {
		fmt.Fprintf(w, "min %s, avg %s, p99 %s, max %s\n", cli.Nanos(s.Min), cli.Nanos(s.Avg), cli.Nanos(s.P99), cli.Nanos(s.Max))
	}
}

func roundTrips(n uint64) string {
	if n == 1 {
		return "1 round trip"
	}
	return fmt.Sprintf("%d round trips", n)
}

// Err is nil if all round trips came back with the right data.
func (s *Summary) Err() error {
	switch {
	case s.Wrong > 0:
		return fmt.Errorf("wrong data came back in %d of %s", s.Wrong, roundTrips(s.Answered))
	case s.Lost > 0:
		return fmt.Errorf("%d of %s lost", s.Lost, roundTrips(s.Sent))
	}
	return nil
}
