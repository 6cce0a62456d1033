// SPDX-License-Identifier: Apache-2.0

package qp

import (
	"errors"
	"fmt"
	"strings"

	"github.com/softroce/softroce-xdp/rocev2"
)

// State is a state of a queue pair (IBTA 10.3.1).
type State uint8

// The states.
const (
	Reset State = iota
	Init
	RTR // ready to receive
	RTS // ready to send
	SQD // send queue drained or draining
	SQE // send queue in error (UC, UD)
	Err
)

var stateNames = [...]string{"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"}

func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return "unknown state"
}

var typeNames = [...]string{RC: "RC", UC: "UC", UD: "UD"}

func (t Type) String() string {
	if t >= RC && t <= UD {
		return typeNames[t]
	}
	return "unknown service"
}

// transition is one line of the state table: the attributes that Modify needs and accepts
// to go from one state to another, by service.
type transition struct {
	from, to State
	rc, uc   attrs
	ud       attrs
	only     []Type // nil: all services
}

// attrs are the attributes that a transition needs and may take.
type attrs struct{ need, may AttrMask }

// Attributes that all RC transitions from RTR on accept. Selective is not IBTA's: HELLO may
// announce the peer after the connection was made.
const mayRC = MaskAccess | MaskMinRNRTimer | MaskSelective

// states is the table of IBTA 11.2.5.2 without port, address vector and alternate paths,
// which the engine has or RoCEv2 does not use. Attributes with a default are optional
// (PKey). Linux has the same table (ib_modify_qp_is_ok), and neither goes from RESET to
// ERR. For UD, PMTU is optional and limits the messages.
var states = []transition{
	{from: Reset, to: Reset},
	{from: Reset, to: Init,
		rc: attrs{need: MaskAccess, may: MaskPKey | MaskSelective},
		uc: attrs{need: MaskAccess, may: MaskPKey},
		ud: attrs{need: MaskQKey, may: MaskPKey}},
	{from: Init, to: Init,
		rc: attrs{may: MaskPKey | MaskAccess | MaskSelective},
		uc: attrs{may: MaskPKey | MaskAccess},
		ud: attrs{may: MaskPKey | MaskQKey}},
	{from: Init, to: RTR,
		rc: attrs{need: MaskPMTU | MaskDestQPN | MaskRQPSN | MaskMaxDestRdAtomic | MaskMinRNRTimer,
			may: MaskPKey | MaskAccess | MaskSelective},
		uc: attrs{need: MaskPMTU | MaskDestQPN | MaskRQPSN, may: MaskPKey | MaskAccess},
		ud: attrs{may: MaskPKey | MaskQKey | MaskPMTU}},
	{from: RTR, to: RTS,
		rc: attrs{need: MaskSQPSN | MaskTimeout | MaskRetryCnt | MaskRNRRetry | MaskMaxRdAtomic, may: mayRC},
		uc: attrs{need: MaskSQPSN, may: MaskAccess},
		ud: attrs{need: MaskSQPSN, may: MaskQKey}},
	{from: RTR, to: RTR, only: []Type{RC}, rc: attrs{may: MaskSelective}}, // not IBTA's
	{from: RTS, to: RTS,
		rc: attrs{may: mayRC}, uc: attrs{may: MaskAccess}, ud: attrs{may: MaskQKey}},
	{from: RTS, to: SQD},
	{from: SQD, to: SQD,
		rc: attrs{may: mayRC | MaskPKey | MaskTimeout | MaskRetryCnt | MaskRNRRetry | MaskMaxRdAtomic | MaskMaxDestRdAtomic},
		uc: attrs{may: MaskPKey | MaskAccess},
		ud: attrs{may: MaskPKey | MaskQKey}},
	{from: SQD, to: RTS,
		rc: attrs{may: mayRC}, uc: attrs{may: MaskAccess}, ud: attrs{may: MaskQKey}},
	{from: SQE, to: RTS, only: []Type{UC, UD},
		uc: attrs{may: MaskAccess}, ud: attrs{may: MaskQKey}},

	{from: Init, to: Reset}, {from: Init, to: Err},
	{from: RTR, to: Reset}, {from: RTR, to: Err},
	{from: RTS, to: Reset}, {from: RTS, to: Err},
	{from: SQD, to: Reset}, {from: SQD, to: Err},
	{from: SQE, to: Reset, only: []Type{UC, UD}}, {from: SQE, to: Err, only: []Type{UC, UD}},
	{from: Err, to: Reset}, {from: Err, to: Err},
}

// attrs returns the line's column for a service; ok is false if it has none.
func (t *transition) attrs(s Type) (a attrs, ok bool) {
	for _, only := range t.only {
		ok = ok || only == s
	}
	if t.only != nil && !ok {
		return attrs{}, false
	}
	switch s {
	case RC:
		return t.rc, true
	case UC:
		return t.uc, true
	case UD:
		return t.ud, true
	}
	return attrs{}, false
}

