// SPDX-License-Identifier: Apache-2.0

package wiretest

import (
	"fmt"
	"io"
	"math/rand/v2"

	"github.com/softroce/softroce-xdp/rocev2/qp"
)

// Units of virtual time.
const (
	Microsecond qp.Time = 1000
	Millisecond         = 1000 * Microsecond
	Second              = 1000 * Millisecond
)

// Wire is virtual time and what happens on it.
type Wire struct {
	Rand  *rand.Rand
	Trace io.Writer // receiver of a line for each packet, or nil

	now    qp.Time
	events []event // a heap, earliest first
	count  uint64  // number of events: equal times keep the order in which they were set
	err    error
	frames [][]byte // free frames
	nodes  []*Node
}

// event is the arrival of a frame, or a call.
type event struct {
	at    qp.Time
	order uint64
	to    receiver
	frame []byte
	call  func()
}

// receiver gets the frames of a path.
type receiver interface {
	arrive(frame []byte)
	name() string
}

// New returns a wire whose clock shows one microsecond: 0 is no time for qp.
func New(seed uint64) *Wire {
	return &Wire{Rand: rand.New(rand.NewPCG(seed, 0x5352)), now: Microsecond}
}

// Now is the virtual time.
func (w *Wire) Now() qp.Time { return w.now }

// Failf records what went wrong and stops Run; the first failure counts.
func (w *Wire) Failf(format string, args ...any) {
	if w.err == nil {
		w.err = fmt.Errorf("%v us: %s", float64(w.now)/1000, fmt.Sprintf(format, args...))
	}
}

// Err is the first failure.
func (w *Wire) Err() error { return w.err }

// After has f called at a distance of d from now.
func (w *Wire) After(d qp.Time, f func()) { w.push(event{at: w.now + d, call: f}) }

// alarm is a call of the wire at a time, 0: none is set.
type alarm qp.Time

// wake has f called at a time, or at the earlier one that the alarm was set to before.
func (w *Wire) wake(a *alarm, at qp.Time, f func()) {
	if at = max(at, w.now); *a != 0 && qp.Time(*a) <= at {
		return
	}
	*a = alarm(at)
	w.push(event{at: at, call: func() {
		if *a == alarm(at) { // or an earlier one took its place
			*a = 0
			f()
		}
	}})
}

// Run lets things happen until nothing is left to happen, something fails, or the
// clock would pass until (0: for ever).
func (w *Wire) Run(until qp.Time) error {
	for len(w.events) > 0 && w.err == nil {
		if until != 0 && w.events[0].at > until {
			w.now = until
			break
		}
		e := w.pop()
		w.now = e.at
		if e.call != nil {
			e.call()
			continue
		}
		e.to.arrive(e.frame)
		w.frames = append(w.frames, e.frame)
	}
	return w.err
}

// frame returns an empty buffer.
func (w *Wire) frame() []byte {
	if n := len(w.frames); n > 0 {
		f := w.frames[n-1]
		w.frames = w.frames[:n-1]
		return f[:0]
	}
	return make([]byte, 0, 4096+rocev2Overhead)
}

// rocev2Overhead is room for IPv6, UDP, BTH, extended headers, pad and ICRC.
const rocev2Overhead = 128

func (e *event) before(f *event) bool {
	return e.at < f.at || e.at == f.at && e.order < f.order
}

func (w *Wire) push(e event) {
	w.count++
	e.order = w.count
	w.events = append(w.events, e)
	h := w.events
	for i := len(h) - 1; i > 0; {
		up := (i - 1) / 2
		if !h[i].before(&h[up]) {
			break
		}
		h[i], h[up] = h[up], h[i]
		i = up
	}
}

func (w *Wire) pop() event {
	h := w.events
	first, last := h[0], len(h)-1
	h[0], h[last] = h[last], event{}
	h = h[:last]
	w.events = h
	for i := 0; ; {
		down := 2*i + 1
		if down >= last {
			break
		}
		if down+1 < last && h[down+1].before(&h[down]) {
			down++
		}
		if !h[down].before(&h[i]) {
			break
		}
		h[i], h[down] = h[down], h[i]
		i = down
	}
	return first
}
