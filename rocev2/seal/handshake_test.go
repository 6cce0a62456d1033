// SPDX-License-Identifier: Apache-2.0

package seal

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/rocev2"
)

const (
	qpnA = 0x800001
	qpnB = 0x800002
)

var (
	binding = Binding{Initiator: hostA, Responder: hostB, QPN: qpnA, CommID: 77, Service: 0x01061C06}
	atB     = Accepted{qpnB, 0x123456}
)

func identity(t testing.TB) *Identity {
	t.Helper()
	id, err := NewIdentity()
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// shake returns both ends after offer and answer.
func shake(t testing.TB) (a, b *Handshake) {
	t.Helper()
	from, to := identity(t), identity(t)
	a, err := Initiate(0, Config{Identity: from, Peer: to.Public()}, binding)
	if err != nil {
		t.Fatal(err)
	}
	b, err = Respond(0, Config{Identity: to, Peers: []PublicKey{identity(t).Public(), from.Public()}}, binding, atB, a.Message())
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Answer(0, atB, b.Message()); err != nil {
		t.Fatal(err)
	}
	return a, b
}

// Both ends get keys that open what the other one seals, in both directions, and not their own.
func TestHandshake(t *testing.T) {
	a, b := shake(t)
	if len(a.Message()) != OfferLen || len(b.Message()) != AnswerLen {
		t.Errorf("messages of %d and %d bytes", len(a.Message()), len(b.Message()))
	}
	if a.State() != Confirmed || b.State() != Established {
		t.Errorf("states %v, %v", a.State(), b.State())
	}
	sa, oa, err := a.Take(0, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	sb, ob, err := b.Take(0, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	d := rocev2.Datagram{Opcode: rocev2.RCSendOnly, DestQP: qpnB}
	forward, reverse := build(t, sa, d, random(9)), build(t, sb, d, random(9))
	if _, err := open(oa, 0, forward); err != ErrForged {
		t.Errorf("reflected packet: %v", err)
	}
	if _, err := open(ob, 0, forward); err != nil {
		t.Error(err)
	}
	if _, err := open(oa, 0, reverse); err != nil {
		t.Error(err)
	}
	if b.Opened(0); b.State() != Confirmed {
		t.Errorf("responder in state %v after a packet", b.State())
	}
	if _, _, err := a.Take(0, Limits{}); err == nil {
		t.Error("keys taken twice")
	}
	if err := a.Answer(0, atB, b.Message()); err != nil {
		t.Errorf("repeated answer: %v", err)
	}
	if !b.Repeated(a.Message()) || b.Repeated(b.Message()) {
		t.Error("repeated offer not recognised")
	}
	if a.Expire(1<<62) || b.Expire(1<<62) {
		t.Error("a confirmed handshake expires")
	}
}

// Two handshakes between the same hosts have other keys: the ephemeral keys differ.
func TestKeysDiffer(t *testing.T) {
	a, _ := shake(t)
	b, _ := shake(t)
	if a.keys.Send == b.keys.Send || a.keys.Send == a.keys.Receive {
		t.Error("equal keys")
	}
}

// A wrong key of any side, another binding, a changed bit: no keys, and the connection can
// still be made by the genuine message.
func TestHandshakeRefused(t *testing.T) {
	from, to, other := identity(t), identity(t), identity(t)
	a, err := Initiate(0, Config{Identity: from, Peer: to.Public()}, binding)
	if err != nil {
		t.Fatal(err)
	}
	offer := a.Message()
	respond := func(c Config, b Binding, msg []byte) error {
		h, err := Respond(0, c, b, atB, msg)
		if (h == nil) != (err != nil) {
			t.Fatalf("%v and %v", h, err)
		}
		return err
	}
	good := Config{Identity: to, Peers: []PublicKey{from.Public()}}
	if err := respond(good, binding, offer); err != nil {
		t.Fatal(err)
	}
	if err := respond(Config{Identity: to, Peers: []PublicKey{other.Public()}}, binding, offer); err == nil ||
		!strings.Contains(err.Error(), "add the key") {
		t.Errorf("unknown initiator: %v", err)
	}
	if err := respond(Config{Identity: other, Peers: good.Peers}, binding, offer); !errors.Is(err, ErrMessage) {
		t.Errorf("responder with another key: %v", err)
	}
	if err := respond(Config{Identity: to, Peers: good.Peers, Suite: AES256GCM}, binding, offer); err == nil {
		t.Error("suite that is not configured")
	}
	for _, b := range []Binding{
		{host6, hostB, qpnA, 77, binding.Service}, {hostA, host6, qpnA, 77, binding.Service},
		{hostA, hostB, qpnA + 1, 77, binding.Service}, {hostA, hostB, qpnA, 78, binding.Service},
		{hostA, hostB, qpnA, 77, binding.Service + 1}, {hostA, hostB, qpnA, 77, 0},
	} {
		if err := respond(good, b, offer); !errors.Is(err, ErrMessage) {
			t.Errorf("%+v: %v", b, err)
		}
	}
	for bit := range len(offer) * 8 {
		bad := bytes.Clone(offer)
		bad[bit/8] ^= 1 << (bit % 8)
		if err := respond(good, binding, bad); err == nil {
			// X25519 ignores the top bit of a public key (RFC 7748 section 5), but the hash does not.
			t.Fatalf("offer with bit %d of byte %d flipped: accepted", bit%8, bit/8)
		}
	}
	for n := range offer {
		if err := respond(good, binding, offer[:n]); err == nil {
			t.Fatalf("offer of %d bytes accepted", n)
		}
	}
}

func TestAnswerRefused(t *testing.T) {
	from, to := identity(t), identity(t)
	a, err := Initiate(0, Config{Identity: from, Peer: to.Public()}, binding)
	if err != nil {
		t.Fatal(err)
	}
	b, err := Respond(0, Config{Identity: to, Peers: []PublicKey{from.Public()}}, binding, atB, a.Message())
	if err != nil {
		t.Fatal(err)
	}
	answer := b.Message()
	var bad [][]byte
	for bit := range len(answer) * 8 {
		m := bytes.Clone(answer)
		m[bit/8] ^= 1 << (bit % 8)
		bad = append(bad, m)
	}
	zero := bytes.Clone(answer) // an ephemeral key of low order
	clear(zero[answerHead : answerHead+32])
	bad = append(bad, zero, answer[:len(answer)-1], nil, append(bytes.Clone(answer), 0), a.Message())
	for i, m := range bad {
		if err := a.Answer(0, atB, m); !errors.Is(err, ErrMessage) || a.State() != Offered {
			t.Fatalf("wrong answer %d: %v, state %v", i, err, a.State())
		}
	}
	around := []Accepted{{qpnB + 1, atB.PSN}, {qpnB, atB.PSN + 1}, {qpnB, 0}, {atB.PSN, qpnB}}
	for _, at := range around {
		if err := a.Answer(0, at, answer); !errors.Is(err, ErrMessage) {
			t.Errorf("answer around %+v: %v", at, err)
		}
	}
	if n := uint64(len(bad) + len(around)); a.Ignored() != n {
		t.Errorf("%d ignored, want %d", a.Ignored(), n)
	}
	if _, _, err := a.Take(0, Limits{}); err == nil {
		t.Error("keys without an answer")
	}
	if err := a.Answer(0, atB, answer); err != nil || a.State() != Confirmed {
		t.Errorf("the right answer afterwards: %v", err)
	}
	if err := b.Answer(0, atB, answer); err == nil {
		t.Error("a responder accepts an answer")
	}
}

// Each state that waits has an end.
func TestHandshakeTimeout(t *testing.T) {
	from, to := identity(t), identity(t)
	c := Config{Identity: from, Peer: to.Public(), Timeout: time.Second}
	a, err := Initiate(5, c, binding)
	if err != nil {
		t.Fatal(err)
	}
	r := Config{Identity: to, Peers: []PublicKey{from.Public()}, Timeout: time.Second}
	b, err := Respond(5, r, binding, atB, a.Message())
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range []*Handshake{a, b} {
		if at, ok := h.Deadline(); !ok || at != 5+1e9 {
			t.Fatalf("deadline %d %v", at, ok)
		}
		if h.Expire(4 + 1e9) {
			t.Fatal("expired before the deadline")
		}
	}
	if err := a.Answer(5+1e9, atB, b.Message()); err == nil || a.State() != Failed {
		t.Errorf("answer after the deadline: %v, state %v", err, a.State())
	}
	if b.Opened(5 + 1e9); b.State() != Failed || b.keys != (Keys{}) || b.Repeated(a.Message()) {
		t.Errorf("packet after the deadline: state %v", b.State())
	}
	for _, h := range []*Handshake{a, b} {
		if _, ok := h.Deadline(); ok {
			t.Error("a failed handshake has a deadline")
		}
		if _, _, err := h.Take(0, Limits{}); err == nil {
			t.Error("keys of a failed handshake")
		}
	}
}

func TestHandshakeConfig(t *testing.T) {
	id := identity(t)
	for name, f := range map[string]func() error{
		"no identity": func() error { _, err := Initiate(0, Config{}, binding); return err },
		"suite":       func() error { _, err := Initiate(0, Config{Identity: id, Suite: 9}, binding); return err },
		"binding":     func() error { _, err := Initiate(0, Config{Identity: id}, Binding{}); return err },
		"zero peer":   func() error { _, err := Initiate(0, Config{Identity: id}, binding); return err },
		"private key": func() error { _, err := IdentityOf(make([]byte, 31)); return err },
		"public key":  func() error { _, err := ParsePublicKey("AAAA"); return err },
	} {
		if err := f(); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	again, err := IdentityOf(id.Private())
	if err != nil || again.Public() != id.Public() {
		t.Errorf("stored identity: %v", err)
	}
	if k, err := ParsePublicKey(id.Public().String()); err != nil || k != id.Public() {
		t.Errorf("%v: %v", id.Public(), err)
	}
}

// Secrets and identities that are printed, alone or in what has them, show no key.
func TestPrintShowsNoSecrets(t *testing.T) {
	id, err := NewIdentity()
	if err != nil {
		t.Fatal(err)
	}
	k := Keys{Suite: AES128GCM, Send: Secret{171, 171, 171}, Receive: Secret{171}}
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%x", "%d"} {
		for _, v := range []any{k, &k, k.Send, &k.Send} {
			if s := fmt.Sprintf(format, v); strings.Contains(s, "171") || strings.Contains(s, "ab") {
				t.Errorf("%s of %T: %s", format, v, s)
			}
		}
		if s := fmt.Sprintf(format, Config{Identity: id}); !strings.Contains(s, id.Public().String()) {
			t.Errorf("%s of a Config: %s", format, s)
		}
		if got, want := fmt.Sprintf(format, id), id.Public().String(); got != want {
			t.Errorf("%s of an Identity: %s, want %s", format, got, want)
		}
	}
}
