// SPDX-License-Identifier: Apache-2.0

package card

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"

	"github.com/softroce/softroce-xdp/rocev2/qp"
)

// Faults are what happens to frames of a Virtual network, each with a probability of 0 to 1.
type Faults struct {
	Loss      float64
	Duplicate float64
	Reorder   float64 // delayed by up to ReorderBy
	ReorderBy qp.Time
}

// Virtual is a network of models on virtual time. It is for one goroutine, which calls Run. Writes
// to the registers of its models between two calls of Run take effect in the next.
type Virtual struct {
	Delay  qp.Time // delay from port to port, ns
	Faults Faults
	Drop   func(frame []byte) bool // scripted loss, or nil

	Sent, Lost int // frames

	rand   *rand.Rand
	now    qp.Time
	frames frames
	order  uint64
	models []*Model
	links  map[end]end
	limits map[end]*Link
	buf    []byte
	free   [][]byte
}

type end struct {
	m    *Model
	port int
}

// NewVirtual returns a network without models. seed selects what happens by chance.
func NewVirtual(seed uint64) *Virtual {
	return &Virtual{Delay: 1000, now: 1, rand: rand.New(rand.NewPCG(seed, 0x5352)), links: map[end]end{}, limits: map[end]*Link{}, buf: make([]byte, FrameLen)}
}

// Connect joins two ports. A model may be joined to itself.
func (v *Virtual) Connect(a *Model, portA int, b *Model, portB int) {
	v.links[end{a, portA}], v.links[end{b, portB}] = end{b, portB}, end{a, portA}
	for _, m := range []*Model{a, b} {
		known := false
		for _, other := range v.models {
			known = known || other == m
		}
		if !known {
			v.models = append(v.models, m)
		}
	}
}

// Now is the virtual time in ns.
func (v *Virtual) Now() qp.Time { return v.now }

// ErrQuiet is returned by Run if nothing is left that could fulfil its condition.
var ErrQuiet = errors.New("wire: no frame is in flight and no timer runs")

// Run has frames sent and received, and timers expire, until done returns true. It fails if
// nothing is left to happen, or after limit of virtual time.
func (v *Virtual) Run(limit qp.Time, done func() bool) error {
	for end := v.now + limit; ; {
		v.send()
		if done() {
			return nil
		}
		v.send() // what done has posted
		next := v.next()
		switch {
		case next == 0:
			return ErrQuiet
		case next > end:
			return fmt.Errorf("wire: after %v ns of virtual time the condition is not fulfilled", limit)
		}
		v.now = max(v.now, next)
		v.arrive()
		for _, m := range v.models {
			m.Expire(v.now)
		}
	}
}

// Serve has frames sent and received, and timers expire, until ctx ends: for programs that use the
// models from other goroutines. While nothing is left to happen, the virtual time stands still, and
// Serve waits for work of the models.
func (v *Virtual) Serve(ctx context.Context) {
	wake := make(chan struct{}, 1)
	var all sync.WaitGroup
	defer all.Wait()
	for _, m := range v.models {
		all.Go(func() { forward(ctx, m.Work(), wake) })
	}
	ended := func() bool { return ctx.Err() != nil }
	for !ended() {
		_ = v.Run(math.MaxInt64/2, ended) // ErrQuiet
		select {
		case <-wake:
		case <-ctx.Done():
		}
	}
}

// forward joins channels that wake.
func forward(ctx context.Context, from <-chan struct{}, to chan<- struct{}) {
	for {
		select {
		case <-from:
		case <-ctx.Done():
			return
		}
		select {
		case to <- struct{}{}:
		default:
		}
	}
}

// Quiet is a condition for Run that is never true: Run returns ErrQuiet when all work is done.
func Quiet() bool { return false }

// send takes what the models have to send.
func (v *Virtual) send() {
	for _, m := range v.models {
		for {
			port, n, ok := m.NextFrame(v.now, v.buf)
			if !ok {
				break
			}
			from := end{m, port}
			if to, ok := v.links[from]; ok {
				v.transmit(to, v.limits[from], v.buf[:n])
			}
		}
	}
}

// transmit sends one frame by a link, which has no limits if it is nil.
func (v *Virtual) transmit(to end, l *Link, frame []byte) {
	v.Sent++
	if v.Drop != nil && v.Drop(frame) || v.hit(v.Faults.Loss) {
		v.Lost++
		return
	}
	leaves, ok := l.leaves(v.now, len(frame))
	if !ok {
		v.Lost++
		return
	}
	v.push(to, frame, leaves+v.Delay)
	if v.hit(v.Faults.Duplicate) {
		v.push(to, frame, leaves+v.Delay)
	}
}

func (v *Virtual) push(to end, frame []byte, at qp.Time) {
	if v.Faults.ReorderBy > 0 && v.hit(v.Faults.Reorder) {
		at += 1 + qp.Time(v.rand.Int64N(int64(v.Faults.ReorderBy)))
	}
	var b []byte
	if n := len(v.free); n > 0 {
		b, v.free = v.free[n-1], v.free[:n-1]
	}
	v.order++
	heap.Push(&v.frames, inFlight{at: at, order: v.order, to: to, frame: append(b[:0], frame...)})
}

func (v *Virtual) hit(probability float64) bool {
	return probability > 0 && v.rand.Float64() < probability
}

// next is when the next frame arrives or timer expires, or 0.
func (v *Virtual) next() qp.Time {
	var next qp.Time
	if len(v.frames) > 0 {
		next = v.frames[0].at
	}
	for _, m := range v.models {
		if at := m.Deadline(); at != 0 && (next == 0 || at < next) {
			next = at
		}
	}
	return next
}

// arrive delivers the frames that are due.
func (v *Virtual) arrive() {
	for len(v.frames) > 0 && v.frames[0].at <= v.now {
		f := heap.Pop(&v.frames).(inFlight)
		f.to.m.Deliver(f.to.port, f.frame, v.now)
		v.free = append(v.free, f.frame)
	}
}

// inFlight is a frame between two ports.
type inFlight struct {
	at    qp.Time
	order uint64 // frames of one time keep their order
	to    end
	frame []byte
}

type frames []inFlight

func (f frames) Len() int { return len(f) }
func (f frames) Less(i, j int) bool {
	return f[i].at < f[j].at || f[i].at == f[j].at && f[i].order < f[j].order
}
func (f frames) Swap(i, j int) { f[i], f[j] = f[j], f[i] }
func (f *frames) Push(x any)   { *f = append(*f, x.(inFlight)) }
func (f *frames) Pop() any {
	last := len(*f) - 1
	x := (*f)[last]
	*f = (*f)[:last]
	return x
}
