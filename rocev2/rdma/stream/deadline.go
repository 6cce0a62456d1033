// SPDX-License-Identifier: Apache-2.0

package stream

import (
	"context"
	"os"
	"sync"
	"time"
)

// deadline is the read or write deadline of a connection. Who waits takes get and returns when it
// is done.
type deadline struct {
	mu    sync.Mutex
	timer *time.Timer
	now   *expiry
	ended bool
}

func newDeadline() *deadline { return &deadline{now: newExpiry()} }

// get returns a context that ends at the deadline, also if the deadline is moved before it.
func (d *deadline) get() context.Context {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.now
}

// set moves the deadline. The zero time is none.
func (d *deadline) set(t time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timer != nil && !d.timer.Stop() {
		<-d.now.done // the timer's function is running or has run
	}
	d.timer = nil
	if d.ended {
		return
	}
	if d.now.Err() != nil {
		d.now = newExpiry()
	}
	if t.IsZero() {
		return
	}
	x := d.now
	if left := time.Until(t); left > 0 {
		d.timer = time.AfterFunc(left, func() { close(x.done) })
		return
	}
	close(x.done)
}

// end makes the deadline pass now and for ever.
func (d *deadline) end() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timer != nil && !d.timer.Stop() {
		<-d.now.done
	}
	d.timer, d.ended = nil, true
	if d.now.Err() == nil {
		close(d.now.done)
	}
}

// expiry implements context.Context.
type expiry struct{ done chan struct{} }

func newExpiry() *expiry { return &expiry{make(chan struct{})} }

func (e *expiry) Deadline() (time.Time, bool) { return time.Time{}, false }
func (e *expiry) Done() <-chan struct{}       { return e.done }
func (e *expiry) Value(any) any               { return nil }

func (e *expiry) Err() error {
	select {
	case <-e.done:
		return os.ErrDeadlineExceeded
	default:
		return nil
	}
}
