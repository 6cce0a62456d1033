// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"fmt"
	"net/netip"

	"github.com/softroce/softroce-xdp/rocev2"
)

// Endpoint is one end of a connection, as the two ends tell each other before Connect.
type Endpoint struct {
	Addr netip.Addr // a GID of the device
	QPN  uint32
	PSN  rocev2.PSN // first PSN that this end sends
	QKey uint32     // UD: what datagrams to this end must carry
}

// Modifier is the part of a queue pair that ToInit and Connect need.
type Modifier interface {
	Type() QPType
	State() State
	Modify(a Attr, mask AttrMask) error
}

// DefaultAttr returns attributes for Connect: a PMTU of 1024, all remote rights, 16 READs and
// ATOMICs in each direction, an ACK timeout of 268 ms with 7 retries, and RNR NAKs of 10 us
// with retries without limit.
//
// A peer that is silent for 7.2 s is given up (qp.RetryBound). Adapters that connect by rdma_cm need 4 to 35 s: Linux
// takes an ACK timeout of at least 0.5 s, and its programs mostly 7 retries. Losses are found by probes after a few RTTs,
// whatever the ACK timeout is.
func DefaultAttr() Attr {
	return Attr{
		PMTU: rocev2.PMTU1024, Access: AccessRemoteWrite | AccessRemoteRead | AccessRemoteAtomic,
		MaxRdAtomic: 16, MaxDestRdAtomic: 16, MinRNRTimer: 1, Timeout: 16, RetryCnt: 7, RNRRetry: 7,
	}
}

// RequiredMask returns the attributes that the step to state to needs, from RESET over INIT
// and RTR to RTS (IBTA 11.2.5.2). MaskState is among them.
func RequiredMask(t QPType, to State) AttrMask {
	switch {
	case to == StateInit && t == UD:
		return MaskState | MaskQKey
	case to == StateInit:
		return MaskState | MaskAccess
	case to == StateRTR && t == RC:
		return MaskState | MaskAV | MaskPMTU | MaskDestQPN | MaskRQPSN | MaskMaxDestRdAtomic | MaskMinRNRTimer
	case to == StateRTR && t == UC:
		return MaskState | MaskAV | MaskPMTU | MaskDestQPN | MaskRQPSN
	case to == StateRTS && t == RC:
		return MaskState | MaskSQPSN | MaskTimeout | MaskRetryCnt | MaskRNRRetry | MaskMaxRdAtomic
	case to == StateRTS:
		return MaskState | MaskSQPSN
	}
	return MaskState
}

// ToInit brings a queue pair from RESET to INIT, where receives can be posted.
func ToInit(q Modifier, local Endpoint, a Attr) error {
	a.QKey = local.QKey
	return step(q, StateInit, a)
}

// Connect brings a queue pair from RESET or INIT to RTS, with remote as its peer. a has the
// attributes that the two Endpoints do not have, see DefaultAttr; of its address vector the
// fields TClass and HopLimit. A queue pair of UD has no peer; of remote nothing is used.
//
// The peer may send as soon as its own Connect has returned: receives that its first messages
// need are posted in INIT, between ToInit and Connect.
func Connect(q Modifier, local, remote Endpoint, a Attr) error {
	if q.State() == StateReset {
		if err := ToInit(q, local, a); err != nil {
			return err
		}
	}
	a.DestQPN, a.RQPSN, a.SQPSN = remote.QPN, remote.PSN, local.PSN
	a.AV.Src, a.AV.Dst = local.Addr, remote.Addr
	for _, to := range []State{StateRTR, StateRTS} {
		if err := step(q, to, a); err != nil {
			return err
		}
	}
	return nil
}

func step(q Modifier, to State, a Attr) error {
	a.State = to
	if err := q.Modify(a, RequiredMask(q.Type(), to)); err != nil {
		return fmt.Errorf("%s queue pair to %s: %w", q.Type(), to, err)
	}
	return nil
}
