// SPDX-License-Identifier: Apache-2.0

package rdma

import (
	"errors"
	"net"

	"github.com/softroce/softroce-xdp/rocev2/cm"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Error is the error of a connection or of an attempt to make one. errors.As finds it, and also
// what it wraps: a *RejectedError, cm.ErrTimeout, cm.ErrUnreachable, net.ErrClosed, the error of a context.
type Error struct {
	Op   string // dial, send, recv, read, write, ...
	Peer net.Addr

	// Status is the outcome of the work request that failed. StatusSuccess: no work request did.
	Status verbs.Status
	Err    error
}

func (e *Error) Error() string {
	s := "rdma: " + e.Op
	if e.Peer != nil {
		s += " " + e.Peer.String()
	}
	return s + ": " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Timeout reports whether a context or a deadline ended the operation, as in net.Error.
func (e *Error) Timeout() bool {
	var t interface{ Timeout() bool }
	return errors.As(e.Err, &t) && t.Timeout()
}

// RejectedError says that the peer rejected a connection, with the reason and the peer's data.
type RejectedError = cm.RejectedError

// UnresolvedError says that the peer did not name a queue pair for a UD service.
type UnresolvedError = cm.UnresolvedError

// Causes of an Error.
var (
	// ErrPeerClosed: the peer has closed the connection. Recv returns io.EOF instead.
	ErrPeerClosed = errors.New("the peer has closed the connection")
	// ErrTooLong: the message does not fit the buffers.
	ErrTooLong = errors.New("the message is longer than WithMaxMessage: raise it at both ends, or use WRITE")
	// ErrFailed: an operation has failed, and with it the connection. Error.Status says how.
	ErrFailed = errors.New("the connection has failed")
)

// statusError is the cause of an Error of a work request that failed.
type statusError struct{ status verbs.Status }

func (e statusError) Error() string        { return statusText(e.status) }
func (e statusError) Is(target error) bool { return target == ErrFailed || target == e.status }

// statusText says what a status means for an application.
func statusText(s verbs.Status) string {
	switch s {
	case verbs.StatusRetryExceeded:
		return "the peer does not answer (" + s.String() + ")"
	case verbs.StatusRNRRetryExceeded:
		return "the peer has no receive buffer (" + s.String() + ")"
	case verbs.StatusRemoteAccess:
		return "the peer has no memory with this key, range and right (" + s.String() + ")"
	case verbs.StatusRemoteInvalidRequest:
		return "the peer refuses the message: it may be too long for its buffers (" + s.String() + ")"
	case verbs.StatusLocalLength:
		return "a message was longer than the receive buffers: raise WithMaxMessage (" + s.String() + ")"
	}
	return s.String()
}

// oneEnd joins errors. Of those that say that the device has ended, only the first one counts: all calls
// fail for this reason then.
func oneEnd(errs ...error) error {
	var some []error
	ended := false
	for _, err := range errs {
		isEnd := errors.Is(err, verbs.ErrGone) || errors.Is(err, verbs.ErrClosed)
		if err == nil || isEnd && ended {
			continue
		}
		ended = ended || isEnd
		some = append(some, err)
	}
	if len(some) == 1 {
		return some[0]
	}
	return errors.Join(some...)
}

// wrap makes an Error, unless err is nil or is one already.
func wrap(op string, peer net.Addr, err error) error {
	if err == nil {
		return nil
	}
	e := &Error{Op: op, Peer: peer, Err: err}
	if cause := (*Error)(nil); errors.As(err, &cause) {
		e.Status, e.Err = cause.Status, cause.Err
	} else if cause := (statusError{}); errors.As(err, &cause) {
		e.Status = cause.status
	}
	return e
}
