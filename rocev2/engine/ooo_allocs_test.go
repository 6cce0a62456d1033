// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"testing"

	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Neither a packet nor a message of out-of-order mode allocates once all has its size.
func TestOutOfOrderNoAllocations(t *testing.T) {
	p := newOOOPair(t, 11, 64)
	p.e.rx.loopback.rounds = LoopbackRounds
	wr := verbs.SendWR{
		Op: verbs.OpWrite, Flags: verbs.Signaled, SGL: []verbs.SGE{{Addr: p.keys[0].VA(), Len: 20_000, LKey: p.keys[0].LKey()}},
		RemoteAddr: p.keys[1].VA(), RKey: p.keys[1].RKey(),
	}
	message := func() {
		if err := p.qps[0].PostSend(&wr); err != nil {
			t.Fatal(err)
		}
		for range 1000 {
			p.e.iterate()
			if p.cq.take(p.batch[:]) > 0 {
				return
			}
		}
		t.Fatal("no completion")
	}
	for range 1000 {
		message()
	}
	if n := testing.AllocsPerRun(200, message); n >= 1 {
		t.Errorf("%v allocations for a message of 20 packets", n)
	}
}
