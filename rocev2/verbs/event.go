// SPDX-License-Identifier: Apache-2.0

package verbs

import "fmt"

// EventType says what an asynchronous event is about (IBTA 11.6.3).
type EventType uint8

// The events. Those up to EventQPLastWQE carry QP.
const (
	EventQPEstablished EventType = iota + 1 // first packet in RTR
	EventQPDrained                          // SQD: nothing is outstanding any more
	EventQPFatal                            // the queue pair is in ERR, without a completion with the reason
	EventQPAccess                           // the peer's request had a wrong key, range or right
	EventQPRequest                          // the peer's request was invalid
	EventQPLastWQE                          // ERR, with SRQ: this queue pair takes no more receives from it
	EventSRQLimit                           // the SRQ has fewer entries than its limit
	EventCQError                            // CQ: an overrun
	EventDeviceFatal                        // the device is of no further use: Err says why
	EventPortActive                         // the link is up
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
