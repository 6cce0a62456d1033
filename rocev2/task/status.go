// SPDX-License-Identifier: Apache-2.0

package task

import "fmt"

// Status is the outcome of a task.
type Status uint8

// The statuses. The values are those of the answer. Only StatusOK has written the result. A
// task with StatusBusy was not taken: the same descriptor may be submitted again.
const (
	StatusOK         Status = iota
	StatusDescriptor        // the descriptor is not valid
	StatusKernel            // there is no such kernel
	StatusOperand           // the kernel does not take these operands, or does not give this result
	StatusTooLarge          // operands and result are longer than the executor allows
	StatusAccess            // an operand or the result: key, protection domain, range or rights
	StatusMemory            // memory failed during an access; if it was the result's, its bytes are undefined
	StatusFailed            // the kernel found a value that it does not take
	StatusBusy              // the queue is full
	StatusStale             // the task id is older than what the executor remembers
	StatusCanceled          // the origin or the executor was closed
)

var statusNames = [...]string{
	"success", "invalid descriptor", "no such kernel", "wrong operands", "too large", "access refused", "memory failed",
	"kernel failed", "busy", "stale task id", "canceled",
}

func (s Status) String() string {
	if int(s) < len(statusNames) {
		return statusNames[s]
	}
	return fmt.Sprintf("unknown status %d", uint8(s))
}

// Error is why a task failed.
type Error struct {
	Status Status
	Reason string // cause; empty if only the status is known
}

func (e *Error) Error() string {
	if e.Reason == "" {
		return "task: " + e.Status.String()
	}
	return "task: " + e.Status.String() + ": " + e.Reason
}

// Is reports whether the target is an Error with the same status.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Status == e.Status
}

func fail(s Status, format string, args ...any) *Error {
	return &Error{s, fmt.Sprintf(format, args...)}
}
