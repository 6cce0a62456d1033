// SPDX-License-Identifier: Apache-2.0

package route

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
)

// hopScript plays the kernel for one hop on virtual time.
type hopScript struct {
	t     *testing.T
	h     *hop
	start time.Time
	now   time.Time
}

func newHopScript(t *testing.T) *hopScript {
	start := time.Unix(1000, 0)
	return &hopScript{t: t, h: newHop(netip.MustParseAddr("10.0.0.2"), "eth0", 5*time.Second, start), start: start, now: start}
}

// onNeighbour tells the hop what the kernel says and checks what comes of it: whether it
// wants the entry used, its error, and when it is due (seconds from now, -1: never).
func (s *hopScript) onNeighbour(what string, state int, mac byte, use bool, err error, due float64) {
	s.t.Helper()
	n := neighbour{state: state, mac: [6]byte{2, 0, 0, 0, 0, mac}}
	got := s.h.onNeighbour(n, s.now)
	if got != use {
		s.t.Errorf("%s: use %v, want %v", what, got, use)
	}
	if got {
		s.h.onUsed(s.now, nil)
	}
	if !errors.Is(s.h.err, err) || (err == nil) != (s.h.err == nil) {
		s.t.Errorf("%s: error %v, want %v", what, s.h.err, err)
	}
	if err == nil && s.h.mac[5] != mac {
		s.t.Errorf("%s: MAC %x, want …%02x", what, s.h.mac, mac)
	}
	gotDue := -1.0
	if !s.h.checkAt.IsZero() {
		gotDue = s.h.checkAt.Sub(s.now).Seconds()
	}
	if gotDue != due {
		s.t.Errorf("%s: due in %v s, want %v", what, gotDue, due)
	}
}

func (s *hopScript) pass(d time.Duration) {
	s.now = s.now.Add(d)
	if !s.h.checkAt.IsZero() && !s.now.Before(s.h.checkAt) {
		s.h.checkAt = time.Time{} // as the worker does
	}
}

func TestHopResolves(t *testing.T) {
	s := newHopScript(t)
	s.onNeighbour("no entry", 0, 0, true, ErrPending, 1)
	s.onNeighbour("incomplete", netlink.NUD_INCOMPLETE, 0, false, ErrPending, 1)
	s.pass(20 * time.Millisecond)
	s.onNeighbour("answer", netlink.NUD_REACHABLE, 7, false, nil, -1)
	s.pass(30 * time.Second)
	s.onNeighbour("stale", netlink.NUD_STALE, 7, true, nil, 1)
	s.onNeighbour("still stale", netlink.NUD_STALE, 7, false, nil, 1) // not asked for twice
	s.onNeighbour("delay", netlink.NUD_DELAY, 7, false, nil, -1)
	s.pass(5 * time.Second)
	s.onNeighbour("probe", netlink.NUD_PROBE, 7, false, nil, -1)
	s.onNeighbour("another MAC", netlink.NUD_REACHABLE, 8, false, nil, -1)
}

func TestHopPermanentIsLeftAlone(t *testing.T) {
	for _, state := range []int{netlink.NUD_PERMANENT, netlink.NUD_NOARP} {
		s := newHopScript(t)
		s.onNeighbour("entry", state, 3, false, nil, -1)
		s.onNeighbour("entry again", state, 4, false, nil, -1)
	}
}

func TestHopSilent(t *testing.T) {
	s := newHopScript(t)
	s.onNeighbour("an old failure", netlink.NUD_FAILED, 0, true, ErrPending, 1)
	s.onNeighbour("asking", netlink.NUD_INCOMPLETE, 0, false, ErrPending, 1)
	s.pass(3 * time.Second)
	s.onNeighbour("failed", netlink.NUD_FAILED, 0, false, ErrNeighbour, 1)
	if text := s.h.err.Error(); !strings.Contains(text, "10.0.0.2 on eth0") {
		t.Errorf("error %q does not say who", text)
	}
	for _, pause := range []float64{2, 4, 8, 16, 30, 30} {
		s.onNeighbour("failed, told twice", netlink.NUD_FAILED, 0, false, ErrNeighbour, s.h.checkAt.Sub(s.now).Seconds())
		s.onNeighbour("entry collected", 0, 0, false, ErrNeighbour, s.h.checkAt.Sub(s.now).Seconds())
		s.pass(s.h.checkAt.Sub(s.now))
		s.onNeighbour("next attempt", netlink.NUD_FAILED, 0, true, ErrNeighbour, 1)
		s.pass(3 * time.Second)
		s.onNeighbour("failed again", netlink.NUD_FAILED, 0, false, ErrNeighbour, pause)
	}
	s.onNeighbour("it came up", netlink.NUD_REACHABLE, 5, false, nil, -1)
	s.onNeighbour("and fails", netlink.NUD_FAILED, 5, false, ErrNeighbour, 0)
}

