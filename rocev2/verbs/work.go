// SPDX-License-Identifier: Apache-2.0

package verbs

import "fmt"

// Op is the operation of a work request (IBTA 10.8.1, 11.4.1.1).
type Op uint8

// The operations of a send queue. OpRecv, OpRecvWriteImm and OpRecvNotify appear in completions
// of receive queues only.
const (
	OpSend Op = iota + 1
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

	// OpWriteNotify is WRITE with a notification, which leaves when all data is in the memory of the
	// target (out-of-order mode). There it completes a receive work request as OpRecvNotify, with Imm.
	OpWriteNotify
	OpRecvNotify
)

var opNames = [...]string{
	OpSend: "SEND", OpSendImm: "SEND with immediate", OpSendInv: "SEND with invalidate", OpWrite: "WRITE",
	OpWriteImm: "WRITE with immediate", OpRead: "READ", OpCompareSwap: "compare and swap", OpFetchAdd: "fetch and add",
	OpLocalInv: "local invalidate", OpBindWindow: "bind window", OpRecv: "receive",
	OpRecvWriteImm: "receive of WRITE with immediate", OpWriteNotify: "WRITE with notification",
	OpRecvNotify: "receive of WRITE with notification",
}

func (o Op) String() string {
	if o >= OpSend && int(o) < len(opNames) {
		return opNames[o]
	}
	return fmt.Sprintf("unknown operation %d", uint8(o))
}

// Flags of a send work request.
type Flags uint8

// The flags (IBTA 11.4.1.1).
const (
	Signaled  Flags = 1 << iota // has a completion also on success
	Solicited                   // requests a completion event at the peer
	Fence                       // starts after all READs and ATOMICs before it
	Inline                      // the data is in SendWR.Data, copied by PostSend

	allFlags = Signaled | Solicited | Fence | Inline
)

// Known reports whether there are no other flags than those of this package.
func (f Flags) Known() bool { return f&^allFlags == 0 }

// SGE is one element of a scatter/gather list.
type SGE struct {
	Addr uint64
	Len  uint32 // bytes
	LKey uint32
}

// SendWR is a send work request. PostSend copies it, its list and its inline data.
type SendWR struct {
	ID    uint64
	Op    Op
	Flags Flags
	SGL   []SGE  // data to send, or memory for the response of a READ or ATOMIC
	Data  []byte // payload with Inline, instead of SGL

	Imm    uint32 // SEND and WRITE with immediate or notification, host order
	InvKey uint32 // OpSendInv: the peer's rkey; OpLocalInv: a key of our own

	RemoteAddr    uint64 // WRITE, READ, ATOMIC
	RKey          uint32
	Compare, Swap uint64 // OpCompareSwap
	Add           uint64 // OpFetchAdd

	AH         AH // UD: the destination, with the two fields that follow
	RemoteQPN  uint32
	RemoteQKey uint32 // Q_Key of the peer; with bit 31 set, the Q_Key of the sending queue pair is sent (IBTA 10.2.5)

	Bind Bind // OpBindWindow
}

// RecvWR is a receive work request.
type RecvWR struct {
	ID  uint64
	SGL []SGE
}

// GRHLen is the number of bytes before the data in every UD receive buffer. For IPv4 the
// header of the packet is in the last 20 of them (annex A17.4.4.3).
const GRHLen = 40
