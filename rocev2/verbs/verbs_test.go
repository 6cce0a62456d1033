// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
)

// Every value has a name, and the one after the last has none.
func TestNames(t *testing.T) {
	for _, c := range []struct{ last, beyond fmt.Stringer }{
		{UD, UD + 1}, {StateErr, StateErr + 1}, {StatusFatal, StatusFatal + 1}, {OpRecvNotify, OpRecvNotify + 1}, {OpSend, Op(0)}, {EventGIDChange, EventGIDChange + 1},
	} {
		known := func(s string) bool {
			return s != "" && !strings.HasPrefix(s, "unknown") && !strings.HasPrefix(s, "event ")
		}
		if !known(c.last.String()) || known(c.beyond.String()) {
			t.Errorf("%T: %q, then %q", c.last, c.last, c.beyond)
		}
	}
	for bit := MaskState; bit <= MaskAV; bit <<= 1 {
		if s := bit.String(); s == "" || strings.Contains(s, "unknown") {
			t.Errorf("bit %#x: %q", uint32(bit), s)
		}
	}
	if s := (MaskPMTU | MaskAV<<1).String(); s != "PMTU, unknown bits 0x10000" {
		t.Errorf("%q", s)
	}
}

// steps records what Connect asks of a queue pair.
type steps struct {
	typ   QPType
	state State
	fail  State
	log   []string
	attrs []Attr
}

var errStep = errors.New("refused")

func (s *steps) Type() QPType { return s.typ }
func (s *steps) State() State { return s.state }

func (s *steps) Modify(a Attr, mask AttrMask) error {
	if a.State == s.fail {
		return errStep
	}
	s.state = a.State
	s.log = append(s.log, fmt.Sprintf("%s: %s", a.State, mask))
	s.attrs = append(s.attrs, a)
	return nil
}

func TestConnect(t *testing.T) {
	local := Endpoint{Addr: netip.MustParseAddr("10.0.0.1"), QPN: 17, PSN: 100, QKey: 5}
	remote := Endpoint{Addr: netip.MustParseAddr("10.0.0.2"), QPN: 18, PSN: 200, QKey: 6}
	a := DefaultAttr()
	a.AV.TClass = 32
	for typ, want := range map[QPType][]string{
		RC: {
			"INIT: State, Access",
			"RTR: State, PMTU, DestQPN, RQPSN, MaxDestRdAtomic, MinRNRTimer, AV",
			"RTS: State, SQPSN, MaxRdAtomic, Timeout, RetryCnt, RNRRetry",
		},
		UC: {"INIT: State, Access", "RTR: State, PMTU, DestQPN, RQPSN, AV", "RTS: State, SQPSN"},
		UD: {"INIT: State, QKey", "RTR: State", "RTS: State, SQPSN"},
	} {
		q := &steps{typ: typ, fail: StateErr}
		if err := Connect(q, local, remote, a); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(q.log, "\n"); got != strings.Join(want, "\n") {
			t.Errorf("%s:\n%s", typ, got)
		}
		end := q.attrs[2]
		if end.DestQPN != 18 || end.SQPSN != 100 || end.RQPSN != 200 || end.AV != (AddressVector{Src: local.Addr, Dst: remote.Addr, TClass: 32}) || q.attrs[0].QKey != 5 {
			t.Errorf("%s: %+v", typ, end)
		}
	}
	// In INIT already, for receives that were posted there.
	q := &steps{typ: RC, fail: StateErr}
	if err := errors.Join(ToInit(q, local, a), Connect(q, local, remote, a)); err != nil || len(q.log) != 3 {
		t.Errorf("%v, %q", err, q.log)
	}
	for i, fail := range []State{StateInit, StateRTR, StateRTS} {
		q := &steps{typ: RC, fail: fail}
		if err := Connect(q, local, remote, a); !errors.Is(err, errStep) || !strings.Contains(err.Error(), fail.String()) || len(q.log) != i {
			t.Errorf("%s: %v, %q", fail, err, q.log)
		}
	}
}
