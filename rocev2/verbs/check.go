// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"fmt"

	"github.com/softroce/softroce-xdp/rocev2"
)

// MaxMessage is the longest message in bytes (IBTA 9.7.4.1).
const MaxMessage = 1 << 31

// MaxOutstanding is how many PSNs of a queue pair are outstanding at most, half of all: so old and new responses can be
// distinguished (IBTA 9.7.1). All PSNs of a READ are outstanding at once.
const MaxOutstanding = rocev2.PSNMask >> 1

const maxDatagram = 4096 // bytes: the largest PMTU

// SendRules are what decides which work requests the send queue of a queue pair takes.
type SendRules struct {
	Type        QPType
	OutOfOrder  bool // the queue pair was created with QPInit.OutOfOrder
	State       State
	MaxRdAtomic uint8       // limit set by Modify
	PMTU        rocev2.PMTU // PMTU set by Modify, 0 before
	MaxSGE      int         // largest number of elements of a list
	MaxInline   int         // bytes of inline data
}

// CheckSend checks a work request as PostSend does (IBTA 11.4.1.1), except for the room in the queue, the address
// handle and the memory. It returns the length of the message in bytes. A client calls it for an error at once, and
// the transport before it queues the work request.
func CheckSend(wr *SendWR, r *SendRules) (length uint32, err error) {
	switch s := r.State; {
	case s == StateRTS, s == StateErr:
	case (s == StateSQD || s == StateSQE) && !r.OutOfOrder:
	default:
		return 0, fmt.Errorf("%w; it is in %s", ErrSendState, r.State)
	}
	if r.OutOfOrder {
		return checkUnordered(wr)
	}
	if !r.Type.Has(wr.Op) {
		return 0, fmt.Errorf("%w: %s, %s", ErrOp, r.Type, wr.Op)
	}
	if !wr.Flags.Known() {
		return 0, fmt.Errorf("%w; these are %#x", ErrFlags, uint8(wr.Flags))
	}
	n, err := checkData(wr, r)
	if err != nil {
		return 0, err
	}
	return uint32(n), checkMessage(wr, r, n)
}

// checkData checks where the data of a message is, and returns its length.
func checkData(wr *SendWR, r *SendRules) (n uint64, err error) {
	if wr.Flags&Inline != 0 {
		if wr.Op > OpWriteImm || len(wr.SGL) != 0 || len(wr.Data) > r.MaxInline {
			return 0, fmt.Errorf("%w (%d bytes of %d)", ErrInline, len(wr.Data), r.MaxInline)
		}
		n = uint64(len(wr.Data))
	} else if len(wr.Data) != 0 {
		return 0, ErrData
	}
	if len(wr.SGL) > r.MaxSGE {
		return 0, fmt.Errorf("%w: %d of %d", ErrSGL, len(wr.SGL), r.MaxSGE)
	}
	for i := range wr.SGL {
		n += uint64(wr.SGL[i].Len)
	}
	return n, nil
}

// checkMessage checks a message of n bytes.
func checkMessage(wr *SendWR, r *SendRules, n uint64) error {
	limit := uint64(MaxMessage)
	switch {
	case r.Type == UD:
		limit = maxDatagram
		if r.PMTU.Valid() {
			limit = uint64(r.PMTU.Bytes())
		}
		if wr.AH == nil || wr.RemoteQPN>>24 != 0 {
			return ErrAH
		}
		if wr.Flags&Fence != 0 {
			return ErrFence
		}
	case wr.Op == OpRead && r.State != StateErr:
		limit = min(limit, MaxOutstanding*uint64(r.PMTU.Bytes()))
	}
	if n > limit {
		return fmt.Errorf("%w: %d bytes of %d", ErrTooLong, n, limit)
	}
	switch wr.Op {
	case OpCompareSwap, OpFetchAdd:
		if n != 8 {
			return fmt.Errorf("%w, has %d", ErrAtomic, n)
		}
		fallthrough
	case OpRead:
		if r.MaxRdAtomic == 0 && r.State != StateErr { // in ERR it is only flushed
			return ErrRdAtomic
		}
	}
	return nil
}

// checkUnordered checks a work request for a queue pair in out-of-order mode.
func checkUnordered(wr *SendWR) (length uint32, err error) {
	switch wr.Op {
	case OpWrite, OpWriteNotify, OpRead:
	default:
		return 0, fmt.Errorf("%w: out-of-order mode, %s", ErrOp, wr.Op)
	}
	switch {
	case !wr.Flags.Known():
		return 0, fmt.Errorf("%w; these are %#x", ErrFlags, uint8(wr.Flags))
	case wr.Flags&Inline != 0 || len(wr.Data) != 0:
		return 0, fmt.Errorf("%w; out-of-order mode has none", ErrInline)
	case wr.Flags&Fence != 0:
		return 0, ErrUnordered
	case len(wr.SGL) > 1:
		return 0, fmt.Errorf("%w: %d of 1 in out-of-order mode", ErrSGL, len(wr.SGL))
	case len(wr.SGL) == 1 && wr.SGL[0].Len > MaxMessage:
		return 0, fmt.Errorf("%w: %d bytes of %d", ErrTooLong, wr.SGL[0].Len, uint32(MaxMessage))
	case len(wr.SGL) == 1:
		return wr.SGL[0].Len, nil
	}
	return 0, nil
}

// RecvRules are what decides which receives a queue pair takes.
type RecvRules struct {
	State  State
	SRQ    bool // the receives come from a shared receive queue
	MaxSGE int  // largest number of elements of a list
}

// CheckRecv checks a receive as PostRecv does (IBTA 11.4.1.2), except for the room in the queue and the memory.
func CheckRecv(wr *RecvWR, r RecvRules) error {
	switch {
	case r.State == StateReset:
		return ErrRecvState
	case r.SRQ:
		return ErrSRQ
	case len(wr.SGL) > r.MaxSGE:
		return fmt.Errorf("%w: %d of %d", ErrSGL, len(wr.SGL), r.MaxSGE)
	}
	return nil
}
