// SPDX-License-Identifier: Apache-2.0

package qp

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/softroce/softroce-xdp/rocev2"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// renderStates returns the state table as a page of documentation.
func renderStates() string {
	var b strings.Builder
	b.WriteString(`# States of a queue pair

` + "`go test ./rocev2/qp -run StateTable -update`" + ` writes this page from the table in ` + "`rocev2/qp/state.go`" + `.
The table follows IBTA 10.3.1 and 11.2.5.2.
Modify refuses a transition that is not listed, and an attribute that its line does not name.

| state | receives | sends | PostRecv | PostSend |
|---|---|---|---|---|
| RESET | no | no | refused | refused |
| INIT | no | no | queued | refused |
| RTR | yes | responses only | queued | refused |
| RTS | yes | yes | queued | queued |
| SQD | yes | messages already begun | queued | queued, sent in RTS |
| SQE | yes | no | queued | completes as flushed |
| ERR | no | no | completes as flushed | completes as flushed |

After a fatal error a queue pair goes to ERR without Modify.
After an error of the send queue, UC and UD go to SQE.
`)
	for _, s := range []Type{RC, UC, UD} {
		fmt.Fprintf(&b, "\n## %s\n\n| from | to | needs | takes |\n|---|---|---|---|\n", s)
		for i := range states {
			t := &states[i]
			if col, ok := t.attrs(s); ok {
				fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", t.from, t.to, col.need, col.may)
			}
		}
	}
	return b.String()
}

