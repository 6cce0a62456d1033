// SPDX-License-Identifier: Apache-2.0

package proto

import (
	"errors"
	"fmt"
	"os"

	"github.com/softroce/softroce-xdp/rocev2/cm"
	"github.com/softroce/softroce-xdp/rocev2/mad"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Status is the outcome of a request.
type Status uint16

// The statuses that are not those of an error of package verbs.
const (
	StatusOK Status = iota
	StatusFailed
	StatusProtocol
	StatusVersion
	StatusHandle
	StatusLimit
	StatusMemory
	StatusBusyCalls
	StatusPermission

	firstVerbs Status = 64

	firstCM Status = 128

	// The errors of events of the communication manager that have fields: *cm.RejectedError and
	// *cm.UnresolvedError.
	StatusRejected   = firstCM + 32
	StatusUnresolved = firstCM + 33
	lastStatus       = firstCM + 31
)

// Errors of the server that package verbs does not have.
var (
	ErrProtocol  = errors.New("not a message of the device server's protocol")
	ErrVersion   = errors.New("client and device server have different versions: install the same for both")
	ErrHandle    = errors.New("no such object of this process")
	ErrLimit     = errors.New("over the limit that the administrator has set")
	ErrMemory    = errors.New("memory that the device server cannot use")
	ErrBusyCalls = errors.New("too many calls of this process are in progress: wait for some of them")
)

// statuses are the errors by their status. New ones are added at the end.
var statuses = map[Status]error{
	StatusProtocol: ErrProtocol, StatusVersion: ErrVersion, StatusHandle: ErrHandle, StatusLimit: ErrLimit,
	StatusMemory: ErrMemory, StatusBusyCalls: ErrBusyCalls, StatusPermission: os.ErrPermission,

	firstVerbs: verbs.ErrClosed, firstVerbs + 1: verbs.ErrGone, firstVerbs + 2: verbs.ErrDestroyed, firstVerbs + 3: verbs.ErrBusy,
	firstVerbs + 4: verbs.ErrTooMany, firstVerbs + 5: verbs.ErrPD, firstVerbs + 6: verbs.ErrNoKey, firstVerbs + 7: verbs.ErrAccess,
	firstVerbs + 8: verbs.ErrRange,

	firstCM: cm.ErrID, firstCM + 1: cm.ErrInUse, firstCM + 2: cm.ErrTooMany, firstCM + 3: cm.ErrTimeout, firstCM + 4: cm.ErrUnserved,
	firstCM + 5: cm.ErrCanceled, firstCM + 6: cm.ErrHungUp, firstCM + 7: cm.ErrReply, firstCM + 8: cm.ErrStale, firstCM + 9: mad.ErrPrivate,
	firstCM + 10: cm.ErrDisplaced, firstCM + 11: cm.ErrUnreachable,
}

// StatusOf returns the status of an error.
func StatusOf(err error) Status {
	if err == nil {
		return StatusOK
	}
	for s := StatusFailed; s <= lastStatus; s++ {
		if e := statuses[s]; e != nil && errors.Is(err, e) {
			return s
		}
	}
	return StatusFailed
}

// Error is an error of the server: what it wraps, and the text.
type Error struct {
	Status Status
	Text   string
}

func (e *Error) Error() string { return e.Text }

// Unwrap returns the error of package verbs or of this package that the status stands for, or nil.
func (e *Error) Unwrap() error { return statuses[e.Status] }

// VersionError refuses a client whose version is not that of the server.
func VersionError(client, server uint32) error {
	return fmt.Errorf("%w: %d and %d", ErrVersion, client, server)
}
