// SPDX-License-Identifier: Apache-2.0

package nic

// windows limit what queue pairs have under way to a destination, in bytes of frames
// (qp/feed.go); 0 = no limit. The least that is set holds. The rate says how fast what
// fits may leave.
type windows struct {
	policy uint64 // of the policy, at its rate: the destination table's
	ramp   uint64 // of a start, until the policy knows the way
}

// effective is the limit in force. What the policy said counts as long as somebody looks
// after it, as its rates do.
func (w *windows) effective(paced bool) uint64 {
	policy := w.policy
	if !paced {
		policy = 0
	}
	if w.ramp != 0 && (policy == 0 || w.ramp < policy) {
		return w.ramp
	}
	return policy
}

// setPolicyWindow takes the policy's limit over; 0 = none.
func (d *dest) setPolicyWindow(e *engine, bytes uint64) {
	d.windows.policy = bytes
	e.applyWindow(d)
}

// setRampWindow sets the limit of a start; 0 = none.
func (d *dest) setRampWindow(e *engine, bytes uint64) {
	d.windows.ramp = bytes
	e.applyWindow(d)
}

// goLive takes the interface's configuration over. Windows come and go with the pacing.
func (e *engine) goLive(l Live) {
	changed := l.Paced != e.live.Paced
	if e.live = l; !changed {
		return
	}
	for _, d := range e.dests {
		e.applyWindow(d)
	}
}

// applyWindow puts the limit in force.
func (e *engine) applyWindow(d *dest) {
	w := d.windows.effective(e.live.Paced)
	if w == d.flight.Window() {
		return
	}
	d.flight.SetWindow(w)
	e.enqueueUnblocked(d)
}
