// SPDX-License-Identifier: Apache-2.0

package seal

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"time"
)

// State is the state of a handshake.
type State uint8

// The states. A handshake ends in Confirmed or Failed.
const (
	Offered     State = iota // initiator: the offer is sent
	Established              // responder: the answer is sent, keys exist, the initiator has proved nothing yet
	Confirmed                // both ends have the keys
	Failed                   // the time is over, or Fail was called
)

var stateNames = [...]string{"offered", "established", "confirmed", "failed"}

// String is the name of the state.
func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return fmt.Sprintf("state %d", uint8(s))
}

// Config is what a Handshake needs.
type Config struct {
	Identity *Identity
	// Peer is the key of the responder, for an initiator.
	Peer PublicKey
	// Peers are the keys that a responder accepts: those of the address from which the offer came.
	Peers []PublicKey
	// Suite is what an initiator offers, and the only one that a responder accepts unless it is
	// 0. Default of an initiator: AES128GCM.
	Suite Suite
	// Timeout ends a handshake that is neither answered nor confirmed. Default 30 s.
	Timeout time.Duration

	seed *[32]byte // tests
}

func (c *Config) complete() error {
	if c.Identity == nil {
		return fmt.Errorf("seal: no Identity: create one by NewIdentity")
	}
	if c.Suite != 0 && c.Suite.keyLen() == 0 {
		return fmt.Errorf("seal: unknown %v: use AES128GCM or AES256GCM", c.Suite)
	}
	if c.Timeout <= 0 {
		c.Timeout = 30 * time.Second
	}
	return nil
}

// Handshake agrees on the keys of one connection. It is a state machine: calls bring messages
// and the time, in nanoseconds of a clock that never goes back. The caller transports the
// messages and repeats them, as the communication manager repeats REQ and REP: the same bytes
// each time.
type Handshake struct {
	_        noCopy
	config   Config
	binding  Binding
	seed     [32]byte // private half of the ephemeral key
	state    State
	out      []byte // the own message
	in       []byte // responder: the offer that out answers
	keys     Keys
	deadline int64
	ignored  uint64
}

// Initiate begins a handshake. Message returns the offer.
func Initiate(now int64, c Config, b Binding) (*Handshake, error) {
	if c.Suite == 0 {
		c.Suite = AES128GCM
	}
	h, err := begin(now, c, b, Offered)
	if err != nil {
		return nil, err
	}
	h.out, _, err = offer(c.Identity, c.Peer, &b, c.Suite, &h.seed)
	if err != nil {
		return nil, fmt.Errorf("seal: offer to key %v: %w", c.Peer, err)
	}
	return h, nil
}

// Respond processes an offer. Message returns the answer; at is what the message around it will say. The error says why the connection must be refused: an offer of another version or
// suite, of an unknown key, or forged.
func Respond(now int64, c Config, b Binding, at Accepted, msg []byte) (*Handshake, error) {
	suite, keyID, err := checkOffer(msg)
	if err != nil {
		return nil, err
	}
	if c.Suite != 0 && suite != c.Suite {
		return nil, fmt.Errorf("seal: offer with %v: this end is configured for %v", suite, c.Suite)
	}
	h, err := begin(now, c, b, Established)
	if err != nil {
		return nil, err
	}
	known := false
	for _, peer := range c.Peers {
		if peer.ID() != keyID {
			continue
		}
		known = true
		h.out, h.keys, err = answer(c.Identity, peer, &b, at, &h.seed, msg)
		if err == nil {
			clear(h.seed[:])
			h.in = bytes.Clone(msg)
			return h, nil
		}
	}
	if !known {
		return nil, fmt.Errorf("seal: offer from key ID %08x: no key of %v has it, add the key of that host", keyID, b.Initiator)
	}
	return nil, ErrMessage
}

