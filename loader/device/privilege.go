// SPDX-License-Identifier: Apache-2.0

package device

import (
	"errors"

	"github.com/softroce/softroce-xdp/rocev2/rdma/proto"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// controlledQKey is the bit of Q_Keys that only root may use (IBTA 10.2.5). Queue pair 1, with the
// connection managers of all hosts, has one of them.
const controlledQKey = 1 << 31

var errControlledQKey = errors.New("a Q_Key with bit 31 set is for root only (IBTA 10.2.5): choose one below 0x80000000")

// mayUse refuses attributes of a queue pair that only root may set. A work request cannot bring in
// such a Q_Key: with bit 31 set, it has that of the queue pair sent.
func (c *client) mayUse(m *proto.ModifyQP) error {
	if c.uid != 0 && verbs.AttrMask(m.Mask)&verbs.MaskQKey != 0 && m.Attr.QKey&controlledQKey != 0 {
		return errControlledQKey
	}
	return nil
}
