// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// Lines of a log are limited by kind. What other hosts and local users do causes lines, so without a limit they fill the
// disk and hide what an administrator looks for.
//
// A kind is a level with a message, whatever the attributes. Of each kind, limitBurst lines are written at once and one
// in each limitInterval from then on. A line tells how many were suppressed: before the next line of the kind, or after
// a limitPause in which none was written.

const (
	// limitBurst is how many lines of a kind are written at once.
	limitBurst = 20
	// limitInterval is the time for one more line of a kind.
	limitInterval = 10 * time.Second
	// limitPause is the longest time until a line tells that others were suppressed.
	limitPause = time.Minute

	// maxKinds is how many kinds are told apart. All others together are one.
	maxKinds = 512
)

// suppressed is the message of the line that tells how many lines were suppressed: attribute "line" is their
// message, "suppressed" their number.
const suppressed = "lines of a kind were suppressed"

// limitHandler implements slog.Handler.
type limitHandler struct {
	next  slog.Handler
	kinds *kinds
}

// kinds are those of a handler and of the handlers that were derived from it.
type kinds struct {
	mu  sync.Mutex
	all map[key]*kind
}

type key struct {
	level slog.Level
	text  string
}

// kind is a token bucket, kept as the time at which it is full (GCRA, ITU-T I.371).
type kind struct {
	key
	full       time.Time
	suppressed int
	first      time.Time // time of the first suppressed line
	pending    bool      // a timer writes the summary
}

// limitLines returns a handler that passes lines to next.
func limitLines(next slog.Handler) *limitHandler {
	return &limitHandler{next: next, kinds: &kinds{all: map[key]*kind{}}}
}

// Enabled implements slog.Handler.
func (h *limitHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.next.Enabled(ctx, level)
}

// WithAttrs implements slog.Handler.
func (h *limitHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &limitHandler{next: h.next.WithAttrs(attrs), kinds: h.kinds}
}

// WithGroup implements slog.Handler.
func (h *limitHandler) WithGroup(name string) slog.Handler {
	return &limitHandler{next: h.next.WithGroup(name), kinds: h.kinds}
}

// Handle implements slog.Handler.
func (h *limitHandler) Handle(ctx context.Context, r slog.Record) error {
	now := time.Now()
	h.kinds.mu.Lock()
	k := h.kinds.of(key{r.Level, r.Message})
	if !k.allow(now) {
		if k.suppressed++; k.suppressed == 1 {
			k.first = now
		}
		if !k.pending {
			k.pending = true
			time.AfterFunc(limitPause, func() { h.summarize(k) })
		}
		h.kinds.mu.Unlock()
		return nil
	}
	summary, some := k.summary(now)
	h.kinds.mu.Unlock()
	if some {
		if err := h.next.Handle(ctx, summary); err != nil {
			return err
		}
	}
	return h.next.Handle(ctx, r)
}

// summarize writes the summary of a kind, if it was not written before.
func (h *limitHandler) summarize(k *kind) {
	h.kinds.mu.Lock()
	k.pending = false
	summary, some := k.summary(time.Now())
	h.kinds.mu.Unlock()
	if some {
		_ = h.next.Handle(context.Background(), summary) // as with any line, there is nobody to tell
	}
}

// of returns the kind of a line.
func (s *kinds) of(id key) *kind {
	k := s.all[id]
	if k == nil && len(s.all) >= maxKinds {
		id = key{id.level, "other lines"}
		k = s.all[id]
	}
	if k == nil {
		k = &kind{key: id}
		s.all[id] = k
	}
	return k
}

// allow counts a line, or returns false if there were too many.
func (k *kind) allow(now time.Time) bool {
	if k.full.Before(now) {
		k.full = now
	}
	if k.full.Sub(now) > (limitBurst-1)*limitInterval {
		return false
	}
	k.full = k.full.Add(limitInterval)
	return true
}

// summary is the line about what was suppressed since the last one.
func (k *kind) summary(now time.Time) (r slog.Record, some bool) {
	if k.suppressed == 0 {
		return r, false
	}
	r = slog.NewRecord(now, k.level, suppressed, 0)
	r.AddAttrs(slog.String("line", k.text), slog.Int("suppressed", k.suppressed), slog.Time("since", k.first))
	k.suppressed = 0
	return r, true
}
