// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"time"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/cc/fourcase"
)

// A destination that we meet by sending data to it at full speed answers its first
// HELLO through the queue that this data has filled, and that would be its
// baseline. So when the first sample is not from before data, we pause for as long
// as a packet was under way: then all that was on the road has arrived, and a
// HELLO finds the network as it is without us. Once for each destination.

const (
	// drainMax bounds the pause, and with it the queue that can be found out.
	drainMax = 250 * time.Millisecond
	// drainSlack is how late the HELLO may be and still be ahead of the data.
	drainSlack = 3 * time.Millisecond
	// drainAnswer is how long after the pause we take an echo for the HELLO's.
	drainAnswer = 200 * time.Millisecond
)

// drain is the pause of one destination; times are of the monotonic clock.
type drain struct {
	peer       bpf.DestKey
	hello, end uint64 // when to send it, and when data goes on
	class      uint32 // htb: slowed down until the end
	sent, over bool   // the HELLO, the pause
	answered   bool
}

// drains are the pauses: all that there were, so that no destination has two, and
// those that are not over.
type drains struct {
	all map[bpf.DestKey]*drain
	now []*drain
}

// firstLoaded says that this step took the baseline from a sample that our own
// data may have delayed. A peer that echoes nothing would not answer a HELLO either.
func firstLoaded(before, after *fourcase.Regs, s *fourcase.Sample) bool {
	oneWay := func(r *fourcase.Regs) bool {
		return r.State&(fourcase.StateBase|fourcase.StateRTT) == fourcase.StateBase
	}
	return !s.Idle && !oneWay(before) && oneWay(after)
}

// startDrain begins the pause, by way of the slot that is applied after this.
func (a *Agent) startDrain(slot *bpf.ExchangeSlot, s *fourcase.Sample, now uint64) {
	d, kind := &slot.Regs, a.pacer.Kind()
	if kind != bpf.PacerEDT && kind != bpf.PacerHTB || kind == bpf.PacerHTB && d.ClassId == 0 || a.drains.all[slot.Key] != nil {
		return // others cannot make packets wait
	}
	underWay := uint64(min(max(s.RTT, s.Tx+s.Rx, 0), int64(drainMax)))
	if underWay <= a.cfg.Policy.TargetNs {
		return // there is no room in it for a queue that matters
	}
	empty := emptyAt(slot)
	waits := max(empty, now) - now // what the pacer holds
	if waits > uint64(drainMax) {
		return
	}
	x := &drain{peer: slot.Key, hello: now + underWay}
	if empty+uint64(drainMax) > now { // else nothing has been sent for long
		switch kind {
		case bpf.PacerEDT: // what it holds has its time and leaves first
			x.hello += waits
		case bpf.PacerHTB: // it knows no times: what it holds, it holds by the rate
			if _, err := a.pacer.SetRate(d.ClassId, a.cfg.Policy.MinRateBps); err != nil {
				return
			}
			x.class = d.ClassId
		}
		moveEmpty(slot, int64(now+waits+underWay+uint64(drainSlack)-empty))
	}
	x.end = x.hello + uint64(drainSlack)
	a.drains.all[slot.Key] = x
	a.drains.now = append(a.drains.now, x)
	a.log.Debug("pause for the baseline", "peer", bpf.AddrOf(slot.Key), "for", time.Duration(x.end-now))
}

// drainStep does what is due in the pauses, and returns the time to the next thing
// that is; next if that is sooner.
func (a *Agent) drainStep(now uint64, next time.Duration) time.Duration {
	rest := a.drains.now[:0]
	for _, x := range a.drains.now {
		if !x.sent && now >= x.hello {
			x.sent = true
			a.hello.ask(x.peer)
		}
		if now >= x.end {
			x.over = true
			a.endDrain(x)
			continue
		}
		due := x.end
		if !x.sent {
			due = x.hello
		}
		next = min(next, time.Duration(due-now))
		rest = append(rest, x)
	}
	clear(a.drains.now[len(rest):])
	a.drains.now = rest
	return next
}

// endDrain gives the class its rate back.
func (a *Agent) endDrain(x *drain) {
	if x.class == 0 {
		return
	}
	row, found, err := a.att.Lookup(bpf.AddrOf(x.peer))
	if err == nil && found && row.Regs.ClassId == x.class {
		_, err = a.pacer.SetRate(x.class, row.Regs.StackRateBps)
	}
	if err != nil {
		a.log.Warn("pacer", "peer", bpf.AddrOf(x.peer), "err", err)
	}
}

// paused reports whether a destination's data waits for its baseline.
func (ds *drains) paused(key bpf.DestKey) bool {
	x := ds.all[key]
	return x != nil && !x.over
}

// answers reports whether this window holds the answer to the HELLO that went out
// in a pause. If data's echoes are in it too, it only lowers the baseline as well.
func (ds *drains) answers(key bpf.DestKey, s *fourcase.Sample, now uint64) bool {
	x := ds.all[key]
	if x == nil || !x.sent || x.answered || s.Samples == 0 {
		return false
	}
	x.answered = true
	return now < x.end+uint64(drainAnswer)
}