// The names of the bits of AttrMask, bit 0 first.
var attrNames = [...]string{
	"State", "PMTU", "DestQPN", "PKey", "QKey", "SQPSN", "RQPSN", "Access", "MaxRdAtomic", "MaxDestRdAtomic",
	"MinRNRTimer", "Timeout", "RetryCnt", "RNRRetry", "Selective",
}

// String returns the names of the attributes, as "PMTU, DestQPN".
func (m AttrMask) String() string {
	var names []string
	for i, n := range attrNames {
		if m&(1<<i) != 0 {
			names = append(names, n)
		}
	}
	if rest := m >> len(attrNames); rest != 0 {
		names = append(names, fmt.Sprintf("unknown bits %#x", uint32(rest)<<len(attrNames)))
	}
	return strings.Join(names, ", ")
}

// Modify sets the attributes of a that mask names and goes to a.State if MaskState is among
// them (IBTA 11.2.5.2). The error names the rule or value that is violated; nothing has
// changed then.
//
// RESET discards everything: work requests vanish without a completion. ERR completes all of
// them as flushed.
func (q *QP) Modify(a Attr, mask AttrMask) error {
	to := q.state
	if mask&MaskState != 0 {
		to = a.State
	}
	if err := checkTransition(q.cfg.Type, q.state, to, mask&^MaskState); err != nil {
		return err
	}
	if err := a.check(mask); err != nil {
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

func checkTransition(s Type, from, to State, mask AttrMask) error {
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

// check checks the ranges of the values that mask names.
func (a *Attr) check(mask AttrMask) error {
	var errs []error
	inRange := func(bit AttrMask, v, limit uint32) {
		if mask&bit != 0 && v > limit {
			errs = append(errs, fmt.Errorf("qp: %s is %d, the largest is %d", bit, v, limit))
		}
	}
	if mask&MaskPMTU != 0 && !a.PMTU.Valid() {
		errs = append(errs, fmt.Errorf("qp: PMTU is %d, must be 1 to 5 for 256 to 4096 bytes", a.PMTU))
	}
	inRange(MaskDestQPN, a.DestQPN, 1<<24-1)
	inRange(MaskSQPSN, uint32(a.SQPSN), rocev2.PSNMask)
	inRange(MaskRQPSN, uint32(a.RQPSN), rocev2.PSNMask)
	inRange(MaskMaxRdAtomic, uint32(a.MaxRdAtomic), maxRdAtomic)
	inRange(MaskMaxDestRdAtomic, uint32(a.MaxDestRdAtomic), maxRdAtomic)
	inRange(MaskMinRNRTimer, uint32(a.MinRNRTimer), 31)
	inRange(MaskTimeout, uint32(a.Timeout), 31)
	inRange(MaskRetryCnt, uint32(a.RetryCnt), 7)
	inRange(MaskRNRRetry, uint32(a.RNRRetry), 7)
	return errors.Join(errs...)
}

// maxRdAtomic is the largest number of READs and ATOMICs outstanding in one direction of a
// queue pair. It is rxe's limit too.
const maxRdAtomic = 128

// set copies the attributes that mask names.
func (a *Attr) set(from *Attr, mask AttrMask) {
	copyAttr(mask, MaskPMTU, &a.PMTU, from.PMTU)
	copyAttr(mask, MaskDestQPN, &a.DestQPN, from.DestQPN)
	copyAttr(mask, MaskPKey, &a.PKey, from.PKey)
	copyAttr(mask, MaskQKey, &a.QKey, from.QKey)
	copyAttr(mask, MaskSQPSN, &a.SQPSN, from.SQPSN)
	copyAttr(mask, MaskRQPSN, &a.RQPSN, from.RQPSN)
	copyAttr(mask, MaskAccess, &a.Access, from.Access)
	copyAttr(mask, MaskMaxRdAtomic, &a.MaxRdAtomic, from.MaxRdAtomic)
	copyAttr(mask, MaskMaxDestRdAtomic, &a.MaxDestRdAtomic, from.MaxDestRdAtomic)
	copyAttr(mask, MaskMinRNRTimer, &a.MinRNRTimer, from.MinRNRTimer)
	copyAttr(mask, MaskTimeout, &a.Timeout, from.Timeout)
	copyAttr(mask, MaskRetryCnt, &a.RetryCnt, from.RetryCnt)
	copyAttr(mask, MaskRNRRetry, &a.RNRRetry, from.RNRRetry)
	copyAttr(mask, MaskSelective, &a.Selective, from.Selective)
}

func copyAttr[T any](mask, bit AttrMask, to *T, from T) {
	if mask&bit != 0 {
		*to = from
	}
}

// enter performs the effects of a state change on both halves.
func (q *QP) enter(to State) {
	from := q.state
	q.state = to
	switch {
	case to == Reset:
		q.attr = Attr{}
		q.req.reset()
		q.rsp.reset()
	case to == Err && from != Err:
		q.rsp.discard()
		q.req.flush(0)
		q.rsp.flush(0)
	case from == Init && to == RTR:
		q.rsp.start()
	case from == RTR && to == RTS:
		q.req.start()
	case from == RTS && to == SQD:
		q.req.drain()
	}
}