func begin(now int64, c Config, b Binding, s State) (*Handshake, error) {
	if err := c.complete(); err != nil {
		return nil, err
	}
	if !b.Initiator.IsValid() || !b.Responder.IsValid() {
		return nil, fmt.Errorf("seal: binding without the addresses of both ends: %v, %v", b.Initiator, b.Responder)
	}
	h := &Handshake{config: c, binding: b, state: s, deadline: now + int64(c.Timeout)}
	if c.seed != nil {
		h.seed = *c.seed
	} else if _, err := rand.Read(h.seed[:]); err != nil {
		return nil, err
	}
	return h, nil
}

// Message is the offer or the answer, the same bytes each time.
func (h *Handshake) Message() []byte { return h.out }

// State is the present state.
func (h *Handshake) State() State { return h.state }

// Ignored is the number of messages that were forged, damaged, or came in a wrong state.
func (h *Handshake) Ignored() uint64 { return h.ignored }

// Answer processes an answer at the initiator; at is what the message around it says. A wrong answer changes nothing but Ignored: the right one may follow. A repeated answer
// is accepted again.
//
// Errors: ErrMessage, and an error that names the state.
func (h *Handshake) Answer(now int64, at Accepted, msg []byte) error {
	h.Expire(now)
	switch {
	case h.state == Confirmed && h.in != nil && bytes.Equal(msg, h.in):
		return nil
	case h.state != Offered:
		h.ignored++
		return fmt.Errorf("seal: answer in state %v: only an initiator that waits for it takes one", h.state)
	}
	keys, err := readAnswer(h.config.Identity, h.config.Peer, &h.binding, h.config.Suite, &h.seed, msg, at)
	if err != nil {
		h.ignored++
		return err
	}
	clear(h.seed[:])
	h.keys, h.in, h.state = keys, bytes.Clone(msg), Confirmed
	return nil
}

// Repeated reports whether msg is the offer that this responder has answered: send Message
// again. Any other offer belongs to another attempt.
func (h *Handshake) Repeated(msg []byte) bool {
	return h.state != Failed && h.in != nil && bytes.Equal(msg, h.in)
}

// Opened tells a responder that the first packet under these keys was opened. That proves the
// initiator: an offer alone may be a recorded one.
func (h *Handshake) Opened(now int64) {
	h.Expire(now)
	if h.state == Established {
		h.state = Confirmed
	}
}

// Deadline is when Expire must be called, in nanoseconds; ok is false if nothing is awaited.
func (h *Handshake) Deadline() (at int64, ok bool) {
	return h.deadline, h.state == Offered || h.state == Established
}

// Expire ends a handshake whose time is over, and reports whether it has failed.
func (h *Handshake) Expire(now int64) bool {
	if _, ok := h.Deadline(); ok && now >= h.deadline {
		h.Fail()
	}
	return h.state == Failed
}

// Fail ends the handshake, in any state, and forgets its keys.
func (h *Handshake) Fail() {
	h.state = Failed
	h.keys = Keys{}
	clear(h.seed[:])
}

// Take returns Sealer and Opener of the connection, once: a second Sealer would use the same
// nonces again. An error says that there are no keys (yet), or that they were taken.
func (h *Handshake) Take(now int64, l Limits) (*Sealer, *Opener, error) {
	h.Expire(now)
	if err := h.hasKeys(); err != nil {
		return nil, nil, err
	}
	s, err := NewSealer(h.keys.Suite, h.keys.Send, l)
	if err != nil {
		return nil, nil, err
	}
	o, err := NewOpener(h.keys.Suite, h.keys.Receive, l)
	if err != nil {
		return nil, nil, err
	}
	h.keys = Keys{}
	return s, o, nil
}

// TakeKeys is Take for a queue pair that makes Sealer and Opener itself (Encrypter). The caller
// gives the keys to one queue pair, once.
func (h *Handshake) TakeKeys(now int64) (Keys, error) {
	h.Expire(now)
	if err := h.hasKeys(); err != nil {
		return Keys{}, err
	}
	k := h.keys
	h.keys = Keys{}
	return k, nil
}

func (h *Handshake) hasKeys() error {
	if h.keys.Suite == 0 {
		return fmt.Errorf("seal: no keys in state %v: they exist once, after the answer", h.state)
	}
	return nil
}
