// SPDX-License-Identifier: Apache-2.0

package ring

import (
	"errors"
	"fmt"
	"math/bits"
	"sync/atomic"
)

// ErrIndex: the other side wrote an index that no correct program writes.
var ErrIndex = errors.New("ring: the other side's index is beyond the ring")

// Shape is the size of a ring.
type Shape struct {
	Entries    uint32 // a power of two
	EntryBytes uint32 // a multiple of 16
}

// ShapeFor returns the shape of a ring for that many entries, each of at least that many bytes.
func ShapeFor(entries, entryBytes int) Shape {
	return Shape{Entries: 1 << bits.Len32(uint32(entries-1)), EntryBytes: uint32(entryBytes+15) &^ 15}
}

// Bytes is the memory that a ring takes, a multiple of a cache line.
func (s Shape) Bytes() int {
	return EntriesAt + (int(s.Entries)*int(s.EntryBytes)+line-1)&^(line-1)
}

func (s Shape) check() error {
	if s.Entries == 0 || s.Entries > MaxEntries || bits.OnesCount32(s.Entries) != 1 {
		return fmt.Errorf("ring: %d entries: use a power of two up to %d", s.Entries, MaxEntries)
	}
	if s.EntryBytes == 0 || s.EntryBytes > MaxEntryBytes || s.EntryBytes%16 != 0 {
		return fmt.Errorf("ring: entries of %d bytes: use a multiple of 16 up to %d", s.EntryBytes, MaxEntryBytes)
	}
	return nil
}

// Ring is a ring in memory, as both sides see it.
type Ring struct {
	producer, consumer, armed, state, watched *atomic.Uint32
	entries                                   []byte
	mask, bytes                               uint32
}

// Open returns the ring at the start of b, which both sides have mapped.
func Open(b []byte, s Shape) (Ring, error) {
	if err := s.check(); err != nil {
		return Ring{}, err
	}
	if len(b) < s.Bytes() {
		return Ring{}, fmt.Errorf("ring: %d bytes of memory for a ring of %d", len(b), s.Bytes())
	}
	if err := checkAligned(b); err != nil {
		return Ring{}, err
	}
	return Ring{
		producer: word32(b, ProducerAt), consumer: word32(b, ConsumerAt), armed: word32(b, ArmedAt),
		state: word32(b, StateAt), watched: word32(b, WatchedAt),
		entries: b[EntriesAt : EntriesAt+int(s.Entries)*int(s.EntryBytes)], mask: s.Entries - 1, bytes: s.EntryBytes,
	}, nil
}

// Len is the number of entries.
func (r *Ring) Len() uint32 { return r.mask + 1 }

// entry is entry i, in the memory that is shared.
func (r *Ring) entry(i uint32) []byte {
	at := int(i&r.mask) * int(r.bytes)
	return r.entries[at : at+int(r.bytes) : at+int(r.bytes)]
}

// Armed is the word by which the consumer of a completion queue requests a signal.
func (r *Ring) Armed() *atomic.Uint32 { return r.armed }

// State is the word in which a server shows the state of what the ring belongs to.
func (r *Ring) State() *atomic.Uint32 { return r.state }

// Watched is the word by which a server that looks at the producer's index by itself says so: 1 = the
// producer need not ring the doorbell. It is on the line of State, which a producer reads anyway.
func (r *Ring) Watched() *atomic.Uint32 { return r.watched }

// Producer is the side of a ring of work requests that writes entries. It has one user at a time.
type Producer struct {
	Ring
	next uint32 // entries written
	free uint32 // consumer's index as read last
	size uint32 // entries in use at most
}

// NewProducer returns the producer of a ring with up to depth entries in use.
func NewProducer(r Ring, depth uint32) *Producer {
	return &Producer{Ring: r, size: min(depth, r.Len())}
}

// Next returns the memory of the next entry, or nil if the ring is full. An index of the consumer
// that is not possible is ErrIndex.
func (p *Producer) Next() ([]byte, error) {
	if p.next-p.free >= p.size {
		free := p.consumer.Load()
		if free-p.free > p.next-p.free {
			return nil, ErrIndex
		}
		if p.free = free; p.next-free >= p.size {
			return nil, nil
		}
	}
	return p.entry(p.next), nil
}

// Advance counts the entry that Next returned as written. The consumer does not see it before
// Publish.
func (p *Producer) Advance() { p.next++ }

// Publish shows the consumer all entries that were written.
func (p *Producer) Publish() { p.producer.Store(p.next) }

// Consumer is the side of a ring of work requests that reads entries. It has one user at a time.
type Consumer struct {
	Ring
	next  uint32 // entries read
	limit uint32 // producer's index as read last
}

// NewConsumer returns the consumer of a ring.
func NewConsumer(r Ring) *Consumer { return &Consumer{Ring: r} }

// Available returns how many entries wait. It reads the producer's index if there were none left of
// the last time. An index that is not possible is ErrIndex.
func (c *Consumer) Available() (uint32, error) {
	if c.next == c.limit {
		limit := c.producer.Load()
		if limit-c.next > c.Len() {
			return 0, ErrIndex
		}
		c.limit = limit
	}
	return c.limit - c.next, nil
}

// Look reads the producer's index, also if entries are left of the last time. An index that is not
// possible is ErrIndex; Left is 0 then.
func (c *Consumer) Look() error {
	limit := c.producer.Load()
	if limit-c.next > c.Len() {
		c.limit = c.next
		return ErrIndex
	}
	c.limit = limit
	return nil
}

// Left is how many entries wait of those that the producer's index, as read last, has shown.
func (c *Consumer) Left() uint32 { return c.limit - c.next }

// Changed reports whether the producer's index is another one than the number of entries read. It does
// not check the index.
func (c *Consumer) Changed() bool { return c.producer.Load() != c.next }

// Prefetch has the processor load the next entry, which the producer's processor has, without waiting for
// it: Copy comes soon.
func (c *Consumer) Prefetch() {
	for at := 0; at < int(c.bytes); at += line {
		prefetch(word64(c.entry(c.next), at))
	}
}

// Copy copies the next entry to dst, which is as long as an entry, and counts it as read. Left or
// Available has returned that there is one. The memory of the entry is not free before Free.
func (c *Consumer) Copy(dst []byte) {
	c.Peek(dst)
	c.Skip()
}

// Peek is Copy without counting the entry as read.
func (c *Consumer) Peek(dst []byte) { copy(dst, c.entry(c.next)) }

// Skip counts the next entry as read.
func (c *Consumer) Skip() { c.next++ }

// Read is the number of entries read, modulo 2^32.
func (c *Consumer) Read() uint32 { return c.next }

// Free shows the producer that the first n entries are free, modulo 2^32.
func (c *Consumer) Free(n uint32) {
	if c.consumer.Load() != n { // a store costs some ten times the load
		c.consumer.Store(n)
	}
}

// Freed is the number that Free has shown: entries that are free again.
func (r *Ring) Freed() uint32 { return r.consumer.Load() }
