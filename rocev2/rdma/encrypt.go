// SPDX-License-Identifier: Apache-2.0

package rdma

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/cm"
	"github.com/softroce/softroce-xdp/rocev2/mad"
	"github.com/softroce/softroce-xdp/rocev2/seal"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Encryption is what an encrypted connection needs (docs/program/encryption.md). Offer and answer of the
// handshake are private data of the connection request and of its acceptance.
type Encryption struct {
	// Identity is the key pair of this host.
	Identity *seal.Identity
	// Peers returns the public keys that the host at an address may have. A connection with another
	// key, or with none, is refused. Dial needs exactly one key.
	Peers func(netip.Addr) []seal.PublicKey
	// Suite is the cipher. 0: Dial offers AES-128-GCM, a listener takes what the peer offers.
	Suite seal.Suite
	// Limits shorten the life of keys. They are those of each end alone.
	Limits seal.Limits
}

// WithEncryption encrypts a connection, or all connections of a listener. Both ends need it: a connection
// is encrypted or it is not made. A connection request has no room for WithPrivate then, an acceptance
// room for 136 bytes. The PMTU is chosen so that seal.Overhead fits each packet.
func WithEncryption(e Encryption) Option { return func(o *options) { o.encryption = &e } }

// ErrNotEncrypted: one end of the connection wants encryption and the other end does not.
var ErrNotEncrypted = errors.New("the peer does not encrypt: give it WithEncryption too, or leave it out at both ends")

// ErrCannotEncrypt: the device has no encryption.
var ErrCannotEncrypt = errors.New("the device has no encrypted queue pairs")

// handshakeTime is how long a handshake waits for its answer: longer than the communication manager does.
const handshakeTime = 3 * time.Minute

var began = time.Now()

// handshakeNow is the time for package seal.
func handshakeNow() int64 { return int64(time.Since(began)) }

// sealRoom returns how many bytes encryption adds to each packet.
func (o *options) sealRoom() int {
	if o.encryption != nil {
		return seal.Overhead
	}
	return 0
}

// checkDial refuses options that cannot be met.
func (o *options) checkDial() error {
	if o.encryption != nil && len(o.private) > 0 {
		return errors.New("WithPrivate and WithEncryption: the request has no room for both; send the data as a message")
	}
	return nil
}

// checkListen refuses options with which all connections would be rejected.
func (o *options) checkListen() error {
	room := mad.REPPrivateLen
	if o.encryption != nil {
		room -= seal.AnswerLen
	}
	if len(o.private) > room {
		return fmt.Errorf("WithPrivate has %d bytes: give at most %d, or send the data as a message", len(o.private), room)
	}
	return nil
}

// applicationPart returns what of the private data of a peer belongs to the application: all behind a message of the
// handshake, which has n bytes.
func (o *options) applicationPart(b []byte, n int) []byte {
	if o.encryption == nil {
		return b
	}
	return b[min(len(b), n):]
}

func (e *Encryption) config(peers []seal.PublicKey) seal.Config {
	c := seal.Config{Identity: e.Identity, Peers: peers, Suite: e.Suite, Timeout: handshakeTime}
	if len(peers) > 0 {
		c.Peer = peers[0]
	}
	return c
}

// check refuses what no connection can be made with.
func (e *Encryption) check() error {
	if e.Identity == nil || e.Peers == nil {
		return errors.New("Encryption without Identity or Peers: give both")
	}
	_, err := seal.NewSealer(cmp.Or(e.Suite, seal.AES128GCM), seal.Secret{}, e.Limits) // it checks Suite and Limits
	return err
}

// keysOf returns the keys of a peer, at least one.
func (e *Encryption) keysOf(a netip.Addr) ([]seal.PublicKey, error) {
	if err := e.check(); err != nil {
		return nil, err
	}
	keys := e.Peers(a.Unmap())
	if len(keys) == 0 {
		return nil, refusal("no public key of " + a.Unmap().String() + " is known: add the key of that host to the peers")
	}
	return keys, nil
}

// Offer begins the handshake of a connection; its Message goes to the peer. Dial does all of this. Offer, Accept and
// Finish are for applications that connect queue pairs without the communication manager (verbs.Connect).
func (e *Encryption) Offer(b seal.Binding) (*seal.Handshake, error) {
	keys, err := e.keysOf(b.Responder)
	if err != nil {
		return nil, err
	}
	if len(keys) > 1 {
		return nil, fmt.Errorf("%d public keys of %s are known: leave one", len(keys), b.Responder)
	}
	return seal.Initiate(handshakeNow(), e.config(keys), b)
}

