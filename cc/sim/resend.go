// SPDX-License-Identifier: Apache-2.0

package sim

// Resend takes all of a flow's data in flight for lost, as a timeout does:
// it is repeated as window, rate and credit allow. It is for schemes that learn of a
// loss by their own means. Control.Loss is not called.
func (p *Pacer) Resend(f *Flow) {
	if f.sel != nil {
		f.loseAll()
	} else {
		f.goBack(f.una)
	}
	f.deadline = 0 // runs again with the first packet
	p.wake(f)
}
