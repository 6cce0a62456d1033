// SPDX-License-Identifier: Apache-2.0

package perf

import (
	"fmt"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// A Moment is the state of a run.
type Moment struct {
	Elapsed  time.Duration
	Messages uint64
	Bytes    uint64
}

// measurement has the figures of a run from the end of the warm-up to the end of the plan.
type measurement struct {
	plan   *Plan
	client *Client
	timer  *time.Timer // fires at the end of the plan's duration
	on     bool        // the warm-up is over
	begin  time.Time   // start of the warm-up, and then of the measurement
	before uint64      // messages completed before the measurement
	next   time.Time   // time of the next progress report
	hist   *hdrhistogram.Histogram

	ended    bool
	messages uint64
	took     time.Duration
}

func newMeasurement(p *Plan, c *Client, now time.Time) *measurement {
	m := &measurement{plan: p, client: c, on: p.Warmup == 0, begin: now, next: now.Add(c.Interval), hist: newHistogram()}
	m.timer = time.NewTimer(p.Warmup + p.Duration)
	if p.Duration == 0 { // a counted run
		m.timer.Stop()
	}
	return m
}

// tick starts the measurement after the warm-up, reports progress, and returns true when the plan's duration
// has passed. done is the number of messages completed until now.
func (m *measurement) tick(now time.Time, done uint64) bool {
	if !m.on && now.Sub(m.begin) >= m.plan.Warmup {
		m.on, m.begin, m.before, m.next = true, now, done, now.Add(m.client.Interval)
		m.hist.Reset()
	}
	select {
	case <-m.timer.C:
		return true
	default:
	}
	if m.client.Progress != nil && m.on && now.After(m.next) {
		n := done - m.before
		m.client.Progress(Moment{now.Sub(m.begin), n, n * uint64(m.plan.Size)})
		m.next = following(m.next, now, m.client.Interval)
	}
	return false
}

// following returns the time of the next progress report after now; the previous one was due at
// next. After a stall of several intervals there is one report, not one for each.
func following(next, now time.Time, interval time.Duration) time.Time {
	if interval <= 0 {
		return now
	}
	return next.Add(interval * (1 + now.Sub(next)/interval))
}

// end takes the figures. What completes later does not count.
func (m *measurement) end(now time.Time, done uint64) {
	if m.ended {
		return
	}
	m.ended, m.messages, m.took = true, done-m.before, now.Sub(m.begin)
}

// latency records how long a message took.
func (m *measurement) latency(d time.Duration) error {
	if err := m.hist.RecordValue(int64(d)); err != nil {
		return fmt.Errorf("a message took more than a minute: %w", err)
	}
	return nil
}

// result writes the figures to out.
func (m *measurement) result(out *Result) {
	out.Messages, out.Seconds = m.messages, m.took.Seconds()
	out.Bytes = out.Messages * uint64(m.plan.Size)
	if out.Seconds > 0 {
		out.PerSecond = float64(out.Messages) / out.Seconds
		out.Bps = uint64(float64(out.Bytes) * 8 / out.Seconds)
	}
	if m.plan.Latency {
		out.Latency = latencyOf(m.hist)
	}
}
