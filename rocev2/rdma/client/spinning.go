// SPDX-License-Identifier: Apache-2.0

package client

import "sync/atomic"

// spinning decides whether a wait is worth polling before it sleeps. Where completions take longer than
// that, polling takes the processor from the server, which is to make them. From the second wait in a row
// on that found nothing, the next 1, 3, 7, 15 and then 31 waits do not poll. The first one that finds
// something ends that.
//
// Waits of several goroutines may count one too many or too few; that costs a poll.
type spinning struct {
	misses atomic.Uint32 // number of waits in a row that polled and found nothing, up to maxMisses
	skip   atomic.Uint32 // number of waits that do not poll
}

const maxMisses = 6

// worth reports whether this wait polls.
func (s *spinning) worth() bool {
	n := s.skip.Load()
	if n > 0 {
		s.skip.Store(n - 1)
	}
	return n == 0
}

// note notes whether polling has found something.
func (s *spinning) note(found bool) {
	if found {
		s.misses.Store(0)
		return
	}
	m := min(s.misses.Load()+1, maxMisses)
	s.misses.Store(m)
	s.skip.Store(1<<(m-1) - 1)
}
