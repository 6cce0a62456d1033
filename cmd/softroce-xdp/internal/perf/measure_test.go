// SPDX-License-Identifier: Apache-2.0

package perf

import (
	"slices"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/internal/testkit"
)

// The figures leave out the warm-up, and what completes after the end.
func TestMeasurement(t *testing.T) {
	p := goodPlan()
	p.Warmup, p.Duration, p.Size = time.Second, 24*time.Hour, 100
	var told []Moment
	c := &Client{Interval: time.Second, Progress: func(m Moment) { told = append(told, m) }}
	begin := time.Unix(100, 0)
	m := newMeasurement(&p, c, begin)
	defer m.timer.Stop()
	at := func(ms time.Duration) time.Time { return begin.Add(ms * time.Millisecond) }
	for ms, done := range map[time.Duration]uint64{500: 10, 999: 15} {
		if m.tick(at(ms), done) || m.on {
			t.Errorf("after %d ms: %+v", ms, m)
		}
	}
	for _, s := range []struct {
		ms   time.Duration
		done uint64
	}{{1000, 20}, {1500, 30}, {2500, 60}, {2600, 70}} {
		if m.tick(at(s.ms), s.done) || !m.on {
			t.Errorf("after %d ms: %+v", s.ms, m)
		}
	}
	if want := []Moment{{1500 * time.Millisecond, 40, 4000}}; !slices.Equal(told, want) {
		t.Errorf("progress %+v, want %+v", told, want)
	}
	m.end(at(3000), 100)
	m.end(at(9000), 1000)
	var r Result
	m.result(&r)
	if r.Messages != 80 || r.Seconds != 2 || r.Bytes != 8000 || r.PerSecond != 40 || r.Bps != 32000 || r.Latency != nil {
		t.Errorf("%+v", r)
	}
}

// A plan ends after its duration, and a counted one does not end by time.
func TestMeasurementEnds(t *testing.T) {
	p := goodPlan()
	p.Duration = time.Nanosecond
	timed := newMeasurement(&p, &Client{}, time.Now())
	for begin := time.Now(); !timed.tick(time.Now(), 0); time.Sleep(time.Millisecond) {
		if time.Since(begin) > testkit.Patience {
			t.Fatal("a plan of a nanosecond goes on")
		}
	}
	p.Duration, p.Count = 0, 1
	if newMeasurement(&p, &Client{}, time.Now()).tick(time.Now().Add(time.Hour), 0) {
		t.Error("a counted plan has ended by time")
	}
}

// Progress reports keep the rhythm of the start of the run. After a stall there is one.
func TestFollowing(t *testing.T) {
	due := time.Unix(100, 0)
	for late, want := range map[time.Duration]time.Duration{
		time.Millisecond:        time.Second,
		999 * time.Millisecond:  time.Second,
		time.Second:             2 * time.Second,
		7300 * time.Millisecond: 8 * time.Second,
	} {
		if got := following(due, due.Add(late), time.Second).Sub(due); got != want {
			t.Errorf("%v late: the next one after %v, want %v", late, got, want)
		}
	}
	if got := following(due, due.Add(time.Second), 0); got != due.Add(time.Second) {
		t.Errorf("without an interval: %v", got)
	}
}
