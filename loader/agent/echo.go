// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"time"

	"github.com/softroce/softroce-xdp/bpf"
)

// READ responses, UC and UD are not acknowledged: their sender would have no feedback
// (S1.4). A destination that had stamped data from its peer in one evaluation, and to
// which nothing with a stamp was sent meanwhile, is therefore sent an ECHO.
const (
	// echoRate and echoBurst bound the ECHOs of all destinations together. One costs
	// some 15 us of CPU time: at this rate they take 3 % of one CPU.
	echoRate  = 2000 // a second
	echoBurst = 64

	// echoMaxAge is how long egress echoes a stamp (ECHO_MAX_AGE_NS of bpf/lib/dest.h).
	echoMaxAge = uint64(time.Second)
)

// echoes decides which destinations get an ECHO. They are served in the order of the queue
// where the budget does not suffice for all.
type echoes struct {
	all    map[bpf.DestKey]*echo
	queue  []bpf.DestKey
	budget uint64 // ns; one ECHO costs a second over echoRate
	filled uint64 // last time that the budget was filled, monotonic ns
}

// echo is one destination's state.
type echo struct {
	came, went uint64 // stamped packets received and sent, at the last evaluation
	at         uint64 // last evaluation with stamped packets received, monotonic ns
	due        bool   // the stamp of those packets was not echoed yet
	queued     bool
	own        uint16 // number of the address that the packets came to
}

// note records the snapshot of a destination in an evaluation.
func (e *echoes) note(key bpf.DestKey, d *bpf.DestRegs, now uint64) {
	if d.Caps&bpf.CapStamp == 0 {
		return
	}
	x := e.all[key]
	if x == nil {
		x = &echo{}
		if e.all == nil {
			e.all = map[bpf.DestKey]*echo{}
		}
		e.all[key] = x
	}
	came, went := d.RxPackets-d.RxUnstamped, d.TxPackets-d.TxUnstamped
	switch {
	case went != x.went:
		x.due = false
	case came != x.came:
		x.due, x.at = true, now
		if !x.queued {
			x.queued = true
			e.queue = append(e.queue, key)
		}
	}
	x.came, x.went, x.own = came, went, d.RxOwn
}

// next returns the next destination that gets an ECHO, within the budget.
func (e *echoes) next(now uint64) (key bpf.DestKey, ok bool) {
	const cost = uint64(time.Second) / echoRate
	e.budget = min(e.budget+now-e.filled, echoBurst*cost)
	e.filled = now
	for len(e.queue) > 0 && e.budget >= cost {
		key = e.queue[0]
		e.queue = e.queue[1:]
		x := e.all[key]
		if x == nil {
			continue // forgotten
		}
		due := x.due && now-x.at < echoMaxAge
		x.due, x.queued = false, false
		if due {
			e.budget -= cost
			return key, true
		}
	}
	return key, false
}

// sendEchoes sends the ECHOs that are due after an evaluation.
func (a *Agent) sendEchoes(now uint64) {
	for {
		key, ok := a.echoes.next(now)
		if !ok {
			return
		}
		// From the address that the peer sends to, for which it has an entry.
		own, _ := a.own.ByNumber(a.echoes.all[key].own)
		a.control.echo(own, key)
	}
}
