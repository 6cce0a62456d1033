// SPDX-License-Identifier: Apache-2.0

package ooo

import (
	"errors"
	"fmt"

	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// MaxMessage is the longest message in bytes (IBTA 9.7.4.1).
const MaxMessage = 1 << 31

// ErrFence is the error of a work request with Fence.
var ErrFence = errors.New("ooo: messages are not ordered: wait for the completion instead of Fence")

// CheckSend checks a work request as a queue pair in out-of-order mode takes it in state s, except for
// the room in its queue. The errors are those of verbs.QP.PostSend, and ErrFence.
func CheckSend(s verbs.State, wr *verbs.SendWR) error {
	switch s {
	case verbs.StateRTS, verbs.StateErr:
	default:
		return fmt.Errorf("%w; it is in %s", verbs.ErrSendState, s)
	}
	switch wr.Op {
	case verbs.OpWrite, verbs.OpWriteNotify, verbs.OpRead:
	default:
		return fmt.Errorf("%w: out-of-order mode, %s", verbs.ErrOp, wr.Op)
	}
	switch {
	case !wr.Flags.Known():
		return fmt.Errorf("%w; these are %#x", verbs.ErrFlags, uint8(wr.Flags))
	case wr.Flags&verbs.Inline != 0 || len(wr.Data) != 0:
		return fmt.Errorf("%w; out-of-order mode has none", verbs.ErrInline)
	case wr.Flags&verbs.Fence != 0:
		return ErrFence
	case len(wr.SGL) > 1:
		return fmt.Errorf("%w: %d of 1 in out-of-order mode", verbs.ErrSGL, len(wr.SGL))
	case len(wr.SGL) == 1 && wr.SGL[0].Len > MaxMessage:
		return fmt.Errorf("%w: %d bytes of %d", verbs.ErrTooLong, wr.SGL[0].Len, uint32(MaxMessage))
	}
	return nil
}
