// SPDX-License-Identifier: Apache-2.0

package device

import (
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/loader/device/limits"
	"github.com/softroce/softroce-xdp/rocev2/ring"
)

// What a process costs the server besides moving its data is taken from the budget of its user and from its own
// (package limits), in processor time. Messages cost what cpulimit.go says. The engine's thread counts here what a process
// has it do in vain: ring checks without entries, and ends of its sleep. A process that is over its limit is suspended: its
// rings are not checked until it is below the limit again. Its entries wait so long; none is lost.
//
// A program that rings the doorbell, or signals, only after it has written an entry is never suspended, whatever its
// rate: the credit of each entry that is taken is one doorbell and one signal.
//
// Signals to a process are taken from the same budget. Those beyond the limit are sent later, several as one. They wait for
// the process's own limit only, so a process that is suspended for its own ring checks gets its signals after that. The
// signal after one that took long waits for the limit of such signals of the user too.

const (
	// checkCost is the cost of a ring without entries, and of a group of the doorbell: 25 000 a second of a process.
	checkCost = 400 * time.Nanosecond
	// wakeCost is the cost of the end of a sleep, with its system calls.
	wakeCost = 64 * checkCost
	// entryCredit is the credit of an entry: its ring, its group, its signal.
	entryCredit = 2*checkCost + wakeCost

	// uncounted is the cost that is counted without reading the clock.
	uncounted = 64 * checkCost
	// maxCredit is the largest credit: what is counted after the entries were taken. There is at most one signal, and
	// one doorbell for each ring.
	maxCredit = 2*ring.Queues*checkCost + wakeCost

	// signalCost is the cost of a signal to a process: 50 000 a second of a process, which leave nothing for ring checks in
	// vain. A program that sleeps until each of its messages gets some 20 000. A signal takes 1 to 5 us. Of that, one part
	// in signalDiscount counts, since a signal belongs to a completion that the process waits for.
	signalCost     = 5 * time.Microsecond / signalDiscount
	signalDiscount = 25
)

// engineCosts are what a process costs the engine's thread, which is the only one that uses them.
type engineCosts struct {
	account          *limits.Process
	inVain           time.Duration // cost in vain that was not taken from the budget yet; negative: credit
	suspendedUntil   time.Duration // end of the suspension of the process; 0: it is not suspended
	renewed          bool          // the next event of its eventfd is not a signal
	deferredSignalAt time.Duration // time at which the deferred signal is sent; 0: none
	slowSignals      int           // signals in a row that took long
}

// credit counts n entries that were taken.
func (k *engineCosts) credit(n int) {
	k.inVain = max(k.inVain-time.Duration(n)*entryCredit, -maxCredit)
}

// checks counts n ring checks in vain.
func (k *engineCosts) checks(n int) { k.inVain += time.Duration(n) * checkCost }

// pay takes the cost in vain from the budget, and returns for how long the process is to be suspended.
func (k *engineCosts) pay(now time.Duration) time.Duration {
	cost := max(k.inVain, 0)
	k.inVain = 0
	return k.account.SpendEngine(now, cost)
}

// join begins to serve a process. It begins suspended if others of its user are over the limit: a process that is opened
// again and again costs no more than one that stays.
func (f *feeder) join(r *rings) {
	f.byFD[int32(r.wake)] = r
	f.processes = append(f.processes, r)
	f.charge(r)
}

// leave is the inverse of join.
func (f *feeder) leave(r *rings) {
	f.processes = slices.DeleteFunc(f.processes, func(x *rings) bool { return x == r })
	delete(f.byFD, int32(r.wake))
	if r.costs.suspendedUntil != 0 {
		f.delayed--
	}
	if r.costs.deferredSignalAt != 0 {
		f.delayed--
	}
}

// count delays a process that is over its limit.
func (f *feeder) count(r *rings) {
	if r.costs.inVain > uncounted {
		f.charge(r)
	}
}

// charge takes the cost in vain of a process from the budget, and suspends the process if it is over its limit.
func (f *feeder) charge(r *rings) {
	k, now := &r.costs, f.now()
	if wait := k.pay(now); wait > 0 && k.suspendedUntil == 0 {
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
			r.costs.inVain += wakeCost
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
	wait := k.account.SpendSignal(now, signalCost)
	if k.slowSignals > 0 { // the one before took long
		wait = max(wait, k.account.SpendLongSignal(now, 0))
	}
	if wait > 0 {
		k.deferredSignalAt = now + wait
		f.delayed++
		return
	}
	r.alert()
}
