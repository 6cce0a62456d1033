// SPDX-License-Identifier: Apache-2.0

package qp

import (
	"errors"
	"fmt"
	"strings"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// transition is one line of the state table: the attributes that Modify needs and accepts
// to go from one state to another, by service.
type transition struct {
	from, to verbs.State
	rc, uc   attrs
	ud       attrs
	only     []verbs.QPType // nil: all services
}

// attrs are the attributes that a transition needs and may take.
type attrs struct{ need, may verbs.AttrMask }

// Attributes that all RC transitions from RTR on accept. Selective is not IBTA's: HELLO may
// announce the peer after the connection was made.
const mayRC = verbs.MaskAccess | verbs.MaskMinRNRTimer | verbs.MaskSelective

// states is the table of IBTA 11.2.5.2 without port, address vector and alternate paths,
// which the engine has or RoCEv2 does not use. Attributes with a default are optional
// (PKey). Linux has the same table (ib_modify_qp_is_ok), and neither goes from RESET to
// ERR. For UD, PMTU is optional and limits the messages.
var states = []transition{
	{from: verbs.StateReset, to: verbs.StateReset},
	{from: verbs.StateReset, to: verbs.StateInit,
		rc: attrs{need: verbs.MaskAccess, may: verbs.MaskPKey | verbs.MaskSelective},
		uc: attrs{need: verbs.MaskAccess, may: verbs.MaskPKey},
		ud: attrs{need: verbs.MaskQKey, may: verbs.MaskPKey}},
	{from: verbs.StateInit, to: verbs.StateInit,
		rc: attrs{may: verbs.MaskPKey | verbs.MaskAccess | verbs.MaskSelective},
		uc: attrs{may: verbs.MaskPKey | verbs.MaskAccess},
		ud: attrs{may: verbs.MaskPKey | verbs.MaskQKey}},
	{from: verbs.StateInit, to: verbs.StateRTR,
		rc: attrs{need: verbs.MaskPMTU | verbs.MaskDestQPN | verbs.MaskRQPSN | verbs.MaskMaxDestRdAtomic | verbs.MaskMinRNRTimer,
			may: verbs.MaskPKey | verbs.MaskAccess | verbs.MaskSelective},
		uc: attrs{need: verbs.MaskPMTU | verbs.MaskDestQPN | verbs.MaskRQPSN, may: verbs.MaskPKey | verbs.MaskAccess},
		ud: attrs{may: verbs.MaskPKey | verbs.MaskQKey | verbs.MaskPMTU}},
	{from: verbs.StateRTR, to: verbs.StateRTS,
		rc: attrs{need: verbs.MaskSQPSN | verbs.MaskTimeout | verbs.MaskRetryCnt | verbs.MaskRNRRetry | verbs.MaskMaxRdAtomic, may: mayRC},
		uc: attrs{need: verbs.MaskSQPSN, may: verbs.MaskAccess},
		ud: attrs{need: verbs.MaskSQPSN, may: verbs.MaskQKey}},
	{from: verbs.StateRTR, to: verbs.StateRTR, only: []verbs.QPType{verbs.RC}, rc: attrs{may: verbs.MaskSelective}}, // not IBTA's
	{from: verbs.StateRTS, to: verbs.StateRTS,
		rc: attrs{may: mayRC}, uc: attrs{may: verbs.MaskAccess}, ud: attrs{may: verbs.MaskQKey}},
	{from: verbs.StateRTS, to: verbs.StateSQD},
	{from: verbs.StateSQD, to: verbs.StateSQD,
		rc: attrs{may: mayRC | verbs.MaskPKey | verbs.MaskTimeout | verbs.MaskRetryCnt | verbs.MaskRNRRetry | verbs.MaskMaxRdAtomic | verbs.MaskMaxDestRdAtomic},
		uc: attrs{may: verbs.MaskPKey | verbs.MaskAccess},
		ud: attrs{may: verbs.MaskPKey | verbs.MaskQKey}},
	{from: verbs.StateSQD, to: verbs.StateRTS,
		rc: attrs{may: mayRC}, uc: attrs{may: verbs.MaskAccess}, ud: attrs{may: verbs.MaskQKey}},
	{from: verbs.StateSQE, to: verbs.StateRTS, only: []verbs.QPType{verbs.UC, verbs.UD},
		uc: attrs{may: verbs.MaskAccess}, ud: attrs{may: verbs.MaskQKey}},

	{from: verbs.StateInit, to: verbs.StateReset}, {from: verbs.StateInit, to: verbs.StateErr},
	{from: verbs.StateRTR, to: verbs.StateReset}, {from: verbs.StateRTR, to: verbs.StateErr},
	{from: verbs.StateRTS, to: verbs.StateReset}, {from: verbs.StateRTS, to: verbs.StateErr},
	{from: verbs.StateSQD, to: verbs.StateReset}, {from: verbs.StateSQD, to: verbs.StateErr},
	{from: verbs.StateSQE, to: verbs.StateReset, only: []verbs.QPType{verbs.UC, verbs.UD}}, {from: verbs.StateSQE, to: verbs.StateErr, only: []verbs.QPType{verbs.UC, verbs.UD}},
	{from: verbs.StateErr, to: verbs.StateReset}, {from: verbs.StateErr, to: verbs.StateErr},
}

// attrs returns the line's column for a service; ok is false if it has none.
func (t *transition) attrs(s verbs.QPType) (a attrs, ok bool) {
	for _, only := range t.only {
		ok = ok || only == s
	}
	if t.only != nil && !ok {
		return attrs{}, false
	}
	switch s {
	case verbs.RC:
		return t.rc, true
	case verbs.UC:
		return t.uc, true
	case verbs.UD:
		return t.ud, true
	}
	return attrs{}, false
}

// Modify sets the attributes of a that mask names and goes to a.State if MaskState is among
// them (IBTA 11.2.5.2). The error names the rule or value that is violated; nothing has
// changed then.
//
// The address vector is the engine's, and ignored here.
//
// RESET discards everything: work requests vanish without a completion. ERR completes all of
// them as flushed.
func (q *QP) Modify(a verbs.Attr, mask verbs.AttrMask) error {
	to := q.state
	if mask&verbs.MaskState != 0 {
		to = a.State
	}
	if err := checkTransition(q.cfg.Type, q.state, to, mask&^(verbs.MaskState|verbs.MaskAV)); err != nil {
		return err
	}
	if err := checkAttr(&a, mask); err != nil {
		return err
	}
	was := q.attr.Selective
	q.attr.set(&a, mask)
	if !q.attr.Selective {
		q.rsp.dropBuffered()
		if was { // the peer does not buffer packets any more
			q.req.scoreboard = nil
		}
	}
	q.enter(to)
	q.updateInflight()
	return nil
}

func checkTransition(s verbs.QPType, from, to verbs.State, mask verbs.AttrMask) error {
	var next []string
	for i := range states {
		t := &states[i]
		col, ok := t.attrs(s)
		if t.from != from || !ok {
			continue
		}
		next = append(next, t.to.String())
		if t.to != to {
			continue
		}
		if missing := col.need &^ mask; missing != 0 {
			return fmt.Errorf("qp: %s from %s to %s needs %s: set it and its mask bit", s, from, to, missing)
		}
		if extra := mask &^ (col.need | col.may); extra != 0 {
			return fmt.Errorf("qp: %s from %s to %s does not take %s", s, from, to, extra)
		}
		return nil
	}
	return fmt.Errorf("qp: %s cannot go from %s to %s, only to %s", s, from, to, strings.Join(next, ", "))
}

// checkAttr checks the ranges of the values that mask names.
func checkAttr(a *verbs.Attr, mask verbs.AttrMask) error {
	var errs []error
	inRange := func(bit verbs.AttrMask, v, limit uint32) {
		if mask&bit != 0 && v > limit {
			errs = append(errs, fmt.Errorf("qp: %s is %d, the largest is %d", bit, v, limit))
		}
	}
	if mask&verbs.MaskPMTU != 0 && !a.PMTU.Valid() {
		errs = append(errs, fmt.Errorf("qp: PMTU is %d, must be 1 to 5 for 256 to 4096 bytes", a.PMTU))
	}
	inRange(verbs.MaskDestQPN, a.DestQPN, 1<<24-1)
	inRange(verbs.MaskSQPSN, uint32(a.SQPSN), rocev2.PSNMask)
	inRange(verbs.MaskRQPSN, uint32(a.RQPSN), rocev2.PSNMask)
	inRange(verbs.MaskMaxRdAtomic, uint32(a.MaxRdAtomic), MaxRdAtomic)
	inRange(verbs.MaskMaxDestRdAtomic, uint32(a.MaxDestRdAtomic), MaxRdAtomic)
	inRange(verbs.MaskMinRNRTimer, uint32(a.MinRNRTimer), 31)
	inRange(verbs.MaskTimeout, uint32(a.Timeout), 31)
	inRange(verbs.MaskRetryCnt, uint32(a.RetryCnt), 7)
	inRange(verbs.MaskRNRRetry, uint32(a.RNRRetry), 7)
	return errors.Join(errs...)
}

// MaxRdAtomic is the largest number of READs and ATOMICs outstanding in one direction of a
// queue pair. It is rxe's limit too.
const MaxRdAtomic = 128

// attributes are the fields of verbs.Attr that the transport uses. They are few, as packets
// of thousands of queue pairs need them.
type attributes struct {
	PMTU    rocev2.PMTU
	DestQPN uint32
	PKey    uint16
	QKey    uint32
	SQPSN   rocev2.PSN
	RQPSN   rocev2.PSN
	Access  verbs.Access

	MaxRdAtomic, MaxDestRdAtomic             uint8
	MinRNRTimer, Timeout, RetryCnt, RNRRetry uint8

	Selective bool
}

// all returns the attributes as applications see them.
func (a *attributes) all() verbs.Attr {
	return verbs.Attr{
		PMTU: a.PMTU, DestQPN: a.DestQPN, PKey: a.PKey, QKey: a.QKey, SQPSN: a.SQPSN, RQPSN: a.RQPSN, Access: a.Access,
		MaxRdAtomic: a.MaxRdAtomic, MaxDestRdAtomic: a.MaxDestRdAtomic, MinRNRTimer: a.MinRNRTimer,
		Timeout: a.Timeout, RetryCnt: a.RetryCnt, RNRRetry: a.RNRRetry, Selective: a.Selective,
	}
}

// set copies the attributes that mask names.
func (a *attributes) set(from *verbs.Attr, mask verbs.AttrMask) {
	copyAttr(mask, verbs.MaskPMTU, &a.PMTU, from.PMTU)
	copyAttr(mask, verbs.MaskDestQPN, &a.DestQPN, from.DestQPN)
	copyAttr(mask, verbs.MaskPKey, &a.PKey, from.PKey)
	copyAttr(mask, verbs.MaskQKey, &a.QKey, from.QKey)
	copyAttr(mask, verbs.MaskSQPSN, &a.SQPSN, from.SQPSN)
	copyAttr(mask, verbs.MaskRQPSN, &a.RQPSN, from.RQPSN)
	copyAttr(mask, verbs.MaskAccess, &a.Access, from.Access)
	copyAttr(mask, verbs.MaskMaxRdAtomic, &a.MaxRdAtomic, from.MaxRdAtomic)
	copyAttr(mask, verbs.MaskMaxDestRdAtomic, &a.MaxDestRdAtomic, from.MaxDestRdAtomic)
	copyAttr(mask, verbs.MaskMinRNRTimer, &a.MinRNRTimer, from.MinRNRTimer)
	copyAttr(mask, verbs.MaskTimeout, &a.Timeout, from.Timeout)
	copyAttr(mask, verbs.MaskRetryCnt, &a.RetryCnt, from.RetryCnt)
	copyAttr(mask, verbs.MaskRNRRetry, &a.RNRRetry, from.RNRRetry)
	copyAttr(mask, verbs.MaskSelective, &a.Selective, from.Selective)
}

func copyAttr[T any](mask, bit verbs.AttrMask, to *T, from T) {
	if mask&bit != 0 {
		*to = from
	}
}

// enter performs the effects of a state change on both halves.
func (q *QP) enter(to verbs.State) {
	from := q.state
	q.state = to
	switch {
	case to == verbs.StateReset:
		q.attr = attributes{}
		q.req.reset()
		q.rsp.reset()
	case to == verbs.StateErr && from != verbs.StateErr:
		q.rsp.discard()
		q.req.flush(0)
		q.rsp.flush(0)
	case from == verbs.StateInit && to == verbs.StateRTR:
		q.rsp.start()
	case from == verbs.StateRTR && to == verbs.StateRTS:
		q.req.start()
	case from == verbs.StateRTS && to == verbs.StateSQD:
		q.req.drain()
	}
}
