// SPDX-License-Identifier: Apache-2.0

package precredit

// Ramp is the window between the first RTT and the time when the policy has measured the
// path. It begins with what was in flight at the first ACK and grows by what ACKs
// acknowledge: it doubles in an RTT while there is no queue, and grows by a sixteenth while
// there is one, so that the policy measures the queue and takes over. The zero value limits
// nothing.
type Ramp struct {
	on     bool
	window uint32
}

// Window is the limit on bytes in flight; ok is false if there is none.
func (r *Ramp) Window() (bytes uint32, ok bool) { return r.window, r.on }

// Begin starts over with a window.
func (r *Ramp) Begin(window uint32) { *r = Ramp{true, window} }

// Ack takes an ACK for n bytes. queueNs is the queueing delay and baseNs the base RTT. The
// ramp ends when its window reaches enough: the bytes in flight at the policy's rate, if that
// is less than two bandwidth-delay products.
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
