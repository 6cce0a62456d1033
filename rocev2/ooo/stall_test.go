// SPDX-License-Identifier: Apache-2.0

package ooo_test

import (
	"testing"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/ooo"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/testenv/wiretest"
)

// The engine of a source does not run for some milliseconds, and finds the answers to all packets in its ring then,
// in order of arrival. The first of them must not show that the packets of the later ones are lost.
func TestStallOfSource(t *testing.T) {
	const packets, stall = 60, 3 * ooo.Millisecond
	memory := [2]*wiretest.Memory{{}, {}}
	source := memory[0].Register(0, packets*1024, 0)
	target := memory[1].Register(0, packets*1024, verbs.AccessRemoteWrite)
	var count ooo.Counters
	var ends [2]*ooo.QP
	for i := range ends {
		c := ooo.Config{QPN: uint32(1 + i), PeerQPN: uint32(2 - i), PMTU: rocev2.PMTU1024, Memory: memory[i]}
		if i == 0 {
			c.Count = &count
		}
		var err error
		if ends[i], err = ooo.New(c); err != nil {
			t.Fatal(err)
		}
	}
	a, b := ends[0], ends[1]
	now := ooo.Millisecond
	for message := range 20 {
		err := a.Post(&ooo.Request{
			Op: verbs.OpWrite, Local: verbs.SGE{Addr: source.Addr, Len: packets * 1024, LKey: source.Key},
			RemoteAddr: target.Addr, RKey: target.Key,
		})
		if err != nil {
			t.Fatal(err)
		}
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
	if count.Answered != 20*packets || count.LostTimeout+count.LostReorder != 0 {
		t.Errorf("nothing was lost: %+v", count)
	}
}
