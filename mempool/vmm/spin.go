// SPDX-License-Identifier: Apache-2.0

package vmm

import "time"

// spinTime is how long the loop of a handler polls for the next fault after it has served one, before it
// sleeps. The wake-up of a sleeping thread takes longer than the service of a fault.
const spinTime = 20 * time.Microsecond

// spin decides whether the loop of a handler polls or sleeps. It polls only for spinTime, only with several
// processors, and only while no access waits for a page: the goroutines of the store need the processor then.
type spin struct {
	several bool
	end     time.Time
}

// served is called after faults were served. idle: no access waits for a page.
func (s *spin) served(now time.Time, idle bool) {
	s.end = time.Time{}
	if s.several && idle {
		s.end = now.Add(spinTime)
	}
}

// polls reports that the loop does not sleep yet.
func (s *spin) polls(now time.Time) bool { return now.Before(s.end) }
