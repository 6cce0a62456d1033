// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"net/netip"
	"slices"
	"time"

	"github.com/cilium/ebpf"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/rocev2"
)

// A peer gives a token to each address of this host from which it gets HELLO. The first one with
// traffic to the peer is in its table entry, the others are sources.
const maxSources = 32 // of one peer; packets from more addresses leave unstamped

// sourceDelays are the times between HELLOs from a new source until the peer answers one. Later
// ones are sent with those from the first address.
var sourceDelays = [...]time.Duration{50 * time.Millisecond, 200 * time.Millisecond, time.Second, 5 * time.Second}

// sources has the further addresses of this host from which packets leave to each peer.
type sources struct {
	of    map[bpf.DestKey][]netip.Addr
	asked []source // sources without an answer yet
}

// source is an address of this host, with a peer that gets packets from it.
type source struct {
	peer  bpf.DestKey
	own   netip.Addr
	next  uint64 // time of the next HELLO, monotonic ns
	tries int
}

// add adds an address. It reports whether the address is new: a HELLO is due then.
func (s *sources) add(peer bpf.DestKey, own netip.Addr, now uint64) bool {
	if slices.Contains(s.of[peer], own) || len(s.of[peer]) >= maxSources {
		return false
	}
	if s.of == nil {
		s.of = map[bpf.DestKey][]netip.Addr{}
	}
	s.of[peer] = append(s.of[peer], own)
	s.asked = append(s.asked, source{peer: peer, own: own, next: now})
	return true
}

// due returns the addresses from which a HELLO is due.
func (s *sources) due(now uint64) (send []source) {
	s.asked = slices.DeleteFunc(s.asked, func(x source) bool { return x.tries > len(sourceDelays) })
	for i := range s.asked {
		x := &s.asked[i]
		if now < x.next {
			continue
		}
		send = append(send, *x)
		if x.tries < len(sourceDelays) {
			x.next = now + uint64(sourceDelays[x.tries])
		}
		x.tries++
	}
	return send
}

// answered records a HELLO_ACK to an address (bpf.OwnWord).
func (s *sources) answered(peer bpf.DestKey, own uint64) {
	s.asked = slices.DeleteFunc(s.asked, func(x source) bool { return x.peer == peer && bpf.OwnWord(x.own) == own })
}

// remove removes the addresses that match. It returns what it has removed.
func (s *sources) remove(match func(peer bpf.DestKey, own netip.Addr) bool) (removed []source) {
	s.asked = slices.DeleteFunc(s.asked, func(x source) bool { return match(x.peer, x.own) })
	for peer, all := range s.of {
		s.of[peer] = slices.DeleteFunc(all, func(own netip.Addr) bool {
			if match(peer, own) {
				removed = append(removed, source{peer: peer, own: own})
				return true
			}
			return false
		})
		if len(s.of[peer]) == 0 {
			delete(s.of, peer)
		}
	}
	return removed
}

// hello sends a HELLO from each address from which packets leave to the peer.
func (a *Agent) hello(peer bpf.DestKey) {
	a.control.hello(a.firstSource(peer), peer)
	for _, own := range a.sources.of[peer] {
		a.control.hello(own, peer)
	}
}

// firstSource returns the address in the entry of a peer, zero if there is none: then the route
// selects one.
func (a *Agent) firstSource(peer bpf.DestKey) netip.Addr {
	r, found, err := a.att.Lookup(bpf.AddrOf(peer))
	if err != nil || !found {
		return netip.Addr{}
	}
	return a.ownAddr(r.Regs.TxOwn)
}

// rateLimit sends a RATE_LIMIT from the address that the peer sends to, for which it has an entry.
func (a *Agent) rateLimit(peer bpf.DestKey, f rocev2.RateLimitFields) {
	var own netip.Addr
	if r, found, err := a.att.Lookup(bpf.AddrOf(peer)); err == nil && found {
		own, _ = a.own.ByNumber(r.Regs.RxOwn)
	}
	a.control.rateLimit(own, peer, f)
}

// newSource handles the first packet to a peer from a further address.
func (a *Agent) newSource(peer bpf.DestKey, word, now uint64) {
	own := a.ownAddr(word)
	if own.IsValid() && a.sources.add(peer, own, now) {
		a.log.Debug("further source address", "own", own, "peer", bpf.AddrOf(peer))
		a.sendHellos(now)
	}
}

// adoptSources takes over the sources that an earlier agent has left.
func (a *Agent) adoptSources(now uint64) {
	if a.att.Maps.TxTokens == nil {
		return // attached by an earlier version
	}
	var pair bpf.OwnPair
	var token uint64
	var gone []bpf.OwnPair
	for it := a.att.Maps.TxTokens.Iterate(); it.Next(&pair, &token); {
		own, ok := a.own.ByWord(pair.Own)
		if !ok {
			gone = append(gone, pair)
			continue
		}
		if a.sources.add(pair.Peer, own, now) && token != 0 {
			a.sources.answered(pair.Peer, pair.Own)
		}
	}
	deletePairs(a.att.Maps.TxTokens, gone)
}

// forgetSources removes the sources of a peer whose entry was deleted.
func (a *Agent) forgetSources(peer bpf.DestKey) {
	if len(a.sources.of[peer]) != 0 {
		a.removeSources(func(p bpf.DestKey, _ netip.Addr) bool { return p == peer })
	}
}

func (a *Agent) removeSources(match func(peer bpf.DestKey, own netip.Addr) bool) {
	var gone []bpf.OwnPair
	for _, x := range a.sources.remove(match) {
		gone = append(gone, bpf.OwnPair{Peer: x.peer, Own: bpf.OwnWord(x.own)})
	}
	deletePairs(a.att.Maps.TxTokens, gone)
}

func deletePairs(m *ebpf.Map, pairs []bpf.OwnPair) {
	for i := range pairs {
		_ = m.Delete(pairs[i]) // it is gone already
	}
}
