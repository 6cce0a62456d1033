// SPDX-License-Identifier: Apache-2.0

package nic

import "github.com/softroce/softroce-xdp/rocev2/verbs"

// eventBacklog is how many events wait for an application that does not listen.
// Beyond that the oldest is lost, and counted.
const eventBacklog = 1024

// Events is where asynchronous events come out. It is closed after Close.
func (d *Device) Events() <-chan verbs.Event { return d.events }

// event delivers an event without ever blocking.
func (d *Device) event(e verbs.Event) {
	d.eventMu.Lock()
	defer d.eventMu.Unlock()
	if d.eventsClosed {
		return
	}
	for {
		select {
		case d.events <- e:
			return
		default:
		}
		select {
		case <-d.events:
			d.eventsLost.Add(1)
		default:
		}
	}
}
