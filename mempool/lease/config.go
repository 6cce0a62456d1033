// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"errors"
	"fmt"
	"time"
)

// Slab is the number of a slab, from 0 on.
type Slab uint32

// NodeID identifies a node while it is in a table, from 1 on. It is never given to another node.
type NodeID uint32

// MaxName is the longest name of a node in bytes.
const MaxName = 20

// MaxSlabs is the largest number of slabs of a pool.
const MaxSlabs = 1 << 20

// Usage is what a node needed in a period.
type Usage struct {
	Demand uint64 // bytes that the node wanted to keep in the pool, including those that found no room
	Used   uint64 // distinct bytes of its lease that the node accessed
	Leased uint64 // bytes of its lease; Table sets them
}

// Config are the properties of a Table. A zero duration or number of nodes is the default.
type Config struct {
	Slabs     int    // slabs of the pool, up to MaxSlabs
	SlabBytes uint64 // length of each

	MinPeriod time.Duration // shortest period of a node; DefaultMinPeriod
	MaxPeriod time.Duration // longest period of a node; DefaultMaxPeriod
	Hold      time.Duration // time that slabs are kept for a node whose connection has ended; DefaultHold
	Grace     time.Duration // time that a node has to return slabs; DefaultGrace
	Answer    time.Duration // time that a node has to report; DefaultAnswer
	MaxNodes  int           // DefaultMaxNodes

	Planner Planner       // planner that divides the pool; nil for NewPlanner()
	Token   func() uint64 // source of numbers that nobody can guess
}

// The defaults of Config.
const (
	DefaultMinPeriod = 10 * time.Millisecond
	DefaultMaxPeriod = time.Hour
	DefaultHold      = 30 * time.Second
	DefaultGrace     = 2 * time.Second
	DefaultAnswer    = time.Second
	DefaultMaxNodes  = 64
)

func (c *Config) complete() error {
	for _, d := range []struct {
		value *time.Duration
		other time.Duration
	}{
		{&c.MinPeriod, DefaultMinPeriod}, {&c.MaxPeriod, DefaultMaxPeriod}, {&c.Hold, DefaultHold}, {&c.Grace, DefaultGrace}, {&c.Answer, DefaultAnswer},
	} {
		if *d.value == 0 {
			*d.value = d.other
		}
		if *d.value < 0 {
			return fmt.Errorf("lease: a duration of %v: give a positive one, or 0 for the default", *d.value)
		}
	}
	if c.MaxNodes == 0 {
		c.MaxNodes = DefaultMaxNodes
	}
	if c.Planner == nil {
		c.Planner = NewPlanner()
	}
	switch {
	case c.Slabs < 1 || c.Slabs > MaxSlabs:
		return fmt.Errorf("lease: %d slabs: give 1 to %d", c.Slabs, MaxSlabs)
	case c.SlabBytes == 0 || c.SlabBytes > 1<<32-1:
		return fmt.Errorf("lease: slabs of %d bytes: give 1 to 4G - 1", c.SlabBytes)
	case c.MinPeriod > c.MaxPeriod:
		return fmt.Errorf("lease: periods of %v to %v: the shortest is longer than the longest", c.MinPeriod, c.MaxPeriod)
	case c.MaxNodes < 1 || c.Token == nil:
		return errors.New("lease: MaxNodes must be positive, and Token is needed")
	}
	return nil
}

// Errors of Join. What is returned wraps them and has the values.
var (
	ErrName   = errors.New("a name has 1 to 20 bytes, which are printable and no spaces")
	ErrTaken  = errors.New("another node has this name")
	ErrFull   = errors.New("the server has as many nodes as it accepts")
	ErrPeriod = errors.New("the period is out of range")
)

// Errors of Find and Leave.
var (
	ErrUnknown = errors.New("there is no such node")
	ErrToken   = errors.New("the token is not the one that the server gave this node when it joined")
)

// ActionKind says what an Action does.
type ActionKind uint8

// The kinds of actions.
const (
	ActionOpen  ActionKind = iota + 1 // register Slab for Node. If that fails: OpenFailed
	ActionClose                       // end the key of Slab and zero it, then: Closed. If that fails: CloseFailed
	ActionAsk                         // ask Node what it needed in Period
	ActionLease                       // send Node its lease for Period (Table.Lease)
	ActionDrop                        // Node is no longer in the table: end its connection, free what it has
)

func (k ActionKind) String() string {
	return [...]string{"", "open", "close", "ask", "lease", "drop"}[k]
}

// Action is what the server does, in the order in which the calls return the actions.
type Action struct {
	Kind   ActionKind
	Node   NodeID
	Slab   Slab
	Period uint32
}

// Grant is a slab of a lease.
type Grant struct {
	Slab   Slab
	Return time.Duration // time until the slab must be returned; 0: it is leased for the period
}
