// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"time"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/cc/fourcase"
)

// The baseline pause. If the first packets to a destination are data at full speed, the
// answer to its first HELLO passes the queue that this data has filled, and its delay would
// become the base delay. If the first sample is not from before the data, the data is
// therefore paused for one RTT, so that all packets in flight arrive. A HELLO at the end of
// the pause measures the network without traffic of this host. Each destination has one
// such pause.

const (
	// pauseMax bounds the pause, and with it the queueing delay that can be excluded.
	pauseMax = 250 * time.Millisecond
	// pauseSlack is by how much the HELLO may be late and still leave before the data.
	pauseSlack = 3 * time.Millisecond
	// pauseAnswer is the time after the pause in which an echo counts as that of the HELLO.
	pauseAnswer = 200 * time.Millisecond
)

// baselinePause is the pause of one destination; times are of the monotonic clock.
type baselinePause struct {
	peer       bpf.DestKey
	hello, end uint64 // departure of the HELLO; end of the pause
	class      uint32 // HTB class whose rate is lowered until the end; 0 = none
	sent, over bool   // the HELLO was sent; the pause has ended
	answered   bool   // the HELLO was answered
}

// baselinePauses has all pauses, so that no destination has a second one. Those in active have
// not ended.
type baselinePauses struct {
	all    map[bpf.DestKey]*baselinePause
	active []*baselinePause
}

// firstLoaded reports whether this step took the first base delay from a sample that data
// of this host may have delayed. before and after are fourcase.Regs.State. A peer that
// echoes nothing does not answer a HELLO either.
func firstLoaded(before, after uint8, s *fourcase.Sample) bool {
	oneWay := func(state uint8) bool {
		return state&(fourcase.StateBase|fourcase.StateRTT) == fourcase.StateBase
	}
	return !s.Idle && !oneWay(before) && oneWay(after)
}

// startPause begins the pause.
func (l *Loop) startPause(st *step, s *fourcase.Sample, now uint64) {
	kind := l.cfg.Pacer
	if kind != bpf.PacerEDT && kind != bpf.PacerHTB || kind == bpf.PacerHTB && st.class == 0 || l.pauses.all[st.key] != nil {
		return // the other pacers cannot delay packets
	}
	inFlight := uint64(min(max(s.RTT, s.Tx+s.Rx, 0), int64(pauseMax)))
	if inFlight <= l.cfg.Policy.TargetNs {
		return // the RTT is too short to contain a queueing delay that matters
	}
	empty := st.emptyAt()
	waits := max(empty, now) - now // time until the pacer is empty
	if waits > uint64(pauseMax) {
		return
	}
	x := &baselinePause{peer: st.key, hello: now + inFlight}
	if empty+uint64(pauseMax) > now { // else no data was sent recently
		switch kind {
		case bpf.PacerEDT: // waiting packets have departure times, and leave first
			x.hello += waits
		case bpf.PacerHTB: // waiting packets leave by the rate of the class
			if _, err := l.pacer.SetRate(st.class, l.cfg.Policy.MinRateBps); err != nil {
				return
			}
			x.class = st.class
		}
		st.shiftNextTx(int64(now + waits + inFlight + uint64(pauseSlack) - empty))
	}
	x.end = x.hello + uint64(pauseSlack)
	l.pauses.all[st.key] = x
	l.pauses.active = append(l.pauses.active, x)
	l.log.Debug("pause for the baseline", "peer", bpf.AddrOf(st.key), "for", time.Duration(x.end-now))
}

// AdvancePauses sends the HELLOs that are due and ends pauses. It returns the time until it
// has to be called again, at most next.
func (l *Loop) AdvancePauses(now uint64, next time.Duration) time.Duration {
	rest := l.pauses.active[:0]
	for _, x := range l.pauses.active {
		if !x.sent && now >= x.hello {
			x.sent = true
			l.hello(x.peer)
		}
		if now >= x.end {
			x.over = true
			l.endPause(x)
			continue
		}
		due := x.end
		if !x.sent {
			due = x.hello
		}
		next = min(next, time.Duration(due-now))
		rest = append(rest, x)
	}
	clear(l.pauses.active[len(rest):])
	l.pauses.active = rest
	return next
}

// endPause restores the rate of the class.
func (l *Loop) endPause(x *baselinePause) {
	if x.class == 0 {
		return
	}
	var d bpf.DestRegs
	found, err := l.table.Lookup(x.peer, &d)
	if err == nil && found && d.ClassId == x.class {
		_, err = l.pacer.SetRate(x.class, d.StackRateBps)
	}
	if err != nil {
		l.log.Warn("pacer", "peer", bpf.AddrOf(x.peer), "err", err)
	}
}

// paused reports whether the data of a destination is paused.
func (ps *baselinePauses) paused(key bpf.DestKey) bool {
	x := ps.all[key]
	return x != nil && !x.over
}

// answers reports whether this window contains the answer to the HELLO that was sent in a
// pause. The window may contain echoes of data too; the sample is a minimum, so it can only
// lower the base delay.
func (ps *baselinePauses) answers(key bpf.DestKey, s *fourcase.Sample, now uint64) bool {
	x := ps.all[key]
	if x == nil || !x.sent || x.answered || s.Samples == 0 {
		return false
	}
	x.answered = true
	return now < x.end+uint64(pauseAnswer)
}
