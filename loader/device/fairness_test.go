// SPDX-License-Identifier: Apache-2.0

package device

import (
	"encoding/binary"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/rocev2/nic"
	"github.com/softroce/softroce-xdp/rocev2/rdma/proto"
	"github.com/softroce/softroce-xdp/rocev2/ring"
	"github.com/softroce/softroce-xdp/rocev2/wqe"
)

// floodWorld is the feeder of a server with processes, in virtual time. The test is the engine's thread.
type floodWorld struct {
	t   *testing.T
	s   *Server
	f   *feeder
	now time.Duration
}

func newFloodWorld(t *testing.T) *floodWorld {
	s := tested(t).s
	w := &floodWorld{t: t, s: s, f: s.feeder, now: time.Hour}
	w.f.now = func() time.Duration { return w.now }
	return w
}

// What the engine's thread grants: ring checks of a process and of a user, signals to a process, each a second, and the
// time for which unused ones are kept.
const (
	checksPerSecond     = 25_000
	userChecksPerSecond = 50_000
	checksBurst         = 10 * time.Millisecond
	userBurst           = 200 * time.Millisecond
	checksOfSignal      = 64
	checksOfStorm       = ring.Queues + ring.Queues/64 // of flooder.storm: numbers and groups
	signalsPerSecond    = 50_000
	signalsBurst        = 10 * time.Millisecond
)

// maxDelay is the longest suspension of a process that names all numbers of the doorbell, of which most are no
// rings.
const maxDelay = 2 * (ring.Queues + checksOfSignal) * time.Second / checksPerSecond

// flooder is a process of such a world.
type flooder struct {
	*rings
	producers     []*ring.Producer
	doorbellBytes []byte
}

// process makes a process of a user with queues of one shared receive queue.
func (w *floodWorld) process(uid uint32, queues int) *flooder {
	w.t.Helper()
	c := &flooder{rings: newRings(newSocket(w.s, nil, &process{uid: uid}))}
	must := func(err error) {
		w.t.Helper()
		if err != nil {
			w.t.Fatal(err)
		}
	}
	var err error
	c.costs.account, err = w.s.accounts.Open(w.now, uid)
	must(err)
	c.doorbellBytes = make([]byte, ring.DoorbellBytes)
	c.doorbell, err = ring.OpenDoorbell(c.doorbellBytes)
	must(err)
	c.wake, err = newWake()
	must(err)
	must(w.f.watch(c.wake))
	own := c.wake
	w.t.Cleanup(func() { unix.Close(own) })
	pd, err := w.s.dev.AllocPD()
	must(err)
	srq, err := pd.CreateSRQ(nic.MaxWR, 1)
	must(err)
	shape := ring.ShapeFor(8, wqe.RecvBytes(1))
	for range queues {
		r, err := ring.Open(make([]byte, shape.Bytes()), shape)
		must(err)
		c.producers = append(c.producers, ring.NewProducer(r, 8))
		q := newQueue(c.rings, r, shape)
		q.srq, q.recv = &sharedQueue{srq: srq.(*nic.SRQ)}, true
		_, err = c.number(q)
		must(err)
	}
	w.f.join(c.rings)
	return c
}

// groups names all groups of rings, and no ring.
func (c *flooder) groups() {
	binary.NativeEndian.PutUint64(c.doorbellBytes, 1<<64-1)
}

// storm rings for all rings, and for groups and numbers without a ring, and signals.
func (c *flooder) storm() {
	for i := range uint32(ring.Queues) {
		if c.costs.suspendedUntil != 0 {
			break // nobody has cleared them
		}
		c.doorbell.Set(i)
	}
	c.signal()
}

func (c *flooder) signal() { _, _ = unix.Write(c.wake, binary.NativeEndian.AppendUint64(nil, 1)) }