func TestHopTimeout(t *testing.T) {
	s := newHopScript(t)
	s.onNeighbour("no entry", 0, 0, true, ErrPending, 1)
	for range 4 {
		s.pass(time.Second)
		s.onNeighbour("kernel still asks", netlink.NUD_INCOMPLETE, 0, false, ErrPending, 1)
	}
	s.pass(time.Second)
	s.onNeighbour("too long", netlink.NUD_INCOMPLETE, 0, false, ErrNeighbour, 1)
	s.onNeighbour("late answer", netlink.NUD_REACHABLE, 5, false, nil, -1)
}

func TestHopKeepsItsMACUntilFailure(t *testing.T) {
	s := newHopScript(t)
	s.onNeighbour("known", netlink.NUD_REACHABLE, 5, false, nil, -1)
	s.pass(time.Minute)
	s.onNeighbour("entry removed", 0, 5, true, nil, 1)
	s.onNeighbour("asked anew", netlink.NUD_INCOMPLETE, 5, false, nil, 1)
	s.pass(3 * time.Second)
	s.onNeighbour("failed", netlink.NUD_FAILED, 5, false, ErrNeighbour, 0)
}

// Without a carrier the kernel removes the entry, and what it asks has no answer. The MAC stays in use until it has
// asked with a carrier.
func TestHopKeepsItsMACWithoutCarrier(t *testing.T) {
	s := newHopScript(t)
	s.onNeighbour("known", netlink.NUD_REACHABLE, 5, false, nil, -1)
	s.h.onLink(false, s.now)
	s.onNeighbour("entry removed", 0, 5, true, nil, 1)
	for range 3 {
		s.pass(3 * time.Second)
		s.onNeighbour("failed", netlink.NUD_FAILED, 5, true, nil, 1)
	}
	s.h.onLink(true, s.now)
	s.pass(2900 * time.Millisecond)
	s.onNeighbour("failed, asked without a carrier", netlink.NUD_FAILED, 5, true, nil, 1)
	s.pass(3 * time.Second)
	s.onNeighbour("failed", netlink.NUD_FAILED, 5, false, ErrNeighbour, 0)
	s.pass(time.Second)
	s.onNeighbour("next attempt", netlink.NUD_FAILED, 0, true, ErrNeighbour, 1)
	s.pass(3 * time.Second)
	s.onNeighbour("failed again", netlink.NUD_FAILED, 0, false, ErrNeighbour, 2)

	s.h.onLink(false, s.now)
	s.h.onLink(true, s.now)
	if s.h.checkAt != s.now {
		t.Error("the link is back, and the neighbour that has failed is not asked at once")
	}
}

func TestHopKernelRefuses(t *testing.T) {
	s := newHopScript(t)
	s.h.onUsed(s.now, errors.New("table full"))
	if !errors.Is(s.h.err, ErrNotAsked) || !strings.Contains(s.h.err.Error(), "table full") {
		t.Errorf("error %v", s.h.err)
	}
	s.pass(time.Second)
	s.onNeighbour("next attempt", 0, 0, true, ErrNotAsked, 1)
	s.onNeighbour("answer", netlink.NUD_REACHABLE, 5, false, nil, -1)
}

func TestHopRestarts(t *testing.T) {
	s := newHopScript(t)
	s.onNeighbour("no entry", 0, 0, true, ErrPending, 1)
	s.pass(3 * time.Second)
	s.onNeighbour("failed", netlink.NUD_FAILED, 0, false, ErrNeighbour, 1)
	s.pass(500 * time.Millisecond)
	if !s.h.failed() || !s.h.restart(s.now) || s.h.failed() {
		t.Errorf("restarted: %+v", s.h)
	}
	s.onNeighbour("the failure before", netlink.NUD_FAILED, 0, true, ErrPending, 1)
	s.onNeighbour("asking", netlink.NUD_INCOMPLETE, 0, false, ErrPending, 1)
	s.pass(3 * time.Second)
	s.onNeighbour("failed again", netlink.NUD_FAILED, 0, false, ErrNeighbour, 1)
	s.pass(time.Second)
	s.onNeighbour("next attempt", netlink.NUD_FAILED, 0, true, ErrNeighbour, 1)
	s.pass(time.Second)
	if s.h.restart(s.now) || s.h.failed() {
		t.Errorf("restarted while the kernel looks for it: %+v", s.h)
	}
	s.onNeighbour("failed, asked before", netlink.NUD_FAILED, 0, true, ErrPending, 1)
	s.pass(3 * time.Second)
	s.onNeighbour("failed at last", netlink.NUD_FAILED, 0, false, ErrNeighbour, 1)
}
