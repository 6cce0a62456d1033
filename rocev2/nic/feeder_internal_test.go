// SPDX-License-Identifier: Apache-2.0

package nic

import (
	"testing"
	"time"
)

// dueFeeder is a feeder that is to be called in some time.
type dueFeeder struct {
	Feeder
	in   time.Duration
	some bool
}

func (f dueFeeder) Due() (time.Duration, bool) { return f.in, f.some }

// The engine does not sleep longer than until its feeder is to be called.
func TestSleepOfFeeder(t *testing.T) {
	d, err := OpenLoopback(Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	e := d.eng
	d.InLoop(func() {
		defer func() { e.feeder = nil }()
		for _, c := range []struct {
			f    dueFeeder
			want time.Duration
		}{
			{dueFeeder{in: 5 * time.Millisecond, some: true}, 5 * time.Millisecond},
			{dueFeeder{in: 0, some: true}, 0},
			{dueFeeder{in: time.Hour, some: true}, maxSleep},
			{dueFeeder{}, maxSleep},
		} {
			e.feeder = c.f
			if got := e.untilNext(e.core.Now()); got != c.want {
				t.Errorf("%+v: it sleeps %v, want %v", c.f, got, c.want)
			}
		}
	})
}
