// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"slices"

	"github.com/softroce/softroce-xdp/rocev2/qp"
)

// overruns are the completion queues that have lost completions (IBTA 10.8.4), and of the first one the slot of
// Core.qps at which FailOverruns goes on.
type overruns struct {
	list []qp.CompletionQueue
	at   int
}

// Overrun notes that a completion queue has lost a completion. FailOverruns acts on it once no
// queue pair is in use.
func (e *Core) Overrun(cq qp.CompletionQueue) { e.overruns.list = append(e.overruns.list, cq) }

// overrunSteps is how many queue pairs an iteration looks at because of overruns. The work requests that
// it flushes count too, so that an iteration ends with the first queue pair that has as many.
const overrunSteps = 1024

// FailOverruns ends the queue pairs of the first completion queue that has lost completions, a part of
// them in each call: thousands of queue pairs may have a million work requests. It returns how much
// it has done.
func (e *Core) FailOverruns() (steps int) {
	o := &e.overruns
	if len(o.list) == 0 {
		return 0
	}
	cq := o.list[0]
	if o.at == 0 {
		e.host.CQError(cq)
	}
	for ; o.at < e.qps.Slots() && steps < overrunSteps; o.at++ {
		steps++
		if x := e.qps.At(o.at); x != nil && (x.q.Config().SendCQ == cq || x.q.Config().RecvCQ == cq) {
			steps += x.Flush()
		}
	}
	if o.at >= e.qps.Slots() {
		o.list, o.at = slices.Delete(o.list, 0, 1), 0
	}
	return steps + 1
}