// The table as text, so that a change is visible in a review; the page in docs is the same.
func TestStateTable(t *testing.T) {
	for _, file := range []string{"testdata/states.golden", "../../docs/queue-pair-states.md"} {
		if *update {
			if err := os.WriteFile(file, []byte(renderStates()), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if renderStates() != string(want) {
			t.Errorf("the table differs from %s:\n%s", file, renderStates())
		}
	}
}

// good has a legal value in every attribute.
var good = Attr{PMTU: rocev2.PMTU1024, DestQPN: 5, QKey: 9, MaxRdAtomic: 1, MaxDestRdAtomic: 1, MinRNRTimer: 1, Timeout: 14, RetryCnt: 7, RNRRetry: 7}

// lead brings a new queue pair to a state by the shortest path.
func lead(t *testing.T, s Type, to State) *QP {
	t.Helper()
	q := New(Config{Type: s, Count: new(Counters), SendCQ: &testCQ{}, RecvCQ: &testCQ{}, MaxRecv: 1})
	way := map[State][]State{
		Reset: {}, Init: {Init}, RTR: {Init, RTR}, RTS: {Init, RTR, RTS}, SQD: {Init, RTR, RTS, SQD},
		Err: {Init, Err},
	}[to]
	for _, next := range way {
		a := good
		a.State = next
		if err := q.Modify(a, needed(s, q.state, next)); err != nil {
			t.Fatal(err)
		}
	}
	if to == SQE {
		q = lead(t, s, RTS)
		q.state = SQE // only an error of the send queue leads there
	}
	return q
}

// Every pair of states, every attribute: Modify follows the table, and changes nothing when
// it returns an error.
func TestModifyByTheTable(t *testing.T) {
	for _, s := range []Type{RC, UC, UD} {
		for from := Reset; from <= Err; from++ {
			if from == SQE && s == RC {
				continue
			}
			for to := Reset; to <= Err; to++ {
				var line *transition
				var col attrs
				for i := range states {
					if c, ok := states[i].attrs(s); ok && states[i].from == from && states[i].to == to {
						line, col = &states[i], c
					}
				}
				modify := func(mask AttrMask) (State, error) {
					q := lead(t, s, from)
					a := good
					a.State = to
					err := q.Modify(a, mask|MaskState)
					return q.State(), err
				}
				got, err := modify(col.need)
				switch {
				case line == nil && (err == nil || !strings.Contains(err.Error(), "cannot go")):
					t.Errorf("%s %s to %s: %v, want a refusal", s, from, to, err)
				case line != nil && (err != nil || got != to):
					t.Errorf("%s %s to %s: %v, now in %s", s, from, to, err, got)
				}
				if line == nil {
					continue
				}
				for i, name := range attrNames[1:] {
					bit := AttrMask(2) << i
					switch got, err := modify(col.need ^ bit); {
					case col.need&bit != 0 && (err == nil || !strings.Contains(err.Error(), "needs "+name) || got != from):
						t.Errorf("%s %s to %s without %s: %v, now in %s", s, from, to, name, err, got)
					case col.may&bit != 0 && err != nil:
						t.Errorf("%s %s to %s with %s: %v", s, from, to, name, err)
					case (col.need|col.may)&bit == 0 && (err == nil || !strings.Contains(err.Error(), "does not take "+name) || got != from):
						t.Errorf("%s %s to %s with %s: %v, now in %s", s, from, to, name, err, got)
					}
				}
			}
		}
	}
}

func TestModifyValues(t *testing.T) {
	for _, c := range []struct {
		from, to State
		change   func(*Attr)
		want     string
	}{
		{Init, RTR, func(a *Attr) { a.PMTU = 0 }, "qp: PMTU is 0, must be 1 to 5 for 256 to 4096 bytes"},
		{Init, RTR, func(a *Attr) { a.DestQPN = 1 << 24 }, "qp: DestQPN is 16777216, the largest is 16777215"},
		{Init, RTR, func(a *Attr) { a.MinRNRTimer = 32 }, "qp: MinRNRTimer is 32, the largest is 31"},
		{Init, RTR, func(a *Attr) { a.RQPSN = 1 << 24 }, "qp: RQPSN is 16777216, the largest is 16777215"},
		{Init, RTR, func(a *Attr) { a.MaxDestRdAtomic = 129 }, "qp: MaxDestRdAtomic is 129, the largest is 128"},
		{RTR, RTS, func(a *Attr) { a.RetryCnt, a.Timeout = 8, 32 }, "qp: Timeout is 32, the largest is 31\nqp: RetryCnt is 8, the largest is 7"},
		{RTR, RTS, func(a *Attr) { a.RNRRetry = 8 }, "qp: RNRRetry is 8, the largest is 7"},
	} {
		q := lead(t, RC, c.from)
		a := good
		a.State = c.to
		c.change(&a)
		if err := q.Modify(a, needed(RC, c.from, c.to)); err == nil || err.Error() != c.want {
			t.Errorf("%s to %s: %v, want %s", c.from, c.to, err, c.want)
		}
		if q.State() != c.from {
			t.Errorf("refused, but now in %s", q.State())
		}
	}
	q := lead(t, RC, RTS)
	if err := q.Modify(good, 1<<31); err == nil || !strings.Contains(err.Error(), "unknown bits 0x80000000") {
		t.Errorf("an unknown bit: %v", err)
	}
}

// Without MaskState the state stays and attributes change.
func TestModifyInPlace(t *testing.T) {
	q := lead(t, RC, RTS)
	if err := q.Modify(Attr{MinRNRTimer: 20, State: Err}, MaskMinRNRTimer); err != nil {
		t.Fatal(err)
	}
	if a := q.Attr(); a.State != RTS || a.MinRNRTimer != 20 || a.DestQPN != good.DestQPN {
		t.Errorf("attributes are now %+v", a)
	}
}

func TestPostRecvByState(t *testing.T) {
	for _, c := range []struct {
		state State
		want  error
		done  int
	}{{Reset, ErrRecvState, 0}, {Init, nil, 0}, {RTR, nil, 0}, {RTS, nil, 0}, {SQD, nil, 0}, {Err, nil, 1}} {
		q := lead(t, RC, c.state)
		if err := q.PostRecv(&RecvWR{ID: 4}); err != c.want {
			t.Errorf("%s: PostRecv says %v, want %v", c.state, err, c.want)
		}
		got := q.cfg.RecvCQ.(*testCQ).got
		if len(got) != c.done || c.done == 1 && (got[0].Status != WRFlushed || got[0].WRID != 4) {
			t.Errorf("%s: completions %+v", c.state, got)
		}
	}
	q := lead(t, RC, Init)
	if err := q.PostRecv(&RecvWR{SGL: make([]SGE, 1)}); err == nil || err.Error() != "qp: the list of the receive is longer than MaxRecvSGE: 1 of 0" {
		t.Errorf("a list too long: %v", err)
	}
	if err := q.PostRecv(&RecvWR{}); err != nil {
		t.Error(err)
	}
	if err := q.PostRecv(&RecvWR{}); err != ErrRecvFull {
		t.Errorf("a full queue: %v", err)
	}
}
