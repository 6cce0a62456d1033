// SPDX-License-Identifier: Apache-2.0

package nic

import (
	"encoding/binary"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// guessed is what an off-path host has to guess.
type guessed struct {
	name string
	bits int
}

var (
	tokenBits  = guessed{"token", 64}
	nonceBits  = guessed{"nonce", 64}
	qpnBits    = guessed{"QPN", 22} // package qpn
	psnBits    = guessed{"PSN", 24}
	windowBits = guessed{"PSN of a window of 256", 16}
	commBits   = guessed{"communication ID", 32}
)

// forgery is one kind of packet: what somebody needs who forges it without seeing the peer's packets, beyond the
// addresses. From a peer that stamps, and from a plain one.
type forgery struct {
	kind            string
	stamping, plain guess
	effect          string
	counter         string // of what was dropped from a peer that stamps
	packet          func(f *forgedPair) *rocev2.Datagram
	took            func(f *forgedPair) bool // the packet had its effect
}

// guess is the numbers of which all have to be right. Without any, one packet is enough.
type guess []guessed

// packets is how many packets it takes on average.
func (g guess) packets() string {
	bits := 0
	for _, x := range g {
		bits += x.bits
	}
	if bits == 0 {
		return "1"
	}
	return fmt.Sprintf("2^%d", bits-1)
}

func (g guess) String() string {
	var names []string
	for _, x := range g {
		names = append(names, x.name)
	}
	if len(names) == 0 {
		return "nothing"
	}
	return strings.Join(names, ", ")
}

// forgedPair is a connection of an engine with itself, and the peer of it.
type forgedPair struct {
	l    *loopback
	x, y *QP // requester, responder
	s    *stampingPeer
}

func (f *forgedPair) to(x *QP, op rocev2.Opcode, psn rocev2.PSN) *rocev2.Datagram {
	return &rocev2.Datagram{Src: us, Dst: us, SrcPort: 0xC000, IPID: 1, DestQP: x.num, Opcode: op, PSN: psn}
}

var byToken = guess{tokenBits}

// forgeries is the table of docs/security.md. Rows with a packet are compared with what the engine does.
var forgeries = []forgery{
	{"REQ", byToken, nil, "a connection that waits for an RTU, within the limits of the connection manager", "`unproven_mad`", nil, nil},
	{"REP, RTU, REJ, DREQ", guess{tokenBits}, guess{commBits}, "makes, refuses or ends a connection", "`unproven_mad`", nil, nil},
	{"data", byToken, guess{qpnBits, psnBits}, "a message or a WRITE is executed; a WRITE needs a key (32 bits) too", "`unproven_data`",
		func(f *forgedPair) *rocev2.Datagram {
			d := f.to(f.y, rocev2.RCSendOnly, f.y.q.Attr().RQPSN)
			d.Payload, d.AckReq = []byte("forged!!"), true
			return d
		}, func(f *forgedPair) bool { return f.completed(verbs.OpRecv, verbs.StatusSuccess) }},
	{"ACK", byToken, guess{qpnBits, psnBits}, "a message that is outstanding completes too early", "`unproven_ack`",
		func(f *forgedPair) *rocev2.Datagram {
			d := f.to(f.x, rocev2.RCAck, f.x.q.Attr().SQPSN.Add(-1))
			d.Syndrome = 0x1f
			return d
		}, func(f *forgedPair) bool { return f.completed(verbs.OpWrite, verbs.StatusSuccess) }},
	{"NAK", byToken, guess{qpnBits, psnBits}, "a connection with a message outstanding ends", "`unproven_nak`",
		func(f *forgedPair) *rocev2.Datagram {
			d := f.to(f.x, rocev2.RCAck, f.x.q.Attr().SQPSN.Add(-1))
			d.Syndrome = rocev2.SyndromeNAK(rocev2.NAKRemoteOp)
			return d
		}, func(f *forgedPair) bool { return f.completed(verbs.OpWrite, verbs.StatusRemoteOperation) }},
	{"CNP", byToken, guess{qpnBits}, "a lower rate to the peer, down to `min_rate`", "`unproven_cnp`, `rx_unproven`", nil, nil},
	{"OACK, ONOTIFY", byToken, guess{qpnBits, windowBits}, "a message completes too early, or a notification is delivered", "`unproven_oack`, `unproven_onotify`", nil, nil},
	{"HELLO", nil, nil, "its answer, at `--hello-rate`", "`hello_limited`", nil, nil},
	{"HELLO_ACK", guess{nonceBits}, guess{nonceBits}, "capabilities, token and stamped length of the peer", "`hello_ack_forged`", nil, nil},
	{"ECHO, RATE_LIMIT, CREDIT", byToken, byToken, "feedback, limit or pre-credit; a plain peer has none", "`rx_token_wrong`", nil, nil},
}

// completed reports whether a completion of an operation came.
func (f *forgedPair) completed(op verbs.Op, status verbs.Status) bool {
	k := f.l.cq.take(f.l.batch[:])
	for _, c := range f.l.batch[:k] {
		if c.Op == op && c.Status == status {
			return true
		}
	}
	return false
}

// A packet in which everything is right but the token has its effect on a connection with a plain peer, and none
// on one with a peer that stamps. The table of docs/security.md has the kinds, UPDATE=1 writes it.
func TestForgeries(t *testing.T) {
	for _, row := range forgeries {
		if row.packet == nil {
			continue
		}
		// Bytes behind the ICRC do not make a packet too long for the option.
		for _, c := range []struct {
			stamps bool
			behind int
		}{{false, 0}, {true, 0}, {true, loopbackMTU / 2}, {true, loopbackMTU}} {
			stamps := c.stamps
			synctest.Test(t, func(t *testing.T) {
				l := newLoopback(t, 1)
				x := l.connect(verbs.RC, rocev2.PMTU1024, 8)
				f := &forgedPair{l: l, x: x, y: l.e.qps.Lookup(x.q.Attr().DestQPN), s: newStampingPeer(l, x.dest)}
				if !stamps {
					f.s.table = DestSync{Known: true}
					l.e.applyEntry(x.dest, f.s.reply())
				}
				x.dest.guard.provenAt = 1
				l.e.now = l.e.clock.now()
				l.post(x, verbs.OpWrite, 64)
				l.e.iterate()
				l.e.loopback.count = 0 // the packet is lost, and outstanding
				b, err := row.packet(f).AppendTo(make([]byte, etherLen, 256))
				if err != nil {
					t.Fatal(err)
				}
				b = append(b, make([]byte, c.behind)...)
				binary.BigEndian.PutUint16(b[12:], 0x0800)
				binary.BigEndian.PutUint16(b[etherLen+2:], uint16(len(b)-etherLen))
				f.s.deliver(t, b, false)
				l.e.iterate()
				if took := row.took(f); took == stamps {
					t.Errorf("%s, %d bytes behind it, the peer stamps: %v; the packet had its effect: %v", row.kind, c.behind, stamps, took)
				}
				dropped := uint64(0)
				for _, c := range ofUnproven(&l.e.count) {
					if "`"+c.Name+"`" == row.counter {
						dropped = c.Value
					}
				}
				if (dropped != 0) != stamps {
					t.Errorf("%s, the peer stamps: %v; %s is %d", row.kind, stamps, row.counter, dropped)
				}
			})
		}
	}
	checkForgeries(t)
}

// checkForgeries compares the table of the page with the one of this file.
func checkForgeries(t *testing.T) {
	const page, begin, end = "../../docs/security.md", "<!-- forgeries: made by TestForgeries of rocev2/nic -->\n", "<!-- end -->\n"
	var b strings.Builder
	b.WriteString("\n| packet | peer that stamps: needs | packets | other peers: needs | packets | effect | counter |\n|---|---|---|---|---|---|---|\n")
	for _, r := range forgeries {
		fmt.Fprintf(&b, "| %s | %v | %s | %v | %s | %s | %s |\n", r.kind, r.stamping, r.stamping.packets(), r.plain, r.plain.packets(), r.effect, r.counter)
	}
	b.WriteString("\n")
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), begin)
	old, after, found := strings.Cut(rest, end)
	if !ok || !found {
		t.Fatal("the page has no place for the table")
	}
	if old == b.String() {
		return
	}
	if os.Getenv("UPDATE") == "" {
		t.Fatalf("the table of %s is not that of the test: UPDATE=1 writes it", page)
	}
	if err := os.WriteFile(page, []byte(before+begin+b.String()+end+after), 0o644); err != nil {
		t.Fatal(err)
	}
}
