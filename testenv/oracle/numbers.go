// SPDX-License-Identifier: Apache-2.0

package oracle

import "strconv"

// Op is the operation of a send request.
type Op uint8

// The operations.
const (
	Send Op = iota
	SendImm
	SendInv
	Write
	WriteImm
	Read
	CompareSwap
	FetchAdd
	LocalInv
	BindMW
)

var opNames = [...]string{"send", "send_imm", "send_inv", "write", "write_imm", "read", "cmp_swap", "fetch_add", "local_inv", "bind_mw"}

func (o Op) String() string { return name(opNames[:], int(o)) }

// Service is the transport service of a queue pair.
type Service uint8

// The services.
const (
	RC Service = iota
	UC
	UD
)

var serviceNames = [...]string{"rc", "uc", "ud"}

func (s Service) String() string { return name(serviceNames[:], int(s)) }

// Access is a set of rights, with the bits of enum ibv_access_flags.
type Access uint32

// The rights.
const (
	LocalWrite Access = 1 << iota
	RemoteWrite
	RemoteRead
	RemoteAtomic
	MWBind
)

// AllRights is every one of them.
const AllRights = LocalWrite | RemoteWrite | RemoteRead | RemoteAtomic | MWBind

// State is the state of a queue pair (IBTA 10.3.1).
type State uint8

// The states.
const (
	Reset State = iota
	Init
	RTR
	RTS
	SQD
	SQE
	Err
)

var stateNames = [...]string{"reset", "init", "rtr", "rts", "sqd", "sqe", "err"}

func (s State) String() string { return name(stateNames[:], int(s)) }

// Status is how a request ended, with the numbers of enum ibv_wc_status.
type Status uint8

// The statuses.
const (
	Success Status = iota
	LocalLengthError
	LocalQPOperationError
	LocalEECError
	LocalProtectionError
	Flushed
	MWBindError
	BadResponse
	LocalAccessError
	RemoteInvalidRequest
	RemoteAccessError
	RemoteOperationError
	RetryExceeded
	RNRRetryExceeded
)

var statusNames = [...]string{
	"success", "local length error", "local QP operation error", "local EEC error", "local protection error", "flushed",
	"MW bind error", "bad response", "local access error", "remote invalid request", "remote access error",
	"remote operation error", "retry exceeded", "RNR retry exceeded",
}

func (s Status) String() string { return name(statusNames[:], int(s)) }

// WCOp is what a completion is of, with the numbers of enum ibv_wc_opcode.
type WCOp uint8

// The kinds of completions.
const (
	WCSend        WCOp = 0
	WCWrite       WCOp = 1
	WCRead        WCOp = 2
	WCCompareSwap WCOp = 3
	WCFetchAdd    WCOp = 4
	WCBindMW      WCOp = 5
	WCLocalInv    WCOp = 6
	WCRecv        WCOp = 128
	WCRecvImm     WCOp = 129 // of a WRITE_IMM
)

// EventSRQLimit is IBV_EVENT_SRQ_LIMIT_REACHED.
const EventSRQLimit = 15

func name(names []string, i int) string {
	if i < len(names) {
		return names[i]
	}
	return strconv.Itoa(i)
}
