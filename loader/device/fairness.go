// SPDX-License-Identifier: Apache-2.0

package device

import (
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/loader/device/limits"
	"github.com/softroce/softroce-xdp/rocev2/ring"
)

// The work that a process causes in vain is limited: checks of rings without entries, and ends of the sleep of the
// engine's thread. It is counted in ring checks, of some 300 ns each. A process that is over its limit is suspended: its
// rings are not checked until it is below the limit again. Its entries wait so long; none is lost.
//
// A program that rings the doorbell, or signals, only after it has written an entry is never delayed,
// whatever its rate: the credit of each entry that is taken is one doorbell and one signal.
//
// Signals to a process are limited too. Those beyond the limit are sent later, several as one.

const (
	// checksPerSecond is the mean cost of a process: about 1 % of a core. userChecksPerSecond is the sum of all processes
	// of a user, and checksBurst the time for which unused ring checks are kept. It is short, as a process that opens the
	// device again has them again.
	checksPerSecond     = 25_000
	userChecksPerSecond = 2 * checksPerSecond
	checksBurst         = 10 * time.Millisecond

	// checksOfSignal is the cost of the end of a sleep, with its system calls. A ring without entries
	// counts 1, and a group of the doorbell also.
	checksOfSignal = 64
	// checksOfEntry is the credit of an entry: its ring, its group, its signal.
	checksOfEntry = 2 + checksOfSignal

	// checksAtOnce is the number of ring checks that are counted without reading the clock.
	checksAtOnce = 64
	// maxCredit is the largest credit: the ring checks that are counted after the entries were taken. There is at
	// most one signal, and one doorbell for each ring.
	maxCredit = 2*ring.Queues + checksOfSignal

	// signalsPerSecond is how many signals a process gets: a program that sleeps until each of its
	// messages gets some 20 000. Several threads together may get as many as one signal every 20 us.
	signalsPerSecond = 50_000
	signalsBurst     = 10 * time.Millisecond
)

// costs are what a process has cost the engine's thread, which is the only one that uses them.
type costs struct {
	ringChecks       int // ring checks that no bucket has counted yet; negative: credit
	bucket           limits.Bucket
	user             *userCosts
	suspendedUntil   time.Duration // end of the suspension of the process; 0: it is not suspended
	renewed          bool          // the next event of its eventfd is not a signal
	signals          limits.Bucket
	deferredSignalAt time.Duration // time at which the deferred signal is sent; 0: none
}

// userCosts are those of all processes of a user together.
type userCosts struct {
	bucket    limits.Bucket
	processes int
}

// credit counts the ring checks of n entries that were taken.
func (k *costs) credit(n int) { k.ringChecks = max(k.ringChecks-n*checksOfEntry, -maxCredit) }

// wait counts the ring checks of the process, and returns for how long it is to be suspended.
func (k *costs) wait(now time.Duration) time.Duration {
	n := uint64(max(k.ringChecks, 0))
	k.ringChecks = 0
	return max(k.bucket.Spend(now, n, checksPerSecond, checksBurst), k.user.bucket.Spend(now, n, userChecksPerSecond, checksBurst))
}

// join begins to serve a process.
func (f *feeder) join(r *rings) {
	u := f.users[r.socket.process.uid]
	if u == nil {
		u = &userCosts{}
		f.users[r.socket.process.uid] = u
	}
	u.processes++
	r.costs.user = u
	f.byFD[int32(r.wake)] = r
	f.processes = append(f.processes, r)
}

// leave is the inverse of join.
func (f *feeder) leave(r *rings) {
	f.processes = slices.DeleteFunc(f.processes, func(x *rings) bool { return x == r })
	delete(f.byFD, int32(r.wake))
	if r.costs.user.processes--; r.costs.user.processes == 0 {
		delete(f.users, r.socket.process.uid)
	}
	if r.costs.suspendedUntil != 0 {
		f.delayed--
	}
	if r.costs.deferredSignalAt != 0 {
		f.delayed--
	}
}

// count delays a process that is over its limit.
func (f *feeder) count(r *rings) {
	k := &r.costs
	if k.ringChecks <= checksAtOnce {
		return
	}
	now := f.now()
	if wait := k.wait(now); wait > 0 && k.suspendedUntil == 0 {
		k.suspendedUntil = now + wait
		f.delayed++
		f.listen(r, silent)
	}
}

// listen sets the events of a process's eventfd that end the sleep. It does not remove the eventfd and add
// it again: that would wait for the lock of the eventfd, which the process can hold for long.
func (f *feeder) listen(r *rings, events uint32) {
	_ = unix.EpollCtl(f.epoll, unix.EPOLL_CTL_MOD, r.wake, &unix.EpollEvent{Events: events, Fd: int32(r.wake)})
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
	for _, r := range f.processes {
		k := &r.costs
		if k.suspendedUntil != 0 && k.suspendedUntil <= now {
			k.suspendedUntil, k.renewed = 0, true
			f.delayed--
			f.listen(r, wakeEvents)
			again = true
		}
		if k.deferredSignalAt != 0 && k.deferredSignalAt <= now {
			k.deferredSignalAt = 0
			f.delayed--
			r.alert()
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
	for _, r := range f.processes {
		for _, at := range [...]time.Duration{r.costs.suspendedUntil, r.costs.deferredSignalAt} {
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
		r := f.byFD[e.Fd]
		switch {
		case r == nil:
		case r.costs.renewed:
			r.costs.renewed = false
		default:
			r.costs.ringChecks += checksOfSignal
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
func (r *rings) notify() {
	k := &r.costs
	if k.deferredSignalAt != 0 {
		return
	}
	f := r.feeder
	now := f.now()
	if wait := k.signals.Spend(now, 1, signalsPerSecond, signalsBurst); wait > 0 {
		k.deferredSignalAt = now + wait
		f.delayed++
		return
	}
	r.alert()
}
