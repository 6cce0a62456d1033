// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"unicode"
	"unicode/utf8"

	"github.com/softroce/softroce-xdp/rocev2/mad"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// ID names a connection or a resolution. It is the communication ID of this end: random, and
// unique until after Gone.
type ID uint32

// Action is what the owner of a Manager does next: a Send or an Event.
type Action interface{ action() }

// Send asks to send a message from queue pair 1 at Local to queue pair 1 at Peer.
type Send struct {
	Local, Peer netip.Addr
	MAD         mad.Header
}

// Kind is what an Event tells.
type Kind uint8

// The events. Gone is the last event of every ID.
const (
	// Request: a REQ arrived. Bring the queue pair to RTS by Path and call Accept, or call Reject.
	Request Kind = iota + 1
	// Reply: a REP arrived. Bring the queue pair to RTS by Path and call Ready, or call Reject.
	Reply
	// Established: both ends are connected.
	Established
	// Failed: there will be no connection, or no answer to a resolution; Err says why.
	Failed
	// Disconnected: the connection has ended. Bring the queue pair to ERR.
	Disconnected
	// ResolveRequest: a SIDR_REQ arrived. Call Answer or Reject.
	ResolveRequest
	// Resolved: the service has the queue pair Path.Remote.
	Resolved
	// Gone: the ID is not valid any more, and the QPN may be used for another connection.
	Gone
)

var kindNames = [...]string{
	Request: "Request", Reply: "Reply", Established: "Established", Failed: "Failed", Disconnected: "Disconnected",
	ResolveRequest: "ResolveRequest", Resolved: "Resolved", Gone: "Gone",
}

func (k Kind) String() string {
	if k >= Request && k <= Gone {
		return kindNames[k]
	}
	return "unknown event"
}

// Event is news for the application.
type Event struct {
	ID   ID
	Kind Kind

	// Service asked for by Request and ResolveRequest, with the peer's port if it has one.
	Service mad.ServiceID
	SrcPort uint16

	// Path in Request, Reply and Resolved.
	Path Path

	// Cause of Failed; of Disconnected if the peer did not ask for it.
	Err error

	// Private data of the message: the whole area, without the IP addressing header.
	Private []byte
}

// Path is what a connection needs from the queue pair of this end.
type Path struct {
	Type          verbs.QPType
	Local, Remote verbs.Endpoint
	Attr          verbs.Attr
}

// Connect brings a queue pair from RESET or INIT to RTS. In a Request, the application first
// sets Local.QPN and Remote.PSN, the number with which the peer starts to send.
func (p Path) Connect(q verbs.Modifier) error { return verbs.Connect(q, p.Local, p.Remote, p.Attr) }

func (Send) action()  {}
func (Event) action() {}

// Errors of Failed and Disconnected.
var (
	ErrTimeout = errors.New("cm: the peer did not answer")
	// ErrUnreachable: the request was not sent, since the neighbour of the path to the peer does not answer.
	ErrUnreachable = errors.New("cm: the peer cannot be reached")
	ErrUnserved    = errors.New("cm: the application did not answer within AnswerTimeout")
	ErrCanceled    = errors.New("cm: canceled by the application")
	ErrHungUp      = errors.New("cm: the peer disconnected before the connection was ready")
	ErrReply       = errors.New("cm: the reply of the peer cannot be used")
	// ErrDisplaced: requests of other hosts needed the place of one that was not established yet.
	ErrDisplaced = errors.New("cm: the request has given way to others")
	ErrStale     = errors.New("cm: the peer uses the queue pair of this connection for another one")
)

// Errors of calls. Nothing has changed then.
var (
	ErrID      = errors.New("cm: no such connection: it is gone or never was")
	ErrInUse   = errors.New("cm: something listens at this service ID already")
	ErrTooMany = errors.New("cm: too many connections: wait until some are gone, or raise Config.MaxConns")
)

// RejectedError says that the peer rejected the connection.
type RejectedError struct {
	Reason mad.Reason
	// Info depends on the reason: for ReasonInvalidMTU a byte with the largest PMTU that would do.
	Info []byte
	// Private is the private data of the REJ: what the peer's application says about it.
	Private []byte
}

func (e *RejectedError) Error() string {
	return "cm: rejected by the peer: " + e.Reason.String() + quoted(e.Private)
}

// Text returns the private data if it is text, without the padding, or "". All of it is printable: the peer
// may have sent anything.
func (e *RejectedError) Text() string { return text(e.Private) }

// UnresolvedError says that the peer did not name a queue pair for a service.
type UnresolvedError struct {
	Status  mad.SIDRStatus
	Private []byte
}

func (e *UnresolvedError) Error() string {
	return "cm: not resolved by the peer: " + e.Status.String() + quoted(e.Private)
}

// text returns private data that is text of printable characters, without the zeros that pad it; otherwise "".
func text(private []byte) string {
	s := string(bytes.TrimRight(private, "\x00"))
	for _, r := range s {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return ""
		}
	}
	return s
}

// quoted returns the text of private data as the end of a message.
func quoted(private []byte) string {
	if s := text(private); s != "" {
		return fmt.Sprintf(": %q", s)
	}
	return ""
}

// stateError says that a call does not fit the state of a connection.
func stateError(call string, s State) error {
	return fmt.Errorf("cm: %s does not exist in %s; docs/reference/connection-states.md has the calls of each state", call, s)
}
