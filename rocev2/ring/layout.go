// SPDX-License-Identifier: Apache-2.0

package ring

// line is the length of a cache line in bytes.
const line = 64

// Offsets of the words of a ring, and of its entries, in bytes. Each word is a uint32 in the byte order of the machine.
const (
	ProducerAt = 0          // entries written, modulo 2^32; not used in a completion ring
	ConsumerAt = line       // entries that are free again, modulo 2^32
	ArmedAt    = 2 * line   // signal that the consumer of a completion queue requests: 0, ArmedSolicited or ArmedAny
	StateAt    = 3 * line   // state of a queue pair, or number of signals of a completion queue
	WatchedAt  = 3*line + 4 // 1: the server needs no doorbell for this ring
	EntriesAt  = 4 * line   // first entry
)

// Limits of a Shape.
const (
	MaxEntries    = 1 << 22
	MaxEntryBytes = 1 << 12
)

// Offsets of a doorbell, in bytes. Each word is a uint64 in the byte order of the machine.
const (
	DoorbellGroupsAt = 0    // a bit for each group of 64 rings
	DoorbellRingsAt  = line // 64 words: the i-th has a bit for each ring of group i
)

// Offsets of a status page, in bytes. The words have the byte order of the machine.
const (
	StatusPageAsleepAt = 0    // uint64: a bit for each group of 64 rings, 1 while the thread that looks at them sleeps, or is about to
	StatusPageEndedAt  = line // uint32: 1 when the device has ended
)
