// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"testing"

	"github.com/softroce/softroce-xdp/cc/precredit"
	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// An iteration that has asked as many flows as it may, and has sent nothing, is followed by another one: peers with
// flows that were not asked are still ready.
func TestPreCreditTries(t *testing.T) {
	l := newLoopback(t, 1)
	x := l.connect(verbs.RC, rocev2.PMTU1024, 8)
	c := newCredits(l.e, PreCredit{Frames: 4096, LinkRate: 1e10})
	l.e.hooks = c
	p := c.remember(x.dest.addr)
	p.dest, x.dest.credit = x.dest, p
	p.TurnOn()
	now := c.now()
	p.Grant(now, precredit.Grant{Epoch: 1, Limit: 1 << 16, Seq: 1, Open: true, LifeNs: creditDelay})
	const flows = 2*txTries + 1 // all of one queue pair, which has nothing to send
	for range flows {
		f := &precredit.Flow{Data: x, Packet: 1024}
		p.Connect(f)
		p.Post(now, f, precredit.Work{First: true, Bytes: 1, Features: precredit.Features{TotalBytes: 1}})
	}
	for i, want := range []int{1, 1, 0} {
		if did := l.e.tx.transmit(); did != want || p.Waits() != (want > 0) {
			t.Errorf("iteration %d: did %d, flows wait %v; want %d", i, did, p.Waits(), want)
		}
	}
}
