// SPDX-License-Identifier: Apache-2.0

// Package cm is the communication manager (IBTA 12) as a pure state machine: it connects queue
// pairs by service ID or port, disconnects them, and resolves the UD queue pairs of services
// (SIDR). It performs no I/O, has no clock and starts no goroutine.
//
// A Manager gets messages that arrived (Receive), the passage of time (Expire) and the calls of an
// application (Listen, Connect, Accept, ...), each with the time. It answers with actions, which
// Take returns in order: messages to send and events for the application. The owner of a Manager
// sends each message from queue pair 1 to queue pair 1 of the peer, brings queue pairs through
// their states with the attributes of Path, and calls Expire at the time that Next returns.
//
//	for _, a := range m.Take() {
//		switch a := a.(type) {
//		case cm.Send:
//			// a UD SEND Only with cm.QKey from a.Local to a.Peer
//		case cm.Event:
//			// the application's
//		}
//	}
//
// Times are nanoseconds of any monotonic clock. docs/program/connections.md describes the messages and
// limits, docs/reference/connection-states.md has the table of states.
package cm
