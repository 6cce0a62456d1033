// SPDX-License-Identifier: Apache-2.0

package nic

import (
	"net/netip"
	"time"

	"github.com/softroce/softroce-xdp/rocev2/cm"
)

// A request for a listener waits here until the path to its sender is known. So an application that accepts requests
// one after the other never waits for a neighbour that does not answer, and such requests take no place of the
// listener's backlog.

// Reach implements cmservice.Transport.
func (t *madPort) Reach(local, peer netip.Addr, proof cm.Proof, then func()) bool {
	if t.dev.routes == nil { // a loopback device: it has no neighbours
		return true
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.path(madAddrs{local, peer}, rankOf(proof))
	switch {
	case p == nil || p.ah == nil && len(p.requests) >= madWaits || p.ah != nil && p.ah.address.Path.Current().Err != nil:
		t.count.unresolved++
	case p.ah != nil:
		return true
	default:
		p.requests = append(p.requests, then)
	}
	return false
}

// rankOf is the rank of the path of a request.
func rankOf(p cm.Proof) int {
	switch p {
	case cm.Proven:
		return rankProven
	case cm.Plain:
		return rankPlain
	}
	return rankDoubtful
}

// Neighbours that the kernel does not know and is to look for because of messages that anyone can have sent: askBurst
// at once, askRate in a second. The kernel keeps each for seconds, and by default 1024 in all
// (net.ipv4.neigh.default.gc_thresh3); beyond them it finds no new neighbours for anybody. A host that has found the
// neighbour of this one is known to the kernel, and so are gateways.
const (
	askBurst = 256
	askRate  = 128
)

// askLimit is a token bucket. It is full at the beginning.
type askLimit struct {
	used float64 // tokens
	at   time.Time
}

// take takes a token; false: there is none.
func (l *askLimit) take(now time.Time) bool {
	l.used = max(l.used-now.Sub(l.at).Seconds()*askRate, 0)
	l.at = now
	if l.used+1 > askBurst {
		return false
	}
	l.used++
	return true
}

// mayAsk reports whether a path may be resolved.
func (t *madPort) mayAsk(k madAddrs, p *madPath) bool {
	if t.dev.routes == nil {
		return true
	}
	ask := t.dev.routes.WouldAsk(k.local, k.peer)
	t.mu.Lock()
	defer t.mu.Unlock()
	return !ask || p.rank > rankPlain || t.asks.take(time.Now())
}
