// SPDX-License-Identifier: Apache-2.0

package card

import (
	"github.com/softroce/softroce-xdp/rocev2/qp"
)

// Link is one direction of a connection of a Virtual network that has a rate, and a queue in front
// of it, first in, first out. The fields may change between two calls of Run.
type Link struct {
	RateBps uint64 // rate of Ethernet frames, bit/s; 0: without limit
	Limit   int    // bytes that the queue holds; a frame that does not fit is lost

	Queued  int // most bytes that the queue has held; the caller may set it to 0
	Dropped int // frames that did not fit

	empty qp.Time // time at which the queue is empty
}

// Limit has the frames that a port sends pass a link with a rate.
func (v *Virtual) Limit(m *Model, port int, l *Link) { v.limits[end{m, port}] = l }

// leaves returns when a frame of n bytes has left the queue that it enters now. It returns false
// if the frame does not fit.
func (l *Link) leaves(now qp.Time, n int) (qp.Time, bool) {
	if l == nil || l.RateBps == 0 {
		return now, true
	}
	queued := int(uint64(max(0, l.empty-now))*l.RateBps/8_000_000_000) + n
	if queued > l.Limit {
		l.Dropped++
		return 0, false
	}
	l.Queued = max(l.Queued, queued)
	l.empty = max(l.empty, now) + qp.Time(uint64(n)*8_000_000_000/l.RateBps)
	return l.empty, true
}
