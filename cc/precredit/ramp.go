// SPDX-License-Identifier: Apache-2.0

package precredit

// Ramp is the window between the first round trip and the time when the policy beside
// it knows the way: it begins with what was sent blindly and is acknowledged, and
// grows by what ACKs acknowledge, so it doubles in a round trip, as long as round trips
// do not grow. The zero value limits nothing.
type Ramp struct {
	on     bool
	window uint32
}

// Window is the limit on bytes in flight; ok is false if there is none.
func (r *Ramp) Window() (bytes uint32, ok bool) { return r.window, r.on }

// Begin starts over with a window.
func (r *Ramp) Begin(window uint32) { *r = Ramp{true, window} }

// Ack takes an ACK for n bytes with its round trip, base being that of the idle way.
// The ramp ends when its window reaches enough.
func (r *Ramp) Ack(n uint32, rttNs, baseNs int64, enough uint32) {
	if !r.on {
		return
	}
	if rttNs <= baseNs+baseNs/2 {
		r.window += n
	}
	r.on = r.window < enough
}

// End lifts the limit.
func (r *Ramp) End() { *r = Ramp{} }