// Accept takes an offer, encrypts the queue pair, which is in RESET or INIT, and returns the answer for the peer. psn is
// the one with which the peer starts to send.
func (e *Encryption) Accept(qp verbs.QP, b seal.Binding, psn rocev2.PSN, offer []byte) (answer []byte, err error) {
	keys, err := e.keysOf(b.Initiator)
	if err != nil {
		return nil, err
	}
	h, err := seal.Respond(handshakeNow(), e.config(keys), b, seal.Accepted{QPN: qp.QPN(), PSN: uint32(psn)}, offer)
	if err != nil {
		return nil, fmt.Errorf("%w (%w)", err, refusal("the offer of encryption is not accepted: is your public key known here, and the suite allowed?"))
	}
	return h.Message(), e.give(qp, h)
}

// Finish takes the answer to an offer, and encrypts the queue pair, which is in RESET or INIT. at is what
// the peer says with the answer.
func (e *Encryption) Finish(qp verbs.QP, h *seal.Handshake, at seal.Accepted, answer []byte) error {
	if err := h.Answer(handshakeNow(), at, answer); err != nil {
		return fmt.Errorf("the peer has another key than the one that is known, does not encrypt, or its answer was changed: %w", err)
	}
	return e.give(qp, h)
}

// give gives the keys of a handshake to a queue pair.
func (e *Encryption) give(qp verbs.QP, h *seal.Handshake) error {
	x, ok := qp.(seal.Encrypter)
	if !ok {
		return ErrCannotEncrypt
	}
	k, err := h.TakeKeys(handshakeNow())
	if err != nil {
		return err
	}
	return x.Encrypt(k, e.Limits)
}

// offer puts the offer of an encrypted connection into its request.
func (a *attempt) offer(p *cm.ConnectParams) (err error) {
	if a.o.encryption == nil {
		return nil
	}
	a.keys, err = a.o.encryption.Offer(seal.Binding{
		Initiator: p.Local, Responder: p.Peer, QPN: p.QPN, CommID: uint32(p.PSN), Service: uint64(p.Service),
	})
	if err != nil {
		return err
	}
	p.Private = a.keys.Message()
	return nil
}

// encrypt takes the answer out of the peer's acceptance, and encrypts the queue pair.
func (a *attempt) encrypt(qp verbs.QP, e *cm.Event) error {
	if a.keys == nil {
		return nil
	}
	if len(e.Private) < seal.AnswerLen || allZero(e.Private[:seal.AnswerLen]) {
		return ErrNotEncrypted
	}
	answer := e.Private[:seal.AnswerLen]
	e.Private = a.o.applicationPart(e.Private, seal.AnswerLen)
	return a.o.encryption.Finish(qp, a.keys, seal.Accepted{QPN: e.Path.Remote.QPN, PSN: uint32(e.Path.Local.PSN)}, answer)
}

// answer returns the private data of the acceptance of a request: the answer to its offer, if the connection
// is to be encrypted, in front of what the application sends. The queue pair is encrypted then. psn is the one with
// which the peer starts to send.
func (r *Request) answer(o options, qp verbs.QP, psn rocev2.PSN) ([]byte, error) {
	if o.encryption == nil {
		return o.private, nil
	}
	p := &r.e.Path
	if len(r.e.Private) < seal.OfferLen || allZero(r.e.Private[:seal.OfferLen]) {
		return nil, fmt.Errorf("%w (%w)", ErrNotEncrypted, refusal("this server takes encrypted connections only: use WithEncryption"))
	}
	b := seal.Binding{Initiator: p.Remote.Addr, Responder: p.Local.Addr, QPN: p.Remote.QPN, CommID: uint32(p.Local.PSN), Service: uint64(r.e.Service)}
	answer, err := o.encryption.Accept(qp, b, psn, r.e.Private[:seal.OfferLen])
	return append(bytes.Clone(answer), o.private...), err
}

// refusal is an error whose text the peer may know.
type refusal string

func (r refusal) Error() string { return string(r) }

// rejectText returns what a peer is told about an error of this server: the text of a refusal, or else a general one.
func rejectText(err error) []byte {
	if r := refusal(""); errors.As(err, &r) {
		return []byte(r)
	}
	return []byte("the server cannot connect its queue pair")
}

func allZero(b []byte) bool { return len(bytes.Trim(b, "\x00")) == 0 }
