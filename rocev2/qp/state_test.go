// SPDX-License-Identifier: Apache-2.0

package qp

import (
	"fmt"
	"strings"
	"testing"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// renderStates returns the state table as a page of documentation.
func renderStates() string {
	var b strings.Builder
	b.WriteString(`# States of a queue pair

` + "`UPDATE=1 go test ./rocev2/qp -run StateTable`" + ` writes this page from the table in ` + "`rocev2/qp/state.go`" + `.
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
	for _, s := range []verbs.QPType{verbs.RC, verbs.UC, verbs.UD} {
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
	for _, file := range []string{"testdata/states.golden", "../../docs/reference/queue-pair-states.md"} {
		testkit.Golden(t, file, renderStates())
	}
}

// good has a legal value in every attribute.
var good = verbs.Attr{PMTU: rocev2.PMTU1024, DestQPN: 5, QKey: 9, MaxRdAtomic: 1, MaxDestRdAtomic: 1, MinRNRTimer: 1, Timeout: 14, RetryCnt: 7, RNRRetry: 7}

// lead brings a new queue pair to a state by the shortest path.
func lead(t *testing.T, s verbs.QPType, to verbs.State) *QP {
	t.Helper()
	q := New(Config{Type: s, Count: new(Counters), SendCQ: &testCQ{}, RecvCQ: &testCQ{}, MaxRecv: 1})
	way := map[verbs.State][]verbs.State{
		verbs.StateReset: {}, verbs.StateInit: {verbs.StateInit}, verbs.StateRTR: {verbs.StateInit, verbs.StateRTR}, verbs.StateRTS: {verbs.StateInit, verbs.StateRTR, verbs.StateRTS}, verbs.StateSQD: {verbs.StateInit, verbs.StateRTR, verbs.StateRTS, verbs.StateSQD},
		verbs.StateErr: {verbs.StateInit, verbs.StateErr},
	}[to]
	for _, next := range way {
		a := good
		a.State = next
		if err := q.Modify(a, needed(s, q.state, next)); err != nil {
			t.Fatal(err)
		}
	}
	if to == verbs.StateSQE {
		q = lead(t, s, verbs.StateRTS)
		q.state = verbs.StateSQE // only an error of the send queue leads there
	}
	return q
}

// Every pair of states, every attribute: Modify follows the table, and changes nothing when
// it returns an error.
func TestModifyByTheTable(t *testing.T) {
	for _, s := range []verbs.QPType{verbs.RC, verbs.UC, verbs.UD} {
		for from := verbs.StateReset; from <= verbs.StateErr; from++ {
			if from == verbs.StateSQE && s == verbs.RC {
				continue
			}
			for to := verbs.StateReset; to <= verbs.StateErr; to++ {
				var line *transition
				var col attrs
				for i := range states {
					if c, ok := states[i].attrs(s); ok && states[i].from == from && states[i].to == to {
						line, col = &states[i], c
					}
				}
				modify := func(mask verbs.AttrMask) (verbs.State, error) {
					q := lead(t, s, from)
					a := good
					a.State = to
					err := q.Modify(a, mask|verbs.MaskState)
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
				for bit := verbs.MaskState << 1; bit <= verbs.MaskSelective; bit <<= 1 {
					name := bit.String()
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
		from, to verbs.State
		change   func(*verbs.Attr)
		want     string
	}{
		{verbs.StateInit, verbs.StateRTR, func(a *verbs.Attr) { a.PMTU = 0 }, "qp: PMTU is 0, must be 1 to 5 for 256 to 4096 bytes"},
		{verbs.StateInit, verbs.StateRTR, func(a *verbs.Attr) { a.DestQPN = 1 << 24 }, "qp: DestQPN is 16777216, the largest is 16777215"},
		{verbs.StateInit, verbs.StateRTR, func(a *verbs.Attr) { a.MinRNRTimer = 32 }, "qp: MinRNRTimer is 32, the largest is 31"},
		{verbs.StateInit, verbs.StateRTR, func(a *verbs.Attr) { a.RQPSN = 1 << 24 }, "qp: RQPSN is 16777216, the largest is 16777215"},
		{verbs.StateInit, verbs.StateRTR, func(a *verbs.Attr) { a.MaxDestRdAtomic = 129 }, "qp: MaxDestRdAtomic is 129, the largest is 128"},
		{verbs.StateRTR, verbs.StateRTS, func(a *verbs.Attr) { a.RetryCnt, a.Timeout = 8, 32 }, "qp: Timeout is 32, the largest is 31\nqp: RetryCnt is 8, the largest is 7"},
		{verbs.StateRTR, verbs.StateRTS, func(a *verbs.Attr) { a.RNRRetry = 8 }, "qp: RNRRetry is 8, the largest is 7"},
	} {
		q := lead(t, verbs.RC, c.from)
		a := good
		a.State = c.to
		c.change(&a)
		if err := q.Modify(a, needed(verbs.RC, c.from, c.to)); err == nil || err.Error() != c.want {
			t.Errorf("%s to %s: %v, want %s", c.from, c.to, err, c.want)
		}
		if q.State() != c.from {
			t.Errorf("refused, but now in %s", q.State())
		}
	}
	q := lead(t, verbs.RC, verbs.StateRTS)
	if err := q.Modify(good, 1<<31); err == nil || !strings.Contains(err.Error(), "unknown bits 0x80000000") {
		t.Errorf("an unknown bit: %v", err)
	}
}

// Without MaskState the state stays and attributes change.
func TestModifyInPlace(t *testing.T) {
	q := lead(t, verbs.RC, verbs.StateRTS)
	if err := q.Modify(verbs.Attr{MinRNRTimer: 20, State: verbs.StateErr}, verbs.MaskMinRNRTimer); err != nil {
		t.Fatal(err)
	}
	if a := q.Attr(); a.State != verbs.StateRTS || a.MinRNRTimer != 20 || a.DestQPN != good.DestQPN {
		t.Errorf("attributes are now %+v", a)
	}
}

func TestPostRecvByState(t *testing.T) {
	for _, c := range []struct {
		state verbs.State
		want  error
		done  int
	}{{verbs.StateReset, verbs.ErrRecvState, 0}, {verbs.StateInit, nil, 0}, {verbs.StateRTR, nil, 0}, {verbs.StateRTS, nil, 0}, {verbs.StateSQD, nil, 0}, {verbs.StateErr, nil, 1}} {
		q := lead(t, verbs.RC, c.state)
		if err := q.PostRecv(&verbs.RecvWR{ID: 4}); err != c.want {
			t.Errorf("%s: PostRecv says %v, want %v", c.state, err, c.want)
		}
		got := q.cfg.RecvCQ.(*testCQ).got
		if len(got) != c.done || c.done == 1 && (got[0].Status != verbs.StatusWRFlushed || got[0].WRID != 4) {
			t.Errorf("%s: completions %+v", c.state, got)
		}
	}
	q := lead(t, verbs.RC, verbs.StateInit)
	if err := q.PostRecv(&verbs.RecvWR{SGL: make([]verbs.SGE, 1)}); err == nil || err.Error() != "verbs: the list has more elements than the queue was created for: 1 of 0" {
		t.Errorf("a list too long: %v", err)
	}
	if err := q.PostRecv(&verbs.RecvWR{}); err != nil {
		t.Error(err)
	}
	if err := q.PostRecv(&verbs.RecvWR{}); err != verbs.ErrQueueFull {
		t.Errorf("a full queue: %v", err)
	}
}

// verbs.Connect sets what the table needs, and the address vector, which the table leaves to
// the engine.
func TestRequiredMask(t *testing.T) {
	from := verbs.StateReset
	for _, to := range []verbs.State{verbs.StateInit, verbs.StateRTR, verbs.StateRTS} {
		for _, s := range []verbs.QPType{verbs.RC, verbs.UC, verbs.UD} {
			for i := range states {
				if line := &states[i]; line.from == from && line.to == to {
					col, _ := line.attrs(s)
					if got := verbs.RequiredMask(s, to) &^ verbs.MaskAV; got != col.need|verbs.MaskState {
						t.Errorf("%s to %s: %s, the table needs %s", s, to, got, col.need)
					}
				}
			}
		}
		from = to
	}
}