// post writes an entry to a ring, rings and signals, as a program does that finds the engine asleep. bad: it
// is no work request.
func (c *flooder) post(i int, bad bool) {
	p := c.producers[i]
	entry, err := p.Next()
	if err != nil || entry == nil {
		panic("no room")
	}
	clear(entry)
	if bad {
		wqe.WqeRecv(entry).SetCount(1000)
	}
	p.Advance()
	p.Publish()
	if p.Watched().Load() == 0 {
		c.doorbell.Set(uint32(i))
	}
	c.signal()
}

// iterate is an iteration of the engine at the end of a sleep, and returns how many entries of a process it
// has taken.
func (w *floodWorld) iterate(c *flooder) (taken int) {
	w.f.Sleep()
	w.f.Take()
	for _, x := range w.f.processes {
		for _, q := range x.queues {
			if x == c.rings {
				taken += int(q.in.Read() - q.in.Freed())
			}
			q.in.Free(q.in.Read())
		}
	}
	return taken
}

// A process that does without pause what has the engine's thread look at rings without entries, or wake, is
// looked at for a part of the time, and is not lost. Another process is looked at in each iteration.
func TestFloods(t *testing.T) {
	for _, c := range []struct {
		name   string
		does   func(c *flooder)
		checks float64 // smallest number of ring checks of an iteration that checks the rings of the process
	}{
		{"rings without entries", func(c *flooder) { c.doorbell.Set(0); c.doorbell.Set(1) }, 3},
		{"groups without rings", (*flooder).groups, 64},
		{"numbers without a ring", func(c *flooder) {
			for i := range uint32(8) {
				c.doorbell.Set(100 + i)
			}
		}, 9},
		{"signals", (*flooder).signal, checksOfSignal},
		{"bad entries with signals", func(c *flooder) {
			if c.costs.suspendedUntil == 0 {
				c.post(0, true)
			}
		}, checksOfSignal},
		{"all", (*flooder).storm, 256},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newFloodWorld(t)
			flood, other := w.process(1, 2), w.process(2, 1)
			const length, step = time.Second, 10 * time.Microsecond
			looked, longest := 0, time.Duration(0)
			for end := w.now + length; w.now < end; w.now += step {
				c.does(flood)
				if w.now%(64*step) == 0 {
					other.post(0, false)
					if w.iterate(other) != 1 {
						t.Fatal("an entry of another process waits")
					}
				} else {
					w.iterate(other)
				}
				if flood.costs.suspendedUntil == 0 {
					looked++
				}
				longest = max(longest, flood.costs.suspendedUntil-w.now)
			}
			most := (float64(checksPerSecond)*(length+checksBurst).Seconds() + 1000) / c.checks
			if float64(looked) > most+1 {
				t.Errorf("it was looked at %d times in %v, want at most %.0f", looked, length, most)
			}
			if looked == 0 || longest > maxDelay {
				t.Errorf("it was looked at %d times, and once not for %v", looked, longest)
			}
		})
	}
}

// A program that writes an entry before it rings and signals is never delayed, however often it does. Nor is
// it if its doorbells and signals are seen after its entries were taken.
func TestHonestIsNotDelayed(t *testing.T) {
	w := newFloodWorld(t)
	c := w.process(1, 12)
	for i := range 30_000 { // at one point in time
		c.post(i%12, false)
		if i%5 == 0 { // the engine is awake for some other reason, takes the entry, and finds the signal later
			w.f.Take()
		}
		w.iterate(c)
		if c.costs.suspendedUntil != 0 {
			t.Fatalf("delayed after %d entries", i+1)
		}
	}
}

// The doorbells of thousands of rings may be seen after the entries were taken that they are for.
func TestLateDoorbells(t *testing.T) {
	const rings = 2000
	w := newFloodWorld(t)
	c := w.process(1, rings)
	for range 5 {
		for i := range rings {
			c.post(i, false)
		}
		for w.f.Waiting() {
			w.iterate(c)
		}
		for i := range uint32(rings) {
			c.doorbell.Set(i)
		}
		for w.f.Waiting() {
			w.iterate(c)
		}
	}
	if c.costs.suspendedUntil != 0 {
		t.Error("delayed")
	}
}

