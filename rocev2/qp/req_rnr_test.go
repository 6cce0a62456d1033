// SPDX-License-Identifier: Apache-2.0

package qp

import (
	"testing"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// RNR NAK: wait as long as the NAK says, then send again from there. 0x60 for the same packet
// means the same (rxe). RNRRetry is a limit, or 7 for none (IBTA 9.7.5.2, table 45).
func TestNotReady(t *testing.T) {
	x := newSource(t, verbs.RC)
	for range 3 {
		x.post(verbs.OpSend, 1, 0)
	}
	x.wantSent("0A 1A 2A")
	x.rnr(1, 12) // 0.64 ms
	x.wantDone(0, verbs.StatusSuccess)
	x.nak(1, rocev2.NAKPSNSequence)
	x.rnr(1, 12)
	x.wantSent("")
	if d := x.q.Deadline(); d != x.now+640_000 {
		t.Errorf("deadline in %d ns", d-x.now)
	}
	x.expire()
	x.wantSent("1A!")               // one packet, to find out whether there is a receive
	x.nak(1, rocev2.NAKPSNSequence) // was in flight
	x.wantSent("")
	x.rnr(1, 1)
	x.expire()
	x.wantSent("1A!")
	x.ack(1)
	x.wantDone(1, verbs.StatusSuccess)
	x.wantSent("2A!")
	for range 3 { // progress has reset the count; RNRRetry is 3
		x.rnr(2, 1)
		x.expire()
		x.wantSent("2A!")
	}
	x.rnr(2, 1)
	x.wantDone(2, verbs.StatusRNRRetryExceeded)
	x.wantState(verbs.StateErr)
	if x.count.RNRReceived != 6 || x.count.RNRRetryExceeded != 1 {
		t.Errorf("counters %+v", x.count)
	}

	x = newSource(t, verbs.RC, func(_ *Config, a *verbs.Attr) { a.RNRRetry = 7 })
	x.post(verbs.OpSend, 1, 0)
	x.wantSent("0A")
	for range 100 {
		x.rnr(0, 0) // 655 ms: no timeout meanwhile
		x.expire()
		x.wantSent("0A!")
	}
	x.ack(0)
	x.wantDone(0, verbs.StatusSuccess)
	if x.count.Timeouts != 0 {
		t.Errorf("%d timeouts while waiting", x.count.Timeouts)
	}
}
