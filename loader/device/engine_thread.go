// SPDX-License-Identifier: Apache-2.0

package device

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/loader/device/limits"
)

// What the engine's thread does for a process without waiting: lines for the log, and signals.

// note is a line for the log.
type note struct {
	text     string
	pid, uid uint32
}

const (
	noteBacklog = 16
	// noteRate is how many lines a second a process can cause, and noteSaved for how long those that
	// were not written are kept.
	noteRate  = 1
	noteSaved = 10 * time.Second
)

// warn has a line written to the log. Beyond noteBacklog, lines are lost.
func (k *socket) warn(text string) {
	select {
	case k.s.notes <- note{text, k.process.pid, k.process.uid}:
	default:
	}
}

// writeNotes writes the lines at a limited rate.
func (s *Server) writeNotes() {
	var b limits.Bucket
	for {
		select {
		case n := <-s.notes:
			s.log.Warn(n.text, "pid", n.pid, "uid", n.uid)
		case <-s.done:
			return
		}
		select {
		case <-time.After(b.Spend(s.now(), 1, noteRate, noteSaved)):
		case <-s.done:
			return
		}
	}
}

const (
	// slowSignal is how long a signal may take. A process can wait for its socket with very many epoll
	// entries, and the kernel visits all of them: 10 000 take about this long. The usual signal takes 1 to
	// 5 us, but up to 300 us in a virtual machine, where waking a sleeping processor leaves the machine.
	slowSignal = time.Millisecond
	// longSignal is how long a signal, or a message, may take before its CPU time counts. So long signals of a process
	// take at most a quarter of the engine's thread: signalDiscount times what a process may cost it. Those of all processes
	// of a user take no more (limits.Process.SpendLongSignal).
	longSignal = 250 * time.Microsecond
	// maxSlowSignals is how many in a row end the connection of the process.
	maxSlowSignals = 8
)

// alert wakes the process. The engine's thread calls it. The signal after one that took long is measured
// in CPU time of the thread, which costs system calls: the woken process may have taken the processor.
func (r *rings) alert() {
	switch {
	case r.costs.slowSignals > maxSlowSignals:
		return
	case r.costs.slowSignals == 0:
		began := r.feeder.now()
		signalProcess(r.signal)
		if r.feeder.now()-began >= longSignal {
			r.costs.slowSignals = 1
		}
		return
	}
	began := threadTime()
	signalProcess(r.signal)
	took := threadTime() - began
	if took < longSignal {
		r.costs.slowSignals = 0
		return
	}
	now := r.feeder.now()
	r.costs.account.SpendEngine(now, took/signalDiscount)
	r.costs.account.SpendLongSignal(now, took)
	if took < slowSignal {
		r.costs.slowSignals = 1
		return
	}
	if r.costs.slowSignals++; r.costs.slowSignals > maxSlowSignals {
		r.socket.warn("to signal a process takes too long: it loses its connection; it waits for its socket in too many places")
		r.socket.hangUp()
	}
}

// threadTime is the CPU time of this thread.
func threadTime() time.Duration {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t)
	return time.Duration(t.Nano())
}
