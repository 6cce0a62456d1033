// SPDX-License-Identifier: Apache-2.0

package route

import (
	"errors"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// burst is how long messages are gathered before everything is asked for again. A
// refresh that takes longer is followed by a pause of four times its length, so
// that a routing daemon at work costs a fifth of a core at most.
const burst = 2 * time.Millisecond

// listen reads the kernel's news until the socket is closed.
func (t *Table) listen() {
	for {
		msgs, from, err := t.kernel.news.Receive()
		switch {
		case errors.Is(err, os.ErrClosed) || errors.Is(err, unix.EBADF):
			return
		case err != nil:
			// ENOBUFS: the kernel dropped messages. Anything else: better ask, too.
			t.mu.Lock()
			t.stale, t.lost = true, true
			t.mu.Unlock()
			t.poke()
			select {
			case <-t.done:
				return
			case <-time.After(burst):
			}
			continue
		case from.Pid != 0: // not the kernel
			continue
		}
		t.mu.Lock()
		for _, m := range msgs {
			switch m.Header.Type {
			case unix.RTM_NEWNEIGH, unix.RTM_DELNEIGH:
				t.neighbourNews(m.Data, m.Header.Type == unix.RTM_DELNEIGH)
			default:
				t.stale = true
			}
		}
		t.mu.Unlock()
		t.poke()
	}
}

// neighbourNews takes in one message about a neighbour.
func (t *Table) neighbourNews(body []byte, removed bool) {
	m, n, err := parseNeighbour(body, removed)
	if err != nil || m.LinkIndex != t.kernel.index {
		return
	}
	addr, ok := netip.AddrFromSlice(m.IP)
	h := t.hops[addr.Unmap()]
	if !ok || h == nil || t.closed {
		return
	}
	now := time.Now()
	if h.onNeighbour(n, now) {
		t.ask(h, now) // looks first: the message may be old
		return
	}
	for p := range h.paths {
		p.publish()
	}
}

// work refreshes and asks when it is time to, and tells events.
func (t *Table) work() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	var rest time.Time // no refresh before
	for {
		select {
		case <-t.done:
			return
		case <-t.wake:
			time.Sleep(burst)
		case <-timer.C:
		}
		t.mu.Lock()
		if t.closed {
			t.mu.Unlock()
			return
		}
		start := time.Now()
		if t.stale && !start.Before(rest) {
			t.refresh()
			rest = time.Now().Add(4 * time.Since(start))
		}
		next := t.askDue()
		if t.stale && (next.IsZero() || rest.Before(next)) {
			next = rest
		}
		events := t.events
		t.events = nil
		t.mu.Unlock()
		for _, e := range events {
			if t.opts.OnEvent != nil {
				t.opts.OnEvent(e)
			}
		}
		if next.IsZero() {
			timer.Stop()
		} else {
			timer.Reset(time.Until(next))
		}
	}
}

// refresh asks the kernel for everything but neighbours, and for these as well if
// messages were lost. What fails stays stale.
func (t *Table) refresh() {
	link, err := t.kernel.link()
	if err != nil {
		return
	}
	addrs, err := t.kernel.addrs()
	if err != nil && !link.Gone {
		return
	}
	if was := t.Link(); link != was {
		if link.Carrier != was.Carrier {
			for _, h := range t.hops {
				h.onLink(link.Carrier, time.Now())
			}
		}
		t.link.Store(&link)
		t.events = append(t.events, Event{Kind: LinkChanged, Link: link})
	}
	gids, events := t.gids.update(addrs)
	t.gids = gids
	t.storeGIDs()
	t.events = append(t.events, events...)
	for _, p := range t.paths {
		t.evaluate(p)
	}
	if t.lost {
		now := time.Now()
		for _, h := range t.hops {
			t.ask(h, now)
		}
	}
	t.stale, t.lost = false, false
}

// askDue asks about the neighbours whose time has come, and returns the next time.
func (t *Table) askDue() (next time.Time) {
	now := time.Now()
	for _, h := range t.hops {
		if !h.checkAt.IsZero() && !now.Before(h.checkAt) {
			h.checkAt = time.Time{}
			t.ask(h, now)
		}
		if !h.checkAt.IsZero() && (next.IsZero() || h.checkAt.Before(next)) {
			next = h.checkAt
		}
	}
	return next
}
