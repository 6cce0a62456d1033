// SPDX-License-Identifier: Apache-2.0

package sim

import "time"

// Clock is a host's stamp clock. At a time t from the start it reads
// t + Offset + DriftPPB*t/1e9.
type Clock struct {
	Offset   time.Duration
	DriftPPB int64 // ns gained per second; 50 ppm = 50000
}

func (c *Clock) read(t tick) int64 {
	ns := t.ns()
	// Split, so that days of drift do not overflow.
	drift := ns/1e9*c.DriftPPB + ns%1e9*c.DriftPPB/1e9
	return ns + int64(c.Offset) + drift
}

// SetClock sets a host's clock.
func (n *Net) SetClock(host int, c Clock) { n.hosts[host].clock = c }

// StepClock moves a host's clock now.
func (n *Net) StepClock(host int, by time.Duration) { n.hosts[host].clock.Offset += by }

// SetTurnaround sets how long a host takes from data to ACK, from now on. It
// answers in the order in which packets came.
func (n *Net) SetTurnaround(host int, d time.Duration) {
	n.hosts[host].turnaround = tick(d) * nanosecond
}
