// SPDX-License-Identifier: Apache-2.0

package verbs

import "errors"

// Errors of a device and of its objects. What is returned wraps them and names the object and
// the values.
var (
	ErrClosed    = errors.New("verbs: the device was closed")
	ErrGone      = errors.New("verbs: the device is gone")
	ErrDestroyed = errors.New("was destroyed")
	ErrBusy      = errors.New("still in use")
	ErrTooMany   = errors.New("too many") // queue pairs of one device
	ErrPD        = errors.New("no such protection domain")
)

// Errors of memory registration.
var (
	ErrNoKey  = errors.New("no free key")
	ErrAccess = errors.New("impossible access rights")
	ErrRange  = errors.New("impossible memory range")
)

// Errors of PostSend and PostRecv. Nothing was queued then (IBTA 11.4.1.1, 11.4.1.2).
var (
	ErrSendState = errors.New("verbs: work can be posted to the send queue in RTS, SQD, SQE and ERR only: Modify to RTS first")
	ErrRecvState = errors.New("verbs: a receive can be posted from INIT on, not in RESET: Modify to INIT first")
	ErrQueueFull = errors.New("verbs: the queue is full: wait for completions or create it larger")
	ErrSRQ       = errors.New("verbs: this queue pair takes its receives from an SRQ: post them there")
	ErrOp        = errors.New("verbs: this service does not have this operation")
	ErrFlags     = errors.New("verbs: unknown flags: there are Signaled, Solicited, Fence and Inline")
	ErrSGL       = errors.New("verbs: the list has more elements than the queue was created for")
	ErrTooLong   = errors.New("verbs: the message is too long")
	ErrInline    = errors.New("verbs: inline data is for SEND and WRITE, up to MaxInline bytes, and without SGL")
	ErrAtomic    = errors.New("verbs: the list of an ATOMIC must have room for exactly 8 bytes")
	ErrRdAtomic  = errors.New("verbs: MaxRdAtomic is 0, so that no READ or ATOMIC can be sent: set it with Modify")
	ErrAH        = errors.New("verbs: a UD message needs an address handle and a queue pair number of 24 bits")
	ErrFence     = errors.New("verbs: Fence waits for READs and ATOMICs, which UD does not have")
	ErrUnordered = errors.New("verbs: messages of out-of-order mode are not ordered: wait for the completion instead of Fence")
	ErrData      = errors.New("verbs: Data is for work requests with Inline only; set the flag or use SGL")
)
