// SPDX-License-Identifier: Apache-2.0

package card

import (
	"encoding/binary"

	"github.com/softroce/softroce-xdp/hwoffload/regs"
	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/engine"
	"github.com/softroce/softroce-xdp/rocev2/seal"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Encryption of queue pairs (S2.8, docs/program/encryption.md): keys and counters. The engine seals and opens packets.

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

// encrypt notes that a queue pair is encrypted. Its secrets are used once: two sealers with one key would use
// a number twice.
func (d *dataPath) encrypt(x *queuePair, count *engine.CryptCounters) {
	delete(d.secrets, x.num)
	x.crypt, x.pkey = count, seal.PKey
	d.showCrypt(x)
}

// showCrypt brings the counters of an encrypted queue pair up to date.
func (d *dataPath) showCrypt(x *queuePair) {
	if x.crypt == nil {
		return
	}
	at := regs.QpBase + uint64(x.num)*regs.QpStride
	d.in.W64(at+regs.QpEncryptedOffset, x.crypt.Sealed)
	d.in.W64(at+regs.QpDecryptedOffset, x.crypt.Opened)
	d.in.W64(at+regs.QpUndecryptableOffset, x.crypt.Refused)
	d.in.W64(at+regs.QpUnencryptedOffset, x.crypt.Plain)
}
