// SPDX-License-Identifier: Apache-2.0

package device

import (
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/loader/device/limits"
	"github.com/softroce/softroce-xdp/rocev2/ring"
)

// What a process has the engine's thread do in vain is limited: looking at rings without entries, and
// ending its sleep. It is counted in looks, of some 300 ns each. The engine's thread does not look at a
// process that is over its limit until it is below the limit again. Its entries wait so long; none is
// lost.
//
// A program that rings the doorbell, or signals, only after it has written an entry is never delayed,
// whatever its rate: each entry that is taken pays for one doorbell and one signal.
//
// Signals to a process are limited too. Those beyond the limit are sent later, several as one.

const (
	// looksPerSecond is what a process may cost on average: about 1 % of a core. looksOfUser is that of
	// all processes of a user, and looksSaved for how long those that were not made are kept. It is
	// short, as a process that opens the device again has them again.
	looksPerSecond = 25_000
	looksOfUser    = 2 * looksPerSecond
	looksSaved     = 10 * time.Millisecond

	// looksOfSignal is what the end of a sleep counts, with its system calls. A ring without entries
	// counts 1, and a group of the doorbell also.
	looksOfSignal = 64
	// looksOfEntry is what an entry pays for: its ring, its group, its signal.
	looksOfEntry = 2 + looksOfSignal

	// looksAtOnce is how many are counted without reading the clock.
	looksAtOnce = 64
	// looksPaid is how much is paid ahead at most: what was counted after its entries were taken. There is at
	// most one signal, and one doorbell for each ring.
	looksPaid = 2*ring.Queues + looksOfSignal

	// signalsPerSecond is how many signals a process gets: a program that sleeps until each of its
	// messages gets some 20 000. Several threads together may get as many as one signal every 20 us.
	signalsPerSecond = 50_000
	signalsSaved     = 10 * time.Millisecond
)

// costs are what a process has cost the engine's thread, which is the only one that uses them.
type costs struct {
	looks   int // ring checks that no bucket has counted yet; negative: paid ahead
	bucket  limits.Bucket
	user    *userCosts
	until   time.Duration // nobody looks at the process before; 0: it is not delayed
	renewed bool          // the next event of its eventfd is not a signal
	signals limits.Bucket
	owed    time.Duration // time at which the deferred signal is sent; 0: none
}

// userCosts are those of all processes of a user together.
type userCosts struct {
	bucket    limits.Bucket
	processes int
}

// pay counts that n entries were taken.
func (k *costs) pay(n int) { k.looks = max(k.looks-n*looksOfEntry, -looksPaid) }

// wait counts the looks of the process, and returns for how long nobody is to look at it.
func (k *costs) wait(now time.Duration) time.Duration {
	n := uint64(max(k.looks, 0))
	k.looks = 0
	return max(k.bucket.Spend(now, n, looksPerSecond, looksSaved), k.user.bucket.Spend(now, n, looksOfUser, looksSaved))
}

// join begins to serve a process.
func (f *feeder) join(c *session) {
	u := f.users[c.uid]
	if u == nil {
		u = &userCosts{}
		f.users[c.uid] = u
	}
	u.processes++
	c.costs.user = u
	f.byFD[int32(c.wake)] = c
	f.sessions = append(f.sessions, c)
}

// leave is the inverse of join.
func (f *feeder) leave(c *session) {
	f.sessions = slices.DeleteFunc(f.sessions, func(x *session) bool { return x == c })
	delete(f.byFD, int32(c.wake))
	if c.costs.user.processes--; c.costs.user.processes == 0 {
		delete(f.users, c.uid)
	}
	if c.costs.until != 0 {
		f.delayed--
	}
	if c.costs.owed != 0 {
		f.delayed--
	}
}

// count delays a process that is over its limit.
func (f *feeder) count(c *session) {
	k := &c.costs
	if k.looks <= looksAtOnce {
		return
	}
	now := f.now()
	if wait := k.wait(now); wait > 0 && k.until == 0 {
		k.until = now + wait
		f.delayed++
		f.listen(c, silent)
	}
}

// listen sets the events of a process's eventfd that end the sleep. It does not remove the eventfd and add
// it again: that would wait for the lock of the eventfd, which the process can hold for long.
func (f *feeder) listen(c *session, events uint32) {
	_ = unix.EpollCtl(f.epoll, unix.EPOLL_CTL_MOD, c.wake, &unix.EpollEvent{Events: events, Fd: int32(c.wake)})
}

// resumeEvery is in which iterations delays end while the engine does not sleep: reading the clock in each one
// would cost others more than the delayed process.
const resumeEvery = 16

// resume ends delays that are over, and sends signals that are due. It reports whether a process is
// looked at again. slept: this is the first iteration after a sleep.
func (f *feeder) resume(slept bool) (again bool) {
	if f.delayed == 0 {
		return false
	}
	if f.skipped++; !slept && f.skipped < resumeEvery {
		return false
	}
	f.skipped = 0
	now := f.now()
	for _, c := range f.sessions {
		k := &c.costs
		if k.until != 0 && k.until <= now {
			k.until, k.renewed = 0, true
			f.delayed--
			f.listen(c, wakeEvents)
			again = true
		}
		if k.owed != 0 && k.owed <= now {
			k.owed = 0
			f.delayed--
			c.alert()
		}
	}
	return again
}

// Due implements nic.Feeder.
func (f *feeder) Due() (d time.Duration, some bool) {
	if f.delayed == 0 {
		return 0, false
	}
	first := time.Duration(1<<63 - 1)
	for _, c := range f.sessions {
		for _, at := range [...]time.Duration{c.costs.until, c.costs.owed} {
			if at != 0 {
				first = min(first, at)
			}
		}
	}
	return max(0, first-f.now()), true
}

const (
	// wakeEvents are the events of an eventfd that end the sleep.
	wakeEvents = unix.EPOLLIN | unix.EPOLLET
	// silent is none but EPOLLERR, which cannot be excluded, and only once: by asynchronous I/O, a process can
	// have its eventfd overflow, and in that state it always has EPOLLERR.
	silent = unix.EPOLLET
)

// readSignals counts the signals of processes. There is at most one of each.
func (f *feeder) readSignals() {
	n, _ := unix.EpollWait(f.epoll, f.events[:], 0) // takes the edges; more of them end the next sleep
	for _, e := range f.events[:max(n, 0)] {
		c := f.byFD[e.Fd]
		switch {
		case c == nil:
		case c.costs.renewed:
			c.costs.renewed = false
		default:
			c.costs.looks += looksOfSignal
		}
	}
}

// newWake makes the eventfd by which a process ends the sleep of the engine. It is always readable: otherwise
// the process could make it so, and read it before the engine's thread has, which would end the
// sleep of the thread in the kernel and not show here. A read takes 1 of its 2^62 (EFD_SEMAPHORE).
func newWake() (int, error) {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK|unix.EFD_SEMAPHORE)
	if err != nil {
		return -1, err
	}
	full := [8]byte{7: 1 << 6} // 2^62 in little-endian order
	if _, err := unix.Write(fd, full[:]); err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// notify wakes the process, now or when it may get another signal.
func (c *session) notify() {
	k := &c.costs
	if k.owed != 0 {
		return
	}
	f := c.s.feeder
	now := f.now()
	if wait := k.signals.Spend(now, 1, signalsPerSecond, signalsSaved); wait > 0 {
		k.owed = now + wait
		f.delayed++
		return
	}
	c.alert()
}
