// SPDX-License-Identifier: Apache-2.0

// Package ring has queues in memory that two processes share: rings with one producer and one consumer, a
// doorbell that names the rings with new entries, and a status page that says whether the other side
// sleeps. Internal to this project. Device server and client use them (docs/run/device.md).
//
// # Layout of a ring
//
// All numbers have the byte order of the machine. Words of different writers are on different cache lines.
//
//	0    producer   uint32: entries produced, modulo 2^32
//	64   consumer   uint32: entries that are free again, modulo 2^32
//	128  armed      uint32: a completion queue's consumer wants a signal, see Armed
//	192  state      uint32: shown by the server, see State
//	196  watched    uint32: the server needs no doorbell for this ring, see Watched
//	256  entries of a fixed length each, a power of two of them
//
// # The other side is not trusted
//
// A Producer and a Consumer of the server keep their own index, and read that of the other side once
// for each use. An index that is further away than the ring is long is an error of that ring. Entries
// are copied before they are looked at. So whatever the other side writes, and whenever, at most its
// own entries are wrong.
//
// The server creates the memory and seals its size, so that it cannot be truncated.
package ring
