// SPDX-License-Identifier: Apache-2.0

package card

import (
	"encoding/binary"

	"github.com/softroce/softroce-xdp/hwoffload/regs"
	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/qp"
	"github.com/softroce/softroce-xdp/rocev2/seal"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Encryption of queue pairs (S2.8, docs/program/encryption.md). Packages seal and the engine are the other end
// of what is here: a packet is sealed when headers and data are in the frame, before the ICRC, and
// opened behind the ICRC check.

// secrets are what the driver has written to send_secret and recv_secret of a queue pair that is not
// encrypted yet.
type secrets struct {
	b       [2][len(seal.Secret{})]byte
	written uint32 // bit i: word i of both
}

const (
	secretWords = len(seal.Secret{}) / 4
	allWords    = 1<<(2*secretWords) - 1
)

// writeSecret takes a word that the driver has written to a register of block qp. It reports false if the
// register has no secret.
func (d *dataPath) writeSecret(i uint32, offset uint64, v uint32) bool {
	const end = regs.QpRecvSecretOffset + regs.QpRecvSecretCount*regs.QpRecvSecretStride
	if offset < regs.QpSendSecretOffset || offset >= end {
		return false
	}
	s := d.secrets[i]
	if s == nil {
		s = &secrets{}
		d.secrets[i] = s
	}
	word := int(offset-regs.QpSendSecretOffset) / 4
	binary.LittleEndian.PutUint32(s.b[word/secretWords][word%secretWords*4:], v)
	s.written |= 1 << word
	return true
}

// keysFor makes the keys of a queue pair for the step to RTR, of what the driver has written. nil, true: it
// is not to be encrypted, or has keys since an earlier such step.
func (d *dataPath) keysFor(x *queuePair) (c *seal.End, ok bool) {
	suite := seal.Suite(d.context(x.num).Encryption().Suite())
	if suite == 0 || x.crypt != nil {
		return nil, true
	}
	s := d.secrets[x.num]
	if s == nil || s.written != allWords || x.q.Type() == verbs.UD || x.pkey != rocev2.DefaultPKey {
		return nil, false
	}
	c, err := seal.NewEnd(seal.Keys{Suite: suite, Send: s.b[0], Receive: s.b[1]}, seal.Limits{})
	return c, err == nil
}

// encrypt begins the encryption of a queue pair. Its secrets are used once: two sealers with one key would use
// a nonce twice.
func (d *dataPath) encrypt(x *queuePair, c *seal.End) {
	delete(d.secrets, x.num)
	x.crypt, x.pkey = c, seal.PKey
	at := regs.QpBase + uint64(x.num)*regs.QpStride
	for _, offset := range []uint64{regs.QpEncryptedOffset, regs.QpDecryptedOffset, regs.QpUndecryptableOffset, regs.QpUnencryptedOffset} {
		d.in.W64(at+offset, 0)
	}
}

func (d *dataPath) countCrypt(x *queuePair, offset uint64) {
	d.in.add(regs.QpBase+uint64(x.num)*regs.QpStride+offset, 1)
}

// open opens a packet for an encrypted queue pair. False: it is dropped and counted.
func (d *dataPath) open(x *queuePair, p *rocev2.Packet, now qp.Time) bool {
	if x.crypt.Opener.OpenPacket(int64(now), p) != nil {
		d.countCrypt(x, regs.QpUndecryptableOffset)
		return false
	}
	d.countCrypt(x, regs.QpDecryptedOffset)
	return true
}

// payloadRoom returns how many bytes the payload of a packet takes in the frame.
func (g *egress) payloadRoom(o *qp.Outbound) int {
	if o.Sealed = g.crypt != nil; !o.Sealed {
		return o.PayloadLen
	}
	o.PKey = seal.PKey
	return o.PayloadLen + seal.Overhead
}

// fill writes the data of a packet to its place in the datagram, and seals it. False: nothing leaves.
func (d *dataPath) fill(g *egress, o *qp.Outbound, datagram, place []byte) bool {
	if g.crypt == nil {
		return o.Fill(place)
	}
	p := g.crypt.Sealer.Built(&o.Datagram, datagram, len(place))
	if !o.FillBy(seal.Plain(place), p) || p.Err() != nil {
		return false
	}
	d.countCrypt(g.qp, regs.QpEncryptedOffset)
	return true
}
