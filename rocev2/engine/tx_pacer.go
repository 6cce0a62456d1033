// SPDX-License-Identifier: Apache-2.0

package engine

// The pacer of each destination is a token bucket (bucket.go). It holds back data;
// ACKs, NAKs and control messages leave at once.

// mayLeave reports whether the pacer lets the next packet go. Without an agent that looks
// after rates nothing is paced. The first packets wait for a token (guard.go).
func (d *dest) mayLeave(e *Core) bool {
	if d.entry != nil {
		return d.refs == 0 || d.entry.Wait(e.now) <= 0 // without users, what is queued is lost
	}
	return !d.waits(e.now) && (!e.dests.of(d).config.Paced || d.pacer.Ready(int64(e.now)))
}

// consumeTokens takes the cost of a frame of n bytes out of the bucket. ahead: the frame has left ahead of the rate.
func (d *dest) consumeTokens(e *Core, n int, ahead bool) {
	if d.entry != nil {
		d.charge(e, n, ahead)
		return
	}
	d.pacer.Consume(int64(e.now), int64(e.dests.of(d).config.Burst), n)
}

func (d *dest) setRate(e *Core, rate uint64) { d.pacer.SetRate(int64(e.now), rate) }

// blockOnPacer takes the destination out of service until its next packet may leave.
func (t *transmitter) blockOnPacer(d *dest) {
	if d.entry != nil {
		t.e.dests.blockOnEntry(d)
		return
	}
	at := d.pacer.Next()
	if d.waits(t.e.now) {
		at = max(at, int64(d.waitsUntil))
	} else if d.paceBlocked == 0 {
		d.report.Waited++
	}
	if d.paceBlocked == 0 {
		d.paceBlocked = t.e.now
	}
	t.e.dests.timers.Set(&d.timer, at)
}

// unblock ends the wait for the pacer, and puts the destination back into service.
func (t *transmitter) unblock(d *dest) {
	if d.paceBlocked != 0 {
		d.endWait(t.e)
		d.report.WaitedTime += t.e.now - d.paceBlocked
		d.paceBlocked = 0
	}
	if !d.drr.Empty() {
		t.enqueueDest(d)
	}
}
