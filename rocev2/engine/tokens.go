// SPDX-License-Identifier: Apache-2.0

package engine

import "net/netip"

// A peer gives each address of this host a token of its own. Stamps that leave from an address
// carry its token.
const maxTokens = 16 // of one destination; packets from further addresses have no stamp

// tokens are those of one destination.
type tokens struct {
	all  []token
	next int // the one that the next report asks for
}

type token struct {
	src   netip.Addr
	value uint64
	known bool // the data plane has answered
	none  bool // the peer has given none yet
}

// of returns the token of an address. isNew: the address is new, so nothing is known.
func (t *tokens) of(src netip.Addr) (value uint64, ok, isNew bool) {
	for i := range t.all {
		if x := &t.all[i]; x.src == src {
			return x.value, x.known && !x.none, false
		}
	}
	if len(t.all) == maxTokens {
		return 0, false, false
	}
	t.all = append(t.all, token{src: src})
	return 0, false, true
}

// ask returns the address whose token the next report asks for, zero before the first packet: each
// in turn.
func (t *tokens) ask() netip.Addr {
	if len(t.all) == 0 {
		return netip.Addr{}
	}
	t.next = (t.next + 1) % len(t.all)
	return t.all[t.next].src
}

// answer records the answer for an address. It reports whether the token replaces another one: the peer
// was attached again.
func (t *tokens) answer(src netip.Addr, value uint64, none bool) (renewed bool) {
	for i := range t.all {
		if x := &t.all[i]; x.src == src {
			renewed = x.known && !x.none && !none && x.value != value
			x.value, x.known, x.none = value, true, none
		}
	}
	return renewed
}

// missing reports whether an address has no token yet.
func (t *tokens) missing() bool {
	for i := range t.all {
		if !t.all[i].known || t.all[i].none {
			return true
		}
	}
	return false
}

// tokenFor returns the token of stamps from an address to a destination; false if there is none.
func (s *destinations) tokenFor(d *dest, src netip.Addr) (uint64, bool) {
	value, ok, isNew := d.tokens.of(src)
	if isNew {
		d.initialSyncs = max(d.initialSyncs, initialSyncReports)
		s.queueForSync(d)
	}
	return value, ok
}
