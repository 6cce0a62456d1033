// SPDX-License-Identifier: Apache-2.0

package nic

import (
	"fmt"
	"math/bits"

	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Resize implements verbs.ResizableCQ.
func (c *CQ) Resize(depth int) error {
	if depth < 1 || depth > MaxCQ {
		return fmt.Errorf("nic: a completion queue of %d; choose 1 to %d", depth, MaxCQ)
	}
	size := uint32(1) << bits.Len32(uint32(depth-1))
	ring := make([]verbs.Completion, size)
	return c.dev.do(func() error {
		c.polling.Lock()
		defer c.polling.Unlock()
		head := c.head.Load()
		switch waiting := c.next - head; {
		case c.users.ended():
			return errCQDestroyed
		case waiting > uint32(depth):
			return fmt.Errorf("nic: a completion queue of %d: %d completions wait in it; poll some, or choose more", depth, waiting)
		}
		for i := head; i != c.next; i++ {
			ring[i&(size-1)] = c.ring[i&c.mask]
		}
		c.ring, c.mask, c.depth = ring, size-1, uint32(depth)
		return nil
	})
}
