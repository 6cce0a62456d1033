// SPDX-License-Identifier: Apache-2.0

// Package ring has queues in memory that two processes share: rings of work requests with one producer and one
// consumer, rings of completions with several producers and one consumer, a doorbell that names the rings with
// new entries, and a status page that says whether the other side sleeps. Internal to this project. Device server
// and client use them (docs/run/device.md).
//
// # Layout of a ring
//
// All numbers have the byte order of the machine. Words of different writers are on different cache lines.
//
//	0    producer   uint32: entries produced, modulo 2^32; not used in a completion ring
//	64   consumer   uint32: entries that are free again, modulo 2^32
//	128  armed      uint32: a completion queue's consumer wants a signal, see Armed
//	192  state      uint32: shown by the server, see State
//	196  watched    uint32: the server needs no doorbell for this ring, see Watched
//	256  entries of a fixed length each, a power of two of them
//
// # Completions
//
// An entry of a completion ring has a bit owner (package wqe), which is 1 in the first pass through the ring, 0 in the
// second, and so on. The bit alone shows the consumer that the entry is new. So several threads can write entries: each
// takes the next ones by an atomic operation and writes them then (Completions). The consumer finds an entry that was
// taken and is not written yet as one that is not new, and stops there.
//
// # Shards
//
// A group of 64 rings in the doorbell belongs to one thread of the server, as does its bit in the status page. A
// client knows the group of a ring, and not how many threads there are.
//
// # The other side is not trusted
//
// A Producer, a Consumer and Completions of the server keep their own index, and read that of the other side once
// for each use. An index that is further away than the ring is long is an error of that ring. Entries
// are copied before they are looked at. So whatever the other side writes, and whenever, at most its
// own entries are wrong.
//
// The server creates the memory and seals its size, so that it cannot be truncated.
package ring
