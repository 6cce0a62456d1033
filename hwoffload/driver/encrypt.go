// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/softroce/softroce-xdp/hwoffload/regs"
	"github.com/softroce/softroce-xdp/rocev2/seal"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

var _ seal.Encrypter = (*QP)(nil)

// Encrypt implements seal.Encrypter for RC and UC: the card takes the keys with the step to RTR. The
// limits are those of the card, so l is zero.
func (q *QP) Encrypt(k seal.Keys, l seal.Limits) error {
	q.lock.Lock()
	defer q.lock.Unlock()
	if q.gone {
		return fmt.Errorf("card: the queue pair %w", verbs.ErrDestroyed)
	}
	return q.encrypt(k, l)
}

func (q *QP) encrypt(k seal.Keys, l seal.Limits) error {
	state := q.state()
	switch e := q.context(); {
	case q.init.Type == verbs.UD:
		return errors.New("card: a queue pair of UD has many peers and is not encrypted; choose RC or UC")
	case l != seal.Limits{}:
		return errors.New("card: the limits of keys are those of the card; give none")
	case k.Suite != seal.AES128GCM && k.Suite != seal.AES256GCM:
		return fmt.Errorf("card: unknown %v: use AES128GCM or AES256GCM", k.Suite)
	case state != verbs.StateReset && state != verbs.StateInit:
		return fmt.Errorf("card: a queue pair in %s cannot be encrypted: give it keys in RESET or INIT", state)
	case e.Encryption().Suite() != 0:
		return errors.New("card: the queue pair has keys already: reset it before it gets others")
	default:
		for i := range regs.QpSendSecretCount {
			e.SetSendSecret(i, binary.LittleEndian.Uint64(k.Send[8*i:]))
			e.SetRecvSecret(i, binary.LittleEndian.Uint64(k.Receive[8*i:]))
		}
		e.SetEncryption(regs.QpEncryption(0).WithSuite(uint32(k.Suite)))
		return q.d.card.Err()
	}
}

// CryptCounters count packets of an encrypted queue pair since it was connected.
type CryptCounters struct {
	Encrypted, Decrypted uint64
	Undecryptable        uint64 // dropped: wrong tag, replay, unknown epoch or wrong form
	Unencrypted          uint64 // dropped: plain
}

// CryptCounters reads the counters of encryption.
func (q *QP) CryptCounters() CryptCounters {
	e := q.context()
	return CryptCounters{e.Encrypted(), e.Decrypted(), e.Undecryptable(), e.Unencrypted()}
}
