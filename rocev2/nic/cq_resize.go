// SPDX-License-Identifier: Apache-2.0

package nic

import "fmt"

// Resize implements verbs.ResizableCQ.
func (c *CQ) Resize(depth int) error {
	if err := checkDepth(depth); err != nil {
		return err
	}
	ring, mask := newCQRing(depth)
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
			ring[i&mask] = c.ring[i&c.mask]
		}
		c.ring, c.mask, c.depth = ring, mask, uint32(depth)
		return nil
	})
}