// An entry of a process that is delayed is taken when the delay is over: the engine does not sleep longer. The
// eventfd of the process does not end its sleep before.
func TestDelayEnds(t *testing.T) {
	w := newFloodWorld(t)
	c := w.process(1, 2)
	for c.costs.suspendedUntil == 0 {
		c.storm()
		w.iterate(c)
	}
	c.doorbell.Take(nil, func(uint32) {})
	c.post(1, false)
	if w.iterate(c) != 0 || w.f.Waiting() || !w.f.Sleep() {
		t.Error("a process is looked at while it is delayed")
	}
	c.signal()
	if n, err := unix.EpollWait(w.f.epoll, w.f.events[:], 0); n != 0 || err != nil {
		t.Errorf("its signal ends the sleep: %d events, %v", n, err)
	}
	d, some := w.f.Due()
	if !some || d <= 0 || d > maxDelay {
		t.Fatalf("the engine is to look again in %v (%v)", d, some)
	}
	w.now += d - 1
	if w.iterate(c) != 0 {
		t.Error("looked at before the delay is over")
	}
	w.now++
	if got := w.iterate(c); got != 1 {
		t.Errorf("%d entries taken at the end of the delay", got)
	}
	if _, some := w.f.Due(); some || c.costs.inVain > 0 {
		t.Errorf("something is still due: %v; a cost of %v, though nothing was in vain", some, c.costs.inVain)
	}
	w.now += time.Second
	for c.costs.suspendedUntil == 0 {
		c.storm()
		w.iterate(c)
	}
	c.doorbell.Take(nil, func(uint32) {})
	w.now = c.costs.suspendedUntil
	before := c.costs.inVain
	if w.iterate(c); c.costs.suspendedUntil != 0 || c.costs.inVain != before {
		t.Errorf("the end of a delay counts %v", c.costs.inVain-before)
	}
	w.f.Sleep()
	c.signal()
	if n, err := unix.Poll([]unix.PollFd{{Fd: int32(w.f.epoll), Events: unix.POLLIN}}, 0); n != 1 || err != nil {
		t.Errorf("after the delay, a signal does not end the sleep: %v", err)
	}
	if w.iterate(c); c.costs.inVain != before+checksOfSignal*checkCost {
		t.Errorf("a signal counts %v, want that of %d ring checks", c.costs.inVain-before, checksOfSignal)
	}
	for c.costs.suspendedUntil == 0 {
		c.storm()
		w.iterate(c)
	}
	w.now = c.costs.suspendedUntil
	w.f.statusPage.Asleep().Store(0)
	for range resumeEvery {
		w.f.Take()
	}
	if c.costs.suspendedUntil == w.now {
		t.Error("the delay goes on while the engine does not sleep")
	}
}

// reopen has a process leave, and returns one that opens the device in its place.
func (w *floodWorld) reopen(c *flooder) *flooder {
	w.f.leave(c.rings)
	w.f.forget(c.wake)
	c.costs.account.Close()
	return w.process(1, 1)
}

// All processes of a user together are limited, also those that begin later. Signals to another process of the user do not
// wait for them.
func TestFloodsOfUser(t *testing.T) {
	w := newFloodWorld(t)
	all := []*flooder{w.process(1, 1), w.process(1, 1), w.process(1, 1), w.process(1, 1)}
	honest := w.process(1, 1)
	const length, step = 2 * time.Second, 20 * time.Microsecond
	checks, reopened := 0, 0
	for end := w.now + length; w.now < end; w.now += step {
		if w.now%(10*time.Millisecond) == 0 {
			reopened++
			all[0] = w.reopen(all[0])
		}
		for _, c := range all {
			if c.costs.suspendedUntil == 0 {
				c.storm()
				checks += checksOfStorm
			}
		}
		if honest.notify(); honest.costs.deferredSignalAt > w.now+time.Millisecond {
			t.Fatalf("a signal to an honest process waits %v", honest.costs.deferredSignalAt-w.now)
		}
		w.iterate(honest)
	}
	if most := userChecksPerSecond*(length+userBurst).Seconds() + 4*checksOfStorm; float64(checks) > most || reopened < 100 {
		t.Errorf("%d ring checks in %v, want at most %.0f; %d times reopened", checks, length, most, reopened)
	}
	for _, c := range append(all, honest) {
		w.f.leave(c.rings)
	}
	if len(w.f.byFD) != 0 || len(w.f.processes) != 0 || w.f.delayed != 0 {
		t.Errorf("%d descriptors, %d processes and %d delays are left", len(w.f.byFD), len(w.f.processes), w.f.delayed)
	}
}

