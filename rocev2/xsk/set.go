// SPDX-License-Identifier: Apache-2.0

package xsk

import (
	"errors"
	"fmt"
	"net"
)

// Set is the sockets of all queues of one interface; the i-th is on queue i.
//
// Each has memory of its own. One that all share would let any queue's thread send
// from any frame, but then every free list needs a lock, and one queue's flood would
// take the frames of the others.
type Set []*Socket

// OpenAll opens a socket on every queue of an interface, or none. Config.Queue is
// ignored; all else holds for each socket.
func OpenAll(c Config) (_ Set, err error) {
	iface, err := net.InterfaceByIndex(c.Ifindex)
	if err != nil {
		return nil, fmt.Errorf("xsk: interface %d: %w (is it in this network namespace?)", c.Ifindex, err)
	}
	n, known := Queues(iface.Name)
	if !known {
		n = 1 // drivers that do not tell have one
	}
	var set Set
	for q := range n {
		c.Queue = q
		s, err := Open(c)
		if err != nil {
			return nil, errors.Join(err, set.Close())
		}
		set = append(set, s)
	}
	return set, nil
}

// Register puts the sockets into an XSKMAP (*ebpf.Map has Put), at base and up.
func (set Set) Register(xsks interface{ Put(key, value any) error }, base uint32) error {
	for i, s := range set {
		if err := xsks.Put(base+uint32(i), uint32(s.FD())); err != nil {
			return fmt.Errorf("xsk: register queue %d: %w", i, err)
		}
	}
	return nil
}

// Close closes all sockets.
func (set Set) Close() error {
	var errs []error
	for _, s := range set {
		errs = append(errs, s.Close())
	}
	return errors.Join(errs...)
}
