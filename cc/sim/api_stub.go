// SPDX-License-Identifier: Apache-2.0

package sim

type pacerState struct{ net *Net }
type flowState struct{ pacer *Pacer }

// Net is a network and the run on it.
type Net struct{}

// Send sends a message to the Receiver of the pacer's destination. f is the flow
// it is about, nil = none.
func (p *Pacer) Send(f *Flow, m Message) {}

// Probe sends a stamped control packet; its echo is an Ack with Probe set.
func (p *Pacer) Probe() {}

// SetPrio sets the priority of a flow among its host's flows, 0 first (the
// default), 7 last. It takes effect with the next packet.
func (p *Pacer) SetPrio(f *Flow, prio uint8) {}

// Pacer is the pacer that carries the flow.
func (f *Flow) Pacer() *Pacer { return f.pacer }
