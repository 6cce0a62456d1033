// SPDX-License-Identifier: Apache-2.0

package qp

import "github.com/softroce/softroce-xdp/rocev2/mem"

// Type is the transport service of a queue pair.
type Type uint8

// The services.
const (
	RC Type = iota + 1 // reliable connection
	UC                 // unreliable connection
	UD                 // unreliable datagram
)

// Operation is the operation of a work request (IBTA 10.8.1, 11.4.1.1).
type Operation uint8

// The operations of a send queue. OpRecv and OpRecvWriteImm appear in completions
// of receive queues only.
const (
	OpSend Operation = iota + 1
	OpSendImm
	OpSendInv // SEND, which also invalidates InvKey at the peer
	OpWrite
	OpWriteImm
	OpRead
	OpCompareSwap
	OpFetchAdd
	OpLocalInv
	OpBindWindow

	OpRecv
	OpRecvWriteImm
)

// Flags of a send work request.
type Flags uint8

// The flags (IBTA 11.4.1.1).
const (
	Signaled  Flags = 1 << iota // has a completion also on success
	Solicited                   // requests a completion event at the peer
	Fence                       // starts after all READs and ATOMICs before it
	Inline                      // the data is in SendWR.Data, copied by PostSend
)

// SGE is one element of a scatter/gather list.
type SGE struct {
	Addr uint64
	Len  uint32 // bytes
	LKey uint32
}

// SendWR is a send work request. PostSend copies it, its list and its inline data.
type SendWR struct {
	ID    uint64
	Op    Operation
	Flags Flags
	SGL   []SGE  // data to send, or memory for the response of a READ or ATOMIC
	Data  []byte // with Inline, instead of SGL

	Imm    uint32 // SEND and WRITE with immediate, host order
	InvKey uint32 // OpSendInv: the peer's rkey; OpLocalInv: a key of our own

	RemoteAddr    uint64 // WRITE, READ, ATOMIC
	RKey          uint32
	Compare, Swap uint64 // OpCompareSwap
	Add           uint64 // OpFetchAdd

	AH   *AH // UD: destination
	Bind mem.Bind
}

// RecvWR is a receive work request.
type RecvWR struct {
	ID  uint64
	SGL []SGE
}

// AH is an address handle: the destination of a UD message.
type AH struct {
	QPN  uint32
	QKey uint32
	Path any // used by the engine only
}

// GRHLen is the number of bytes before the data in every UD receive buffer. For IPv4 the
// header of the packet is in the last 20 of them (annex A17.4.4.3).
const GRHLen = 40

// Status is the outcome of a work request (IBTA 11.6.2).
type Status uint8

// The statuses, under the names of verbs (IBV_WC_*).
const (
	Success Status = iota
	LocalLength
	LocalQPOperation
	LocalProtection
	WRFlushed
	MWBindError
	BadResponse
	LocalAccess
	RemoteInvalidRequest
	RemoteAccess
	RemoteOperation
	RetryExceeded
	RNRRetryExceeded
	RemoteAborted
	Fatal
)

var statusNames = [...]string{
	"success", "local length error", "local QP operation error", "local protection error",
	"work request flushed", "memory window bind error", "bad response", "local access error",
	"remote invalid request", "remote access error", "remote operation error",
	"transport retry counter exceeded", "RNR retry counter exceeded", "remote aborted", "fatal error",
}

func (s Status) String() string {
	if int(s) < len(statusNames) {
		return statusNames[s]
	}
	return "unknown status"
}

// Completion is an entry of a completion queue.
type Completion struct {
	WRID      uint64
	QPN       uint32 // the local queue pair
	Status    Status
	Op        Operation // only valid with Success
	Solicited bool      // a receive with Solicited set by the sender, or any error
	HasImm    bool
	HasInv    bool // InvKey was invalidated by SEND with invalidate
	HasGRH    bool
	Bytes     uint32 // received, or read
	Imm       uint32
	InvKey    uint32
	SrcQP     uint32 // UD
}

// CompletionQueue receives completions. The engine implements it.
type CompletionQueue interface {
	Complete(c Completion)
}

// Event is an asynchronous event of a queue pair (IBTA 11.6.3).
type Event uint8

// The events.
const (
	EventEstablished Event = iota + 1 // first packet in RTR
	EventDrained                      // SQD: nothing is outstanding any more
	EventFatal                        // the queue pair is in ERR, without a completion with the reason
	EventAccess                       // the peer's request had a wrong key, range or right
	EventRequest                      // the peer's request was invalid
	EventLastWQE                      // ERR, with SRQ: this queue pair takes no more receives from it
	EventSRQLimit                     // the SRQ has fewer entries than its limit
)
