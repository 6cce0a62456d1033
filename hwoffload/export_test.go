// SPDX-License-Identifier: Apache-2.0

package hwoffload

import "time"

// OpenDMAFor is OpenDMA with another timeout.
func (c *Card) OpenDMAFor(buffer HostBuffer, timeout time.Duration) (*DMA, error) {
	return c.openDMA(buffer, timeout)
}

// NewSocket is Dial over a connection that exists.
var NewSocket = newSocket
