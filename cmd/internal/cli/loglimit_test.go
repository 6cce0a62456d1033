// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// buffer is a log that several goroutines write.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

// take returns the lines since the last call.
func (b *buffer) take() (lines []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for l := range strings.Lines(b.b.String()) {
		lines = append(lines, strings.TrimSpace(l))
	}
	b.b.Reset()
	return lines
}

func newLog() (*slog.Logger, *buffer) {
	b := &buffer{}
	noTime := func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey || a.Key == "since" {
			return slog.Attr{}
		}
		return a
	}
	return slog.New(limitLines(slog.NewTextHandler(b, &slog.HandlerOptions{ReplaceAttr: noTime}))), b
}

// Twenty lines a second of one kind do not fill the log, other kinds are written, and each line is written or
// counted in a summary.
func TestFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, out := newLog()
		const lines = 20 * 600
		for i := range lines {
			of := log.With("if", "eth0")
			if i%2 == 0 {
				of = of.WithGroup("dest")
			}
			of.Info("new destination", "peer", i)
			if i == lines/2 {
				log.Warn("new destination", "peer", i)
				log.Info("agent works")
			}
			time.Sleep(time.Second / 20)
		}
		time.Sleep(2 * limitPause)
		written, suppressed, others := 0, 0, 0
		got := out.take()
		for _, l := range got {
			var n int
			switch at := strings.Index(l, "suppressed="); {
			case at >= 0:
				if _, err := fmt.Sscanf(l[at:], "suppressed=%d", &n); err != nil || !strings.Contains(l, `line="new destination"`) || !strings.Contains(l, "level=INFO") {
					t.Errorf("%s: %v", l, err)
				}
				suppressed += n
			case strings.Contains(l, "level=INFO msg=\"new destination\" if=eth0"):
				written++
			default:
				others++
			}
		}
		if want := limitBurst + 60; written < want-1 || written > want+1 || written+suppressed != lines || others != 2 {
			t.Errorf("%d lines written, want %d; %d suppressed of %d; %d of other kinds", written, want, suppressed, lines, others)
		}
		if len(got) > 3*(limitBurst+60) {
			t.Errorf("the log has %d lines", len(got))
		}
	})
}

// The summary comes also if no further line of the kind does, and once.
func TestSummaryAfterPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, out := newLog()
		for range limitBurst + 5 {
			log.Warn("odd")
		}
		if n := len(out.take()); n != limitBurst {
			t.Errorf("%d lines at once, want %d", n, limitBurst)
		}
		time.Sleep(limitPause + time.Second)
		want := fmt.Sprintf("level=WARN msg=%q line=odd suppressed=5", suppressed)
		if got := out.take(); len(got) != 1 || got[0] != want {
			t.Errorf("%q, want %q", got, want)
		}
		time.Sleep(limitBurst * limitInterval)
		log.Warn("odd")
		if got := out.take(); len(got) != 1 {
			t.Errorf("%q, want the line alone", got)
		}
		time.Sleep(24 * time.Hour)
		for range 2 * limitBurst {
			log.Warn("odd")
		}
		if n := len(out.take()); n != limitBurst {
			t.Errorf("%d lines at once after a day, want %d", n, limitBurst)
		}
		time.Sleep(2 * limitPause)
	})
}

// The memory for kinds is bounded: messages that are not constant do not fill it, and do not evade the limit.
func TestKindsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, out := newLog()
		for i := range 10_000 {
			log.Info(fmt.Sprint("line ", i))
		}
		if n := len(out.take()); n > 600 {
			t.Errorf("%d lines", n)
		}
		time.Sleep(2 * limitPause)
	})
}
