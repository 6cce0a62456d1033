// SPDX-License-Identifier: Apache-2.0

package nic

import (
	"fmt"
	"net/netip"

	"github.com/softroce/softroce-xdp/rocev2/qp"
)

// EventType says what an asynchronous event is about (IBTA 11.6.3).
type EventType uint8

// The events. Those up to EventQPLastWQE carry QP.
const (
	EventQPEstablished EventType = iota + 1
	EventQPDrained
	EventQPFatal
	EventQPAccess
	EventQPRequest
	EventQPLastWQE
	EventSRQLimit    // SRQ
	EventCQError     // CQ: an overrun
	EventDeviceFatal // the device is of no further use: Err says why
	EventPortActive  // the link is up
	EventPortDown
	EventGIDChange // Addr came or went
)

var eventNames = [...]string{
	EventQPEstablished: "queue pair: first packet", EventQPDrained: "queue pair: send queue drained",
	EventQPFatal: "queue pair: fatal error", EventQPAccess: "queue pair: access error", EventQPRequest: "queue pair: invalid request",
	EventQPLastWQE: "queue pair: last work request of the SRQ taken", EventSRQLimit: "SRQ: limit reached",
	EventCQError: "completion queue: overrun", EventDeviceFatal: "device: fatal error", EventPortActive: "port: active",
	EventPortDown: "port: down", EventGIDChange: "GID table changed",
}

func (t EventType) String() string {
	if int(t) < len(eventNames) && eventNames[t] != "" {
		return eventNames[t]
	}
	return fmt.Sprintf("event %d", uint8(t))
}

// Event is something that happened by itself.
type Event struct {
	Type EventType
	QP   *QP
	SRQ  *SRQ
	CQ   *CQ
	Addr netip.Addr
	Err  error
}

func eventOf(e qp.Event) EventType {
	switch e {
	case qp.EventEstablished:
		return EventQPEstablished
	case qp.EventDrained:
		return EventQPDrained
	case qp.EventAccess:
		return EventQPAccess
	case qp.EventRequest:
		return EventQPRequest
	case qp.EventLastWQE:
		return EventQPLastWQE
	case qp.EventSRQLimit:
		return EventSRQLimit
	}
	return EventQPFatal
}

// eventBacklog is how many events wait for an application that does not listen.
// Beyond that the oldest is lost, and counted.
const eventBacklog = 1024

// Events is where asynchronous events come out. It is closed after Close.
func (d *Device) Events() <-chan Event { return d.events }

// event delivers an event without ever blocking.
func (d *Device) event(e Event) {
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
