// SPDX-License-Identifier: Apache-2.0

package engine

// effective is the limit in force. The policy's counts as long as an agent
// maintains it, as its rates do.
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

// setPolicyWindow sets the policy's limit; 0 = none.
func (d *dest) setPolicyWindow(e *Core, bytes uint64) {
	d.windows.policy = bytes
	e.dests.applyWindow(d)
}

// setRampWindow sets the limit of a start; 0 = none.
func (d *dest) setRampWindow(e *Core, bytes uint64) {
	d.windows.ramp = bytes
	e.dests.applyWindow(d)
}

// applyConfig applies the configuration of a rail's interface. Windows are in force while pacing is.
func (s *destinations) applyConfig(r *rail, l RuntimeConfig) {
	changed := l.Paced != r.config.Paced
	if r.config = l; !changed {
		return
	}
	for _, d := range r.dests {
		s.applyWindow(d)
	}
}

// applyWindow puts the limit in force.
func (s *destinations) applyWindow(d *dest) {
	w := d.windows.effective(s.of(d).config.Paced)
	if w == d.flight.Window() {
		return
	}
	d.flight.SetWindow(w)
	s.e.tx.enqueueUnblocked(d)
}
