// SPDX-License-Identifier: Apache-2.0

package ooo_test

import (
	"testing"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/ooo"
)

// The engine of a source does not run for some milliseconds, and finds the answers to all packets in its ring then,
// in order of arrival. The first of them must not show that the packets of the later ones are lost.
func TestStallOfSource(t *testing.T) {
	const packets, stall = 60, 3 * ooo.Millisecond
	e := newEnds(t, packets, func(*ooo.Config) {})
	a, b := e.qps[0], e.qps[1]
	now := ooo.Millisecond
	for message := range 20 {
		e.post(t)
		for requests := send(a, now); len(requests) > 0; requests = send(a, now) {
			now += 50 * ooo.Microsecond
			var answers []rocev2.Packet
			for half := range 2 { // the target takes them in two batches
				for i := range requests {
					if i*2/len(requests) == half {
						b.Receive(now, &requests[i], 0)
					}
				}
				answers = append(answers, send(b, now)...)
			}
			if message == 19 {
				now += stall
			}
			for i := range answers {
				a.Receive(now, &answers[i], 0)
			}
			a.Expire(now)
		}
	}
	if count := e.count[0]; count.Answered != 20*packets || count.LostTimeout+count.LostReorder != 0 {
		t.Errorf("nothing was lost: %+v", count)
	}
}
