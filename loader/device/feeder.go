// SPDX-License-Identifier: Apache-2.0

package device

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/rocev2/nic"
	"github.com/softroce/softroce-xdp/rocev2/ring"
)

const (
	// sessionBudget is how many entries of one process an iteration of the engine takes, so that
	// a process with much work does not delay the packets of others. queueBudget is that of one
	// queue in a row.
	sessionBudget = 256
	queueBudget   = 64

	// flushBudget is after how many work requests that were flushed an iteration takes no more: a bad
	// entry flushes all of its queue pair.
	flushBudget = 4096
)

// feeder implements nic.Feeder for all processes.
type feeder struct {
	memory     *shared
	statusPage ring.StatusPage
	epoll      int
	processes  []*rings // the engine's thread
	next       int      // the process that is first in the next iteration
	flushed    int      // work requests that bad entries have flushed in this iteration
	events     [64]unix.EpollEvent
	now        func() time.Duration // time since a fixed point

	// fairness.go
	byFD    map[int32]*rings // by the descriptor of their eventfd
	skipped int              // iterations since delays were looked at
	delayed int              // suspended processes, and deferred signals
}

var _ nic.Feeder = (*feeder)(nil)

func newFeeder() (*feeder, error) {
	m, err := newShared("status", ring.StatusPageBytes, true)
	if err != nil {
		return nil, err
	}
	start := time.Now()
	f := &feeder{
		memory: m, now: func() time.Duration { return time.Since(start) }, byFD: map[int32]*rings{},
	}
	if f.statusPage, err = ring.OpenStatusPage(m.b); err == nil {
		if f.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
			err = fmt.Errorf("epoll: %w", err)
		}
	}
	if err != nil {
		m.close()
		return nil, err
	}
	return f, nil
}

func (f *feeder) close() {
	unix.Close(f.epoll)
	f.memory.close()
}

// watch has the eventfd of a process end the engine's sleep. It is edge-triggered and never read: a
// read could block if the process has changed its flags.
func (f *feeder) watch(fd int) error {
	e := unix.EpollEvent{Events: wakeEvents, Fd: int32(fd)}
	if err := unix.EpollCtl(f.epoll, unix.EPOLL_CTL_ADD, fd, &e); err != nil {
		return fmt.Errorf("epoll: %w", err)
	}
	return nil
}

// forget is the inverse of watch. Closing the descriptor is not enough: the process has another one.
func (f *feeder) forget(fd int) { _ = unix.EpollCtl(f.epoll, unix.EPOLL_CTL_DEL, fd, nil) }

// FD implements nic.Feeder.
func (f *feeder) FD() int { return f.epoll }

// Waiting implements nic.Feeder.
func (f *feeder) Waiting() bool {
	for _, r := range f.processes {
		if r.costs.suspendedUntil == 0 && r.waiting() {
			return true
		}
	}
	return false
}

// Sleep implements nic.Feeder.
func (f *feeder) Sleep() bool {
	f.statusPage.Asleep().Store(ring.AllGroups)
	return !f.Waiting()
}

// Take implements nic.Feeder.
func (f *feeder) Take() (n int) {
	again := f.statusPage.Asleep().Load() != 0
	if again {
		f.statusPage.Asleep().Store(0)
	}
	if f.resume(again) || again {
		f.readSignals()
	}
	f.flushed = 0
	for i := range f.processes {
		r := f.processes[(f.next+i)%len(f.processes)]
		if r.costs.suspendedUntil != 0 {
			continue
		}
		if r.waiting() {
			n += r.take()
		}
		f.count(r)
		r.review()
		if f.flushed > flushBudget {
			f.next = (f.next + i + 1) % len(f.processes)
			break
		}
	}
	return n
}

// take takes entries of one process: receives before sends, so that a message does not arrive before
// the receive that was posted for it. For that, it looks for receives after it has looked for sends.
func (r *rings) take() (n int) {
	r.collect()
	look(r.sends)
	r.collect()
	look(r.receives)
	n = r.takeFrom(&r.receives, sessionBudget)
	if len(r.receives) == 0 {
		n += r.takeFrom(&r.sends, sessionBudget-n)
	}
	return n
}

// look looks at the queues that takeFrom may serve.
func look(list []*queue) {
	for _, q := range list[:min(len(list), sessionBudget)] {
		q.look()
	}
}

// collect puts the queues that the doorbell names, and watched ones with entries, to those that have
// entries.
func (r *rings) collect() {
	r.costs.checks(r.doorbell.Take(&r.pending, func(i uint32) {
		if int(i) < len(r.queues) && r.queues[i] != nil {
			r.queues[i].number = i
			r.found(r.queues[i])
		} else {
			r.costs.checks(1)
		}
	}))
	for _, q := range r.watched {
		if q.in.Changed() {
			r.found(q)
		}
	}
}

// found puts a queue to those that have entries. The doorbell has named it before.
func (r *rings) found(q *queue) {
	if q.pending() {
		return
	}
	r.pending[q.number/64] |= 1 << (q.number % 64)
	q.used = true
	if q.recv {
		r.receives = append(r.receives, q)
	} else {
		r.sends = append(r.sends, q)
	}
}

// takeFrom takes entries of queues in turn, and keeps those that have more. It watches the others. An empty
// queue counts as one entry: a process can ring the doorbell for thousands of them without pause.
func (r *rings) takeFrom(list *[]*queue, budget int) (n int) {
	all, served := *list, 0
	for k := len(all); served < k && n < budget && r.feeder.flushed <= flushBudget; served++ {
		q := all[served]
		m, more := q.take(min(queueBudget, budget-n))
		n += max(m, 1)
		if m == 0 {
			r.costs.checks(1)
		} else {
			r.costs.credit(m)
		}
		// collect has cleared the doorbell of what came after look.
		if more || !q.ended && q.in.Changed() {
			all = append(all, q) // behind those that were not served
		} else {
			r.pending[q.number/64] &^= 1 << (q.number % 64)
			r.watch(q)
		}
	}
	*list = append(all[:0], all[served:]...)
	return n
}

// waiting reports whether the process has entries that were not taken.
func (r *rings) waiting() bool {
	if len(r.receives) > 0 || len(r.sends) > 0 || r.doorbell.Any() {
		return true
	}
	for _, q := range r.watched {
		if q.in.Changed() {
			q.in.Prefetch()
			return true
		}
	}
	return false
}
