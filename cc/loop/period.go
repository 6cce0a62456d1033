// SPDX-License-Identifier: Apache-2.0

package loop

import "time"

// The period of heartbeat and evaluation. It is short for a few destinations, and grows
// with the CPU time of a tick and with the number of destinations, so that the agent's
// share of a CPU stays small. The shortest period is interval_ns of the policy, and
// applies if the interface has an engine: more frequent decisions cost more and improve
// little. Traffic of the kernel stack does not profit from it (docs/study/four-case.md).
const (
	minTick   = 5 * time.Millisecond
	idleTick  = 10 * time.Millisecond // no engine is active, or ticks take much CPU time
	maxTick   = 250 * time.Millisecond
	perDest   = 200 * time.Microsecond // shortest period per destination evaluated
	costShare = 120                    // ticks take at most 1/costShare of a CPU

	// freeCost is the CPU time of a tick that costShare does not count: a few destinations
	// are evaluated every tick, although each change of an HTB class is a request to the
	// kernel.
	freeCost = 240 * time.Microsecond

	// quickShare stands for costShare where ticks are less than idleTick apart.
	quickShare = 30
)

// TickPeriod returns the time until the next tick, after a tick that evaluated n destinations
// and took cost of CPU time. engine: the interface has an engine.
func TickPeriod(cost time.Duration, n int, engine bool) time.Duration {
	period := idleTick
	if n > 0 && engine {
		period = min(max(minTick, cost*quickShare), idleTick)
	}
	return min(max(period, (cost-freeCost)*costShare, time.Duration(n)*perDest), maxTick)
}
