// SPDX-License-Identifier: Apache-2.0

package ooobench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// railsPatience is how long messages may take to end when no more are posted, and late how long a second
// notification is waited for then.
const (
	railsPatience = time.Minute
	late          = 50 * time.Millisecond
)

// notification is one at the target, and the time since its message was posted.
type notification struct {
	at   time.Time
	took time.Duration
}

// load keeps a number of messages of each pair outstanding.
type load struct {
	pairs []*Pair
	stop  context.CancelFunc
	sides sync.WaitGroup

	mu       sync.Mutex
	slots    [][Slots]slot // slots of each pair
	posted   int
	notified int
	left     int // outstanding
	ending   bool
	idle     chan struct{}
	list     []notification
	failed   error
}

type slot struct {
	at    time.Time
	known [2]bool // the source and the consumer at the target know of the end
}

func (l *load) start(ctx context.Context, outstanding int) error {
	ctx, l.stop = context.WithCancel(ctx)
	l.idle, l.slots = make(chan struct{}), make([][Slots]slot, len(l.pairs))
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.pairs {
		for k := range outstanding {
			if err := l.post(i, k); err != nil {
				return err
			}
		}
		for side := range l.pairs[i].CQ {
			l.sides.Go(func() { l.collect(ctx, i, side) })
		}
	}
	return nil
}

// post posts a message of a slot of a pair.
func (l *load) post(pair, k int) error {
	l.slots[pair][k] = slot{at: time.Now()}
	for end := time.Now().Add(railsPatience); ; time.Sleep(10 * time.Microsecond) {
		err := l.pairs[pair].Post(k)
		if errors.Is(err, verbs.ErrQueueFull) && time.Now().Before(end) { // its completion was seen before its room was made
			continue
		}
		if err == nil {
			l.posted++
			l.left++
		}
		return err
	}
}

// collect takes the completions of a side.
func (l *load) collect(ctx context.Context, pair, side int) {
	var batch [64]verbs.Completion
	for cq := l.pairs[pair].CQ[side]; ; {
		n := cq.Poll(batch[:])
		for i := range n {
			if err := l.ended(pair, side, &batch[i]); err != nil {
				l.fail(err)
				return
			}
		}
		if n > 0 {
			continue
		}
		if err := cq.Wait(ctx, false); err != nil {
			if ctx.Err() == nil {
				l.fail(err)
			}
			return
		}
	}
}

func (l *load) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failed = errors.Join(l.failed, err)
}

// ended takes a completion. When both sides know of the end of a message, its slot has the next one.
func (l *load) ended(pair, side int, c *verbs.Completion) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	k, err := l.pairs[pair].Check(side, c)
	if err != nil {
		return err
	}
	s := &l.slots[pair][k]
	if s.known[side] {
		return fmt.Errorf("%w: slot %d", ErrTwice, k)
	}
	s.known[side] = true
	if side == 1 {
		now := time.Now()
		l.notified++
		l.list = append(l.list, notification{now, now.Sub(s.at)})
	}
	if !s.known[1-side] {
		return nil
	}
	l.left--
	if l.ending {
		if l.left == 0 {
			close(l.idle)
		}
		return nil
	}
	return l.post(pair, k)
}

// count returns how many messages were notified.
func (l *load) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.notified
}

// longest returns the longest time between two notifications, also before the first and after the last one of
// this time, and the longest time that a message took which was notified then, or that one took so far which was
// not notified at the end of this time.
func (l *load) longest(from, to time.Time) (gap, slowest time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	last := from
	for i := range l.slots {
		for k := range l.slots[i] {
			if s := &l.slots[i][k]; !s.at.IsZero() && !s.known[1] {
				slowest = max(slowest, to.Sub(s.at))
			}
		}
	}
	for _, n := range l.list {
		if n.at.Before(from) || n.at.After(to) {
			continue
		}
		gap, slowest, last = max(gap, n.at.Sub(last)), max(slowest, n.took), n.at
	}
	return max(gap, to.Sub(last)), slowest
}

// end waits until all messages have ended, and closes the pairs.
func (l *load) end() error {
	if l.stop != nil {
		l.mu.Lock()
		l.ending = true
		done := l.left == 0 || l.failed != nil
		l.mu.Unlock()
		if !done {
			select {
			case <-l.idle:
				time.Sleep(late)
			case <-time.After(railsPatience):
				l.fail(fmt.Errorf("%d messages have not ended %s after the last one was posted", l.left, railsPatience))
			}
		}
		l.stop()
		l.sides.Wait()
	}
	errs := []error{l.failed}
	for _, p := range l.pairs {
		errs = append(errs, p.Close())
	}
	return errors.Join(errs...)
}