// Each process of a user has its own limit of signals. All of them together take no more than what the user has saved: no
// process is suspended for them, nor does one begin so.
func TestSignalsOfUser(t *testing.T) {
	w := newFloodWorld(t)
	all := []*flooder{w.process(1, 1), w.process(1, 1), w.process(1, 1), w.process(1, 1)}
	for range signalsPerSecond {
		for i, c := range all {
			if c.notify(); c.costs.deferredSignalAt != 0 {
				t.Fatalf("process %d waits for a signal at %d a second", i, signalsPerSecond)
			}
		}
		w.now += time.Second / signalsPerSecond
	}
	late := w.process(1, 1)
	if late.costs.suspendedUntil != 0 {
		t.Errorf("a new process is suspended for %v", late.costs.suspendedUntil-w.now)
	}
	for i := range 1000 {
		if all[1].notify(); i == 999 && all[1].costs.deferredSignalAt == 0 {
			t.Error("no signal is deferred after 1000 at once")
		}
	}
}

// A process cannot make its eventfd unreadable: then its signals would end sleeps in the kernel, and not be
// counted.
func TestWakeStaysReadable(t *testing.T) {
	fd, err := newWake()
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	b := make([]byte, 8)
	for range 100 {
		if n, err := unix.Read(fd, b); n != 8 || err != nil || binary.NativeEndian.Uint64(b) != 1 {
			t.Fatalf("a read takes %d: %v", binary.NativeEndian.Uint64(b), err)
		}
	}
	if n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0); n != 1 || err != nil {
		t.Error("it is not readable")
	}
	if n, err := unix.Write(fd, binary.NativeEndian.AppendUint64(nil, 1)); n != 8 || err != nil {
		t.Errorf("a signal: %v", err)
	}
}

// Signals to a process beyond the limit are sent as one, and none is lost.
func TestSignalsWait(t *testing.T) {
	w := newFloodWorld(t)
	c := w.process(1, 1)
	server, process, err := signalPair()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { proto.CloseFDs([]int{server, process}) }()
	c.rings.signal = server
	b := make([]byte, 1<<16)
	received := func() int {
		n, err := unix.Read(process, b)
		if err != nil {
			return 0
		}
		return n
	}
	total := 0
	const length, step = time.Second, time.Microsecond
	for end := w.now + length; w.now < end; w.now += step {
		c.notify()
		w.iterate(c)
		total += received()
	}
	if most := int(signalsPerSecond*(length+signalsBurst).Seconds()) + 1; total > most || total < most-2 {
		t.Errorf("%d signals in %v, want %d", total, length, most)
	}
	c.notify()
	d, some := w.f.Due()
	if !some || d > time.Second/signalsPerSecond {
		t.Fatalf("the deferred signal is due in %v (%v)", d, some)
	}
	w.now += d
	w.iterate(c)
	if _, some := w.f.Due(); received() != 1 || some {
		t.Errorf("the deferred signal is lost, or due again: %v", some)
	}
	for i := range 1000 { // 20 000 a second
		w.now += 50 * time.Microsecond
		if c.notify(); received() != 1 {
			t.Fatalf("signal %d at 20 000 a second waits", i)
		}
	}
}
