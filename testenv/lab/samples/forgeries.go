// SPDX-License-Identifier: Apache-2.0

package samples

// This file has the table of forged packets of docs/run/security.md: what a host needs that does not see the
// packets of the two whose connection it attacks, and that knows addresses, ports and well-known numbers. The tests of
// each row are where its packets are handled. They try what the row says, by Try.

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// Secret is what a forger has to guess, with its bits.
type Secret struct {
	Name string
	Bits int
}

// The secrets.
var (
	Token      = Secret{"token", 64}
	Nonce      = Secret{"nonce", 64}
	QPN        = Secret{"QPN", 22} // of the engine, package engine
	PSN        = Secret{"PSN", 24}
	Window     = Secret{"one of 256 PSNs", 16}
	TwoWindows = Secret{"one of 512 PSNs", 15}
	Recent     = Secret{"one of 16384 PSNs", 10} // 4096 of each of four queue pairs
	CommID     = Secret{"communication ID", 32}
	PeerCommID = Secret{"communication ID of the peer", 32}
)

// Nothing is wrong in a packet with all secrets.
var Nothing Secret

// Needs are the secrets of which all have to be right. Without any, one packet is enough.
type Needs []Secret

// Packets is how many packets it takes on average.
func (n Needs) Packets() string {
	bits := 0
	for _, s := range n {
		bits += s.Bits
	}
	if bits == 0 {
		return "1"
	}
	return fmt.Sprintf("2^%d", bits-1)
}

func (n Needs) String() string {
	var names []string
	for _, s := range n {
		names = append(names, s.Name)
	}
	if len(names) == 0 {
		return "nothing"
	}
	return strings.Join(names, ", ")
}

// Row is a kind of packet.
type Row struct {
	Kind            string
	Stamping, Plain Needs // needs in the name of a peer that stamps, and of another one
	Effect          string
	Counters        []string // counters of packets that are refused
	Tests           []Test   // tests that try it
}

// Test is a test that sends the packets of a row.
type Test struct{ Dir, Name string }

// Peer is the kind of the peer in whose name packets are sent.
type Peer int

// The kinds of peers, and both.
const (
	Stamping Peer = 1 << iota
	Plain
	Both = Stamping | Plain
)

func (p Peer) String() string {
	if p == Stamping {
		return "stamping peer"
	}
	return "plain peer"
}

// Trial sends a packet in the name of a peer, with all secrets right but one, and returns whether it had its effect,
// and the counters of refused packets that have counted.
type Trial func(t *testing.T, from Peer, wrong Secret) (took bool, counted []string)

// Try tries what the row of a kind of packet says: a packet with all secrets has its effect. One with a wrong secret
// has none. What is refused for its token or its nonce counts at a counter of the row.
func Try(t *testing.T, kind string, peers Peer, try Trial) {
	t.Helper()
	row := find(t, kind)
	for _, from := range []Peer{Stamping, Plain} {
		if peers&from == 0 {
			continue
		}
		needs := row.Plain
		if from == Stamping {
			needs = row.Stamping
		}
		for _, wrong := range append(Needs{Nothing}, needs...) {
			name := "all right"
			if wrong != Nothing {
				name = "another " + wrong.Name
			}
			t.Run(kind+"/"+from.String()+"/"+name, func(t *testing.T) {
				t.Helper()
				took, counted := try(t, from, wrong)
				if took != (wrong == Nothing) {
					t.Errorf("the packet had its effect: %v", took)
				}
				proof := wrong == Token || wrong == Nonce
				if proof && !slices.ContainsFunc(counted, func(c string) bool { return slices.Contains(row.Counters, c) }) {
					t.Errorf("counted %v, want one of %v", counted, row.Counters)
				}
				if wrong == Nothing && len(counted) > 0 {
					t.Errorf("nothing is wrong, and %v counted", counted)
				}
			})
		}
	}
}

// Counts checks that a counter is one of the row of a kind of packet.
func Counts(t *testing.T, kind, counter string) {
	t.Helper()
	if row := find(t, kind); !slices.Contains(row.Counters, counter) {
		t.Errorf("%s: the table has %v, not %s", kind, row.Counters, counter)
	}
}

// find returns the row of a kind of packet, which must name the test.
func find(t *testing.T, kind string) Row {
	t.Helper()
	test, _, _ := strings.Cut(t.Name(), "/")
	for _, row := range Rows {
		if row.Kind != kind {
			continue
		}
		if !slices.ContainsFunc(row.Tests, func(x Test) bool { return x.Name == test }) {
			t.Fatalf("the row %s does not name %s", kind, test)
		}
		return row
	}
	t.Fatalf("no row %s", kind)
	return Row{}
}
