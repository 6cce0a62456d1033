// SPDX-License-Identifier: Apache-2.0

package precredit

// Ramp is the window between the first round trip and the time when the policy beside
// it knows the way. It begins with what was under way at the first ACK and grows by what
// ACKs acknowledge: it doubles in a round trip while the way out has no queue, and grows
// by a sixteenth while it has, so that the policy sees the queue and takes over. The zero
// value limits nothing.
type Ramp struct {
	on     bool
	window uint32
}

// Window is the limit on bytes in flight; ok is false if there is none.
func (r *Ramp) Window() (bytes uint32, ok bool) { return r.window, r.on }

// Begin starts over with a window.
func (r *Ramp) Begin(window uint32) { *r = Ramp{true, window} }

// Ack takes an ACK for n bytes. queueNs is the queueing delay of the way out, baseNs the
// round trip of the idle way, as the four-case registers q_tx_ns and base_rtt_ns have
// them. The ramp ends when its window reaches enough: what the policy's rate puts under
// way, if that is less than two bandwidth-delay products.
func (r *Ramp) Ack(n uint32, queueNs, baseNs int64, enough uint32) {
	if !r.on {
		return
	}
	if queueNs > baseNs/2 {
		n = (n + 15) / 16
	}
	r.window += n
	r.on = r.window < enough
}

// End lifts the limit.
func (r *Ramp) End() { *r = Ramp{} }
