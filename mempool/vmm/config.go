// SPDX-License-Identifier: Apache-2.0

package vmm

import (
	"fmt"
	"math"
	"time"
)

// DefaultDeadline is how long an access waits for a page.
const DefaultDeadline = 2 * time.Second

// Config is the size of a region or map. All sizes are bytes, rounded up to pages.
type Config struct {
	// Size is what the application can address: 1 page to 2^31 pages.
	Size int64
	// Local is the local memory that may be in use, at least 16 pages (64 KB); 0 is Size.
	Local int64
	// Threshold is how much of Local eviction keeps free, so that an access does not wait for
	// the eviction of another page (S4.4). 0 is a sixteenth of Local, at most 1 MB.
	Threshold int64
	// Deadline is how long an access waits for a page; 0 is DefaultDeadline.
	Deadline time.Duration
}

// Bounds of a Config, in bytes.
const (
	MinLocal = 16 * PageSize            // least local memory
	MaxSize  = math.MaxInt32 * PageSize // largest size
)

func (c Config) complete() (Config, error) {
	if c.Size <= 0 || c.Size > MaxSize {
		return c, fmt.Errorf("vmm: size %d; 1 byte to %d bytes are possible", c.Size, int64(MaxSize))
	}
	c.Size = roundUp(c.Size)
	if c.Local == 0 {
		c.Local = max(c.Size, MinLocal)
	}
	if c.Local < MinLocal {
		return c, fmt.Errorf("vmm: %d bytes of local memory; at least %d are needed", c.Local, MinLocal)
	}
	c.Local = roundUp(c.Local)
	if c.Local >= c.Size { // nothing is ever evicted
		c.Local, c.Threshold = max(c.Size, MinLocal), 0
	} else if c.Threshold == 0 {
		c.Threshold = min(c.Local/16, 1<<20)
	}
	c.Threshold = roundUp(c.Threshold)
	if c.Threshold < 0 || c.Threshold > c.Local/2 {
		return c, fmt.Errorf("vmm: threshold %d; at most half of the local memory (%d) can be kept free", c.Threshold, c.Local)
	}
	if c.Deadline == 0 {
		c.Deadline = DefaultDeadline
	}
	if c.Deadline < 0 {
		return c, fmt.Errorf("vmm: deadline %v; it has to be positive", c.Deadline)
	}
	return c, nil
}

func roundUp(n int64) int64 { return (n + PageSize - 1) &^ (PageSize - 1) }
