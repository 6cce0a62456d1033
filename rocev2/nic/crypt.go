// SPDX-License-Identifier: Apache-2.0

package nic

import (
	"errors"
	"fmt"

	"github.com/softroce/softroce-xdp/rocev2/seal"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

var _ seal.Encrypter = (*QP)(nil)

// Encrypt implements seal.Encrypter: from then on the queue pair, of RC or UC and in RESET or INIT, takes
// and sends encrypted packets only. It ends with RESET. The peer gets the same keys with Send and Receive
// exchanged. Keys are given to one queue pair once: two would use the same nonces.
//
// The path must have room for seal.Overhead bytes more in each packet, which the step to RTR checks.
func (x *QP) Encrypt(k seal.Keys, l seal.Limits) error {
	if x.Type() == verbs.UD {
		return errors.New("nic: a queue pair of UD has many peers and is not encrypted; choose RC or UC")
	}
	if x.outOfOrder {
		return errors.New("nic: a queue pair in out-of-order mode is not encrypted; choose one of the two")
	}
	c, err := seal.NewEnd(k, l)
	if err != nil {
		return fmt.Errorf("nic: encrypt a queue pair: %w", err)
	}
	if err := x.dev().do(func() error { return x.core.SetKeys(c, nil) }); err != nil {
		return err
	}
	x.dev().pairEncrypted(x)
	return nil
}
