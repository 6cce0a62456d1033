// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"errors"
	"testing"
)

// The states in which work requests are taken: all from RTS on, in out-of-order mode RTS and ERR.
func TestSendStates(t *testing.T) {
	for s := StateReset; s <= StateErr; s++ {
		for _, unordered := range []bool{false, true} {
			_, err := CheckSend(&SendWR{Op: OpWrite}, &SendRules{Type: RC, OutOfOrder: unordered, State: s})
			want := s >= StateRTS
			if unordered {
				want = s == StateRTS || s == StateErr
			}
			if (err == nil) != want || err != nil && !errors.Is(err, ErrSendState) {
				t.Errorf("%s, out of order: %t: %v", s, unordered, err)
			}
		}
	}
}

// CheckSend returns the length of the message, of a list, of inline data and in out-of-order mode.
func TestSendLength(t *testing.T) {
	for _, c := range []struct {
		name string
		r    SendRules
		wr   SendWR
		want uint32
	}{
		{"list", SendRules{Type: RC, State: StateRTS, MaxSGE: 2}, SendWR{Op: OpSend, SGL: []SGE{{Len: 7}, {Len: 4}}}, 11},
		{"the longest", SendRules{Type: RC, State: StateRTS, MaxSGE: 1}, SendWR{Op: OpWrite, SGL: []SGE{{Len: MaxMessage}}}, MaxMessage},
		{"inline", SendRules{Type: UC, State: StateRTS, MaxInline: 3}, SendWR{Op: OpSend, Flags: Inline, Data: []byte{1, 2, 3}}, 3},
		{"out of order", SendRules{OutOfOrder: true, State: StateRTS}, SendWR{Op: OpRead, SGL: []SGE{{Len: 9}}}, 9},
		{"out of order, nothing", SendRules{OutOfOrder: true, State: StateRTS}, SendWR{Op: OpWriteNotify}, 0},
	} {
		if n, err := CheckSend(&c.wr, &c.r); n != c.want || err != nil {
			t.Errorf("%s: %d bytes, %v", c.name, n, err)
		}
	}
}

// The errors of receives.
func TestRecvErrors(t *testing.T) {
	for _, c := range []struct {
		r    RecvRules
		want error
	}{
		{RecvRules{State: StateReset, MaxSGE: 2}, ErrRecvState},
		{RecvRules{State: StateInit, SRQ: true, MaxSGE: 2}, ErrSRQ},
		{RecvRules{State: StateInit, MaxSGE: 1}, ErrSGL},
		{RecvRules{State: StateInit, MaxSGE: 2}, nil},
	} {
		if err := CheckRecv(&RecvWR{SGL: make([]SGE, 2)}, c.r); !errors.Is(err, c.want) {
			t.Errorf("%+v: %v", c.r, err)
		}
	}
}
