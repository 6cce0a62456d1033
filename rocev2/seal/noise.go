// SPDX-License-Identifier: Apache-2.0

package seal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"github.com/flynn/noise"
)

// The handshake is Noise_KK_25519_AESGCM_SHA256 (Noise Protocol Framework, revision 34): both
// ends know the static key of the other one before. Its two messages are:
//
//	offer,  in the REQ:  0 version(8)=2  1 suite(8)  2 zero(16)  4 key ID(32)  8 e(32 bytes)  40 tag(16 bytes)
//	answer, in the REP:  0 version(8)=2  1 suite(8)  2 zero(16)  4 e(32 bytes)  36 QPN(32), 40 PSN(32), both encrypted
//	                     44 tag(16 bytes)
//
// Version 1 authenticated neither the service nor the first PSN of the REP. With a changed PSN, the first messages of the
// initiator counted as repeated ones: they were acknowledged and never delivered.
const (
	handshakeVersion = 2

	// OfferLen and AnswerLen are the lengths of the messages in bytes. An offer fills the 56 bytes
	// that applications have in a REQ behind the addresses.
	OfferLen  = 56
	AnswerLen = 60

	offerHead  = 8
	answerHead = 4
)

// ErrMessage means that a message of the handshake is damaged, forged, or made with other keys.
// It is ignored: the genuine one may follow.
var ErrMessage = errors.New("seal: handshake message is not from the expected key, or for another connection")

// Binding is what both ends know of the connection when the offer is sent. Keys are valid for
// this connection only.
type Binding struct {
	Initiator, Responder netip.Addr
	QPN                  uint32 // queue pair of the initiator
	CommID               uint32 // a number of the attempt: the communication ID of the initiator, or a PSN that it chose
	Service              uint64 // service ID that the offer is for; 0 where there is none
}

// Accepted is what the message around an answer says of the responder. The answer authenticates it.
type Accepted struct {
	QPN uint32 // queue pair of the responder
	PSN uint32 // PSN of the initiator's first packet, 24 bits
}

// payload is the encrypted part of an answer.
func (a Accepted) payload() []byte {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, a.QPN), a.PSN)
}

// prologue is what is authenticated without being in a message.
func (b *Binding) prologue(head []byte) []byte {
	from, to := b.Initiator.As16(), b.Responder.As16()
	p := []byte("softroce-xdp seal 2")
	p = append(p, from[:]...)
	p = append(p, to[:]...)
	p = binary.BigEndian.AppendUint32(p, b.QPN)
	p = binary.BigEndian.AppendUint32(p, b.CommID)
	p = binary.BigEndian.AppendUint64(p, b.Service)
	return append(p, head...)
}

var noiseSuite = noise.NewCipherSuite(noise.DH25519, noise.CipherAESGCM, noise.HashSHA256)

// keyPair returns the pair of a private key.
func keyPair(private []byte) (noise.DHKey, error) {
	if len(private) != 32 {
		return noise.DHKey{}, fmt.Errorf("seal: private key has %d bytes: want 32", len(private))
	}
	return noise.DH25519.GenerateKeypair(bytes.NewReader(private))
}

// state begins a handshake. seed is the private half of the ephemeral key, so that the same
// seed makes the same messages.
func state(id *Identity, peer PublicKey, prologue []byte, seed *[32]byte, initiator bool) (*noise.HandshakeState, error) {
	return noise.NewHandshakeState(noise.Config{
		CipherSuite: noiseSuite, Random: bytes.NewReader(seed[:]), Pattern: noise.HandshakeKK, Initiator: initiator,
		Prologue: prologue, StaticKeypair: id.pair, PeerStatic: peer[:],
	})
}

// offer returns the first message and the state that reads its answer.
func offer(id *Identity, peer PublicKey, b *Binding, suite Suite, seed *[32]byte) ([]byte, *noise.HandshakeState, error) {
	head := []byte{handshakeVersion, byte(suite), 0, 0}
	head = binary.BigEndian.AppendUint32(head, id.Public().ID())
	hs, err := state(id, peer, b.prologue(head), seed, true)
	if err != nil {
		return nil, nil, err
	}
	msg, _, _, err := hs.WriteMessage(head, nil)
	return msg, hs, err
}

// readAnswer returns the keys of the initiator. It makes its state anew, so that a message that
// fails changes nothing.
func readAnswer(id *Identity, peer PublicKey, b *Binding, suite Suite, seed *[32]byte, msg []byte, at Accepted) (Keys, error) {
	_, hs, err := offer(id, peer, b, suite, seed)
	if err != nil {
		return Keys{}, err
	}
	if len(msg) != AnswerLen || !bytes.Equal(msg[:answerHead], []byte{handshakeVersion, byte(suite), 0, 0}) {
		return Keys{}, ErrMessage
	}
	got, send, receive, err := hs.ReadMessage(nil, msg[answerHead:])
	if err != nil || !bytes.Equal(got, at.payload()) {
		return Keys{}, ErrMessage
	}
	return Keys{suite, send.UnsafeKey(), receive.UnsafeKey()}, nil
}

// answer reads an offer and returns the second message and the keys of the responder.
func answer(id *Identity, peer PublicKey, b *Binding, at Accepted, seed *[32]byte, msg []byte) ([]byte, Keys, error) {
	hs, err := state(id, peer, b.prologue(msg[:offerHead]), seed, false)
	if err != nil {
		return nil, Keys{}, err
	}
	if got, _, _, err := hs.ReadMessage(nil, msg[offerHead:]); err != nil || len(got) != 0 {
		return nil, Keys{}, ErrMessage
	}
	suite := Suite(msg[1])
	head := []byte{handshakeVersion, byte(suite), 0, 0}
	out, receive, send, err := hs.WriteMessage(head, at.payload())
	if err != nil {
		return nil, Keys{}, err
	}
	return out, Keys{suite, send.UnsafeKey(), receive.UnsafeKey()}, nil
}

// checkOffer judges the plain part of an offer.
func checkOffer(msg []byte) (suite Suite, keyID uint32, err error) {
	if len(msg) != OfferLen {
		return 0, 0, fmt.Errorf("seal: offer of %d bytes: want %d", len(msg), OfferLen)
	}
	suite = Suite(msg[1])
	if msg[0] != handshakeVersion || suite.keyLen() == 0 || msg[2]|msg[3] != 0 {
		return 0, 0, fmt.Errorf("seal: offer of version %d with %v: this end has version %d with %v and %v",
			msg[0], suite, handshakeVersion, AES128GCM, AES256GCM)
	}
	return suite, binary.BigEndian.Uint32(msg[4:8]), nil
}
