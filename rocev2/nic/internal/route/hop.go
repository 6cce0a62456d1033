// SPDX-License-Identifier: Apache-2.0

package route

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"time"

	"github.com/vishvananda/netlink"
)

// The kernel asks three times, a second apart, before it declares a neighbour
// failed (mcast_solicit, retrans_time_ms).
const (
	checkAgain = time.Second      // after asking: no news may be a lost message
	retryMax   = 30 * time.Second // between attempts at a neighbour that failed
	kernelAsks = 4 * time.Second  // until it declares a failure, with a margin
)

// neighbour is what the kernel says of one. The zero value: it has no entry.
type neighbour struct {
	state int // NUD_...
	mac   [6]byte
}

const usable = netlink.NUD_PERMANENT | netlink.NUD_NOARP | netlink.NUD_REACHABLE |
	netlink.NUD_STALE | netlink.NUD_DELAY | netlink.NUD_PROBE

// hop is a neighbour that paths lead through: a state machine that is told what
// the kernel says, and says when the kernel should be told to use the entry.
type hop struct {
	addr    netip.Addr
	where   string        // description for errors
	timeout time.Duration // longest silence without an error
	paths   map[*Path]struct{}

	mac [6]byte
	err error // nil if mac may be used

	asking   bool      // the kernel was told, and has neither MAC nor failure yet
	told     time.Time // time of the last message to the kernel
	wanted   time.Time // beginning of the time without a MAC
	failures int       // number of failures in a row
	judgedAt time.Time // a failure before is the link's, and the MAC stays in use
	due      time.Time // time of the next check; zero: at the next update of the kernel
}

func newHop(addr netip.Addr, ifName string, timeout time.Duration, now time.Time) *hop {
	h := &hop{
		addr: addr, where: fmt.Sprintf("route: neighbour %s on %s", addr, ifName), timeout: timeout,
		paths: map[*Path]struct{}{},
	}
	h.restart(now)
	return h
}

// failed reports whether the neighbour has not answered, or the kernel did not look for it.
func (h *hop) failed() bool { return h.err != nil && !errors.Is(h.err, ErrPending) }

// restart begins a new attempt at a neighbour. If it returns true, the kernel is not looking for the neighbour. If it
// is, a failure of that attempt does not count, and another one follows.
func (h *hop) restart(now time.Time) bool {
	h.err = fmt.Errorf("%s: %w", h.where, ErrPending)
	h.wanted, h.failures = now, 0
	return !h.asking
}

// onNeighbour takes the state of the kernel's entry. If it returns true the kernel should be told
// to use the entry, and onUsed be called.
func (h *hop) onNeighbour(n neighbour, now time.Time) (use bool) {
	switch {
	case n.state&usable != 0:
		h.mac, h.err = n.mac, nil
		h.asking, h.failures, h.due = false, 0, time.Time{}
		if n.state != netlink.NUD_STALE {
			return false
		}
		if next := h.told.Add(checkAgain); now.Before(next) {
			h.due = next
			return false
		}
		return true
	case n.state == netlink.NUD_FAILED && h.err == nil && now.Before(h.judgedAt):
		return true
	case n.state == netlink.NUD_FAILED && errors.Is(h.err, ErrPending) && h.told.Before(h.wanted):
		return true // the end of an attempt that began before restart
	case n.state == netlink.NUD_FAILED && (h.asking || h.err == nil):
		h.fail(now)
		return false
	case n.state&^netlink.NUD_FAILED == 0 && h.failures > 0 && !h.asking && now.Before(h.due):
		return false // the failure that is known already, or that entry's removal
	case n.state == netlink.NUD_INCOMPLETE:
		h.asking = true
		h.wait(now)
		return false
	}
	return true
}

// onUsed notes that the kernel was told to use the entry, with this result.
func (h *hop) onUsed(now time.Time, err error) {
	h.told = now
	if h.err == nil { // only to be confirmed, or its entry was removed: the MAC stays in use
		h.asking = err == nil
		h.due = now.Add(checkAgain)
		return
	}
	h.asking = err == nil
	h.wait(now)
	if err != nil {
		h.err = fmt.Errorf("%s: %w: %w", h.where, ErrNotAsked, err)
	}
}

// onLink takes whether the link has a carrier, when that has changed. What the kernel asked without one had no answer.
// A neighbour that has failed is to be asked again when the link is back.
func (h *hop) onLink(carrier bool, now time.Time) {
	if !carrier {
		h.judgedAt = now.Add(math.MaxInt64)
		return
	}
	h.judgedAt = now.Add(kernelAsks)
	if h.err != nil {
		h.asking, h.due, h.failures = false, now, 0
	}
}

// wait sets the next look at an entry that the kernel is working on.
func (h *hop) wait(now time.Time) {
	h.due = now.Add(checkAgain)
	if h.err != nil && h.failures == 0 && now.Sub(h.wanted) >= h.timeout {
		h.err = h.silence()
	}
}

func (h *hop) fail(now time.Time) {
	h.due = now.Add(min(time.Second<<min(h.failures, 10), retryMax))
	if h.err == nil {
		h.wanted, h.due = now, now // an outage may have ended since the kernel asked last
	}
	h.asking, h.err = false, h.silence()
	h.failures++
}

func (h *hop) silence() error {
	return fmt.Errorf("%s: %w; is it up, and in the same network?", h.where, ErrNeighbour)
}
