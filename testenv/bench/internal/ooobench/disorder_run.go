// SPDX-License-Identifier: Apache-2.0

package ooobench

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/testenv/bench/internal/compare"
)

// traffic is what a run sends: messages that come at random times, interval apart on average (a Poisson
// process), or, if interval is 0, as many as keep a number of them outstanding.
type traffic struct {
	interval    time.Duration
	outstanding int
	length      time.Duration // in which messages are posted
}

// disorderPatience is how long a run waits for messages when no more are posted. Those that did not end count with
// the time since they were to be posted.
const disorderPatience = 2 * time.Second

// result is what a run has measured. Times are in ns, since a message was to be posted.
type result struct {
	size       int           // of a message, in bytes
	arrived    int           // messages that the consumer at the target was told of, within the length
	over       time.Duration // the length
	ends       [2][]float64  // until the source knows, and until the consumer at the target does
	packets    uint64        // with data, that the source has sent
	again      uint64        // of these, sent again
	unfinished int
	wire       uint64        // RoCEv2 packets of both directions that have come to the box
	cpu        time.Duration // of the process
}

// disorderRun is a run of a pair.
type disorderRun struct {
	p     *pair
	free  chan int // Slots
	start time.Time

	mu     sync.Mutex
	due    [Slots]time.Duration // since start
	known  [Slots]int           // ends that know, of the message of a slot
	left   int                  // ends of posted messages that do not know yet
	posted bool                 // all
	done   chan struct{}
	result
}

// disorderMeasure sends traffic over a pair.
func disorderMeasure(ctx context.Context, p *pair, t traffic, seed uint64) (*result, error) {
	r := &disorderRun{p: p, free: make(chan int, Slots), done: make(chan struct{})}
	n := Slots
	if t.interval == 0 {
		n = t.outstanding
	}
	for i := range n {
		r.free <- i
	}
	packets, again := p.Sent()
	cpu := compare.CPU()
	ctx, stop := context.WithTimeout(ctx, t.length+disorderPatience)
	defer stop()
	ended := make(chan error, 3)
	r.start, r.over, r.size = time.Now(), t.length, p.Size
	for side := range p.CQ {
		go func() { ended <- r.collect(ctx, side) }()
	}
	go func() { ended <- r.send(ctx, t, arrivals(seed)) }()
	var errs []error
	for range cap(ended) {
		err := <-ended
		if err != nil {
			stop()
		}
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	r.giveUp()
	sent, resent := p.Sent()
	r.packets, r.again, r.cpu = sent-packets, resent-again, compare.CPU()-cpu
	return &r.result, nil
}

// send posts the messages.
func (r *disorderRun) send(ctx context.Context, t traffic, random *rand.Rand) error {
	defer r.allPosted()
	for at := time.Duration(0); ; {
		if t.interval > 0 {
			at += time.Duration(random.ExpFloat64() * float64(t.interval))
			time.Sleep(time.Until(r.start.Add(at)))
		}
		slot := 0
		select {
		case slot = <-r.free:
		case <-ctx.Done():
			return nil
		}
		now := time.Since(r.start)
		if now >= t.length {
			return nil
		}
		if t.interval == 0 {
			at = now
		}
		r.mu.Lock()
		r.due[slot], r.known[slot] = at, 0
		r.left += len(r.p.CQ)
		r.mu.Unlock()
		for {
			err := r.p.Post(slot)
			if errors.Is(err, verbs.ErrQueueFull) && ctx.Err() == nil { // its completion was seen before its room was made
				continue
			}
			if err != nil {
				return err
			}
			break
		}
	}
}

func (r *disorderRun) allPosted() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.posted = true
	r.finish()
}

func (r *disorderRun) finish() {
	if r.posted && r.left == 0 {
		close(r.done)
	}
}

// collect takes the completions of a side until all messages have ended.
func (r *disorderRun) collect(ctx context.Context, side int) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		select {
		case <-r.done:
			stop()
		case <-ctx.Done():
		}
	}()
	var batch [64]verbs.Completion
	for {
		n := r.p.CQ[side].Poll(batch[:])
		for i := range n {
			slot, err := r.p.Check(side, &batch[i])
			if err != nil {
				return err
			}
			r.knows(side, slot)
		}
		if n == 0 {
			if err := r.p.CQ[side].Wait(ctx, false); err != nil {
				if ctx.Err() != nil {
					return nil
				}
				return err
			}
		}
	}
}

// knows notes that a side knows of the end of a message.
func (r *disorderRun) knows(side, slot int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Since(r.start)
	if side == 1 && now <= r.over {
		r.arrived++
	}
	r.ends[side] = append(r.ends[side], float64(now-r.due[slot]))
	r.left--
	if r.known[slot]++; r.known[slot] == len(r.p.CQ) {
		r.free <- slot
	}
	r.finish()
}

// giveUp counts the messages that have not ended.
func (r *disorderRun) giveUp() {
	r.mu.Lock()
	defer r.mu.Unlock()
	idle := map[int]bool{}
	for len(r.free) > 0 {
		idle[<-r.free] = true
	}
	for slot := range r.due {
		if !idle[slot] && r.left > 0 && r.due[slot] > 0 {
			r.unfinished++
			age := float64(time.Since(r.start) - r.due[slot])
			r.ends[0], r.ends[1] = append(r.ends[0], age), append(r.ends[1], age)
		}
	}
}

// quantile returns a quantile in us.
func quantile(all []float64, q float64) float64 {
	if len(all) == 0 {
		return 0
	}
	all = slices.Sorted(slices.Values(all))
	return all[min(len(all)-1, int(float64(len(all))*q))] / 1e3
}
