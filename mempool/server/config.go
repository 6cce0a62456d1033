// SPDX-License-Identifier: Apache-2.0

package server

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"net"
	"time"

	"github.com/softroce/softroce-xdp/mempool/lease"
	"github.com/softroce/softroce-xdp/rocev2/rdma"
)

// Port is the port of commands and examples.
const Port = 7178

// DefaultSlabBytes is the SlabBytes of a Config without one.
const DefaultSlabBytes = 4 << 20

// Config are the properties of a Server.
type Config struct {
	Bytes     uint64 // size of the pool; rounded down to whole slabs
	SlabBytes uint64 // size of the leased slabs: a multiple of 4096, up to 1 GiB; 0 for DefaultSlabBytes

	// StateFile is where leases are stored, so that they survive a restart; "" for nowhere. It has secrets
	// of the nodes, and is made with mode 0600.
	StateFile string

	// Lease has the times, MaxNodes and Planner of the leases. Slabs, SlabBytes and Token are set by Listen.
	Lease lease.Config

	// Options are options of the connections.
	Options []rdma.Option

	// Report is called when a node has joined (err is nil) and when its connection has ended (err is the
	// reason), by any goroutine; nil for nobody. With node "", the state file cannot be written.
	Report func(node string, from net.Addr, err error)
}

const (
	pageBytes    = 4096
	maxSlabBytes = 1 << 30
	maxGrace     = time.Hour // fits 32 bits of microseconds
)

func (c *Config) complete() error {
	if c.SlabBytes == 0 {
		c.SlabBytes = DefaultSlabBytes
	}
	if c.Report == nil {
		c.Report = func(string, net.Addr, error) {}
	}
	switch {
	case c.SlabBytes%pageBytes != 0 || c.SlabBytes > maxSlabBytes:
		return fmt.Errorf("slabs of %d bytes: give a multiple of %d up to %d", c.SlabBytes, pageBytes, maxSlabBytes)
	case c.Bytes < c.SlabBytes || c.Bytes/c.SlabBytes > lease.MaxSlabs:
		return fmt.Errorf("a pool of %d bytes in slabs of %d: give 1 to %d slabs", c.Bytes, c.SlabBytes, lease.MaxSlabs)
	case c.Lease.Grace > maxGrace:
		return fmt.Errorf("%v to return slabs: give at most %v", c.Lease.Grace, maxGrace)
	}
	c.Lease.Slabs, c.Lease.SlabBytes, c.Lease.Token = int(c.Bytes/c.SlabBytes), c.SlabBytes, secret
	return nil
}

// secret returns a random number that is not 0.
func secret() uint64 {
	var b [8]byte
	for {
		_, _ = rand.Read(b[:]) // it never fails
		if v := binary.BigEndian.Uint64(b[:]); v != 0 {
			return v
		}
	}
}
