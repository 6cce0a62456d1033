// SPDX-License-Identifier: Apache-2.0

package ring

import (
	"errors"

	"github.com/softroce/softroce-xdp/rocev2/wqe"
)

// ErrFull: more completions wait than the new ring has room for.
var ErrFull = errors.New("ring: more completions wait in the completion queue: poll some, or choose a larger one")

// Move is the way of the completions that the consumer has not read from one ring to another, which takes its place. The
// consumer neither reads the old ring nor writes to it meanwhile.
type Move struct {
	from, to *Completions
	next     uint64 // number of the next entry of from that is to be moved
	moved    uint64 // entries in to
}

// MoveTo begins to move the completions of a ring to another one, which is empty, for up to depth entries in use. It
// moves those that are written, while producers write further ones. The error is ErrIndex or ErrFull.
func (r *Completions) MoveTo(to Ring, depth uint32) (*Move, error) {
	free, taken := r.free.Load(), r.taken.Load()
	index := free + uint64(r.ring.consumer.Load()-uint32(free))
	if index > taken {
		return nil, ErrIndex
	}
	m := &Move{from: r, to: NewCompletions(to, depth), next: index}
	written := &CompletionConsumer{Ring: r.ring, next: uint32(index)}
	for m.next < taken && written.Ready() {
		if err := m.entry(); err != nil {
			return nil, err
		}
		written.next++
	}
	return m, nil
}

// entry moves an entry. The process may have written anything into it.
func (m *Move) entry() error {
	if m.moved == m.to.size {
		return ErrFull
	}
	var b [wqe.CqeBytes]byte
	copy(b[:], m.from.ring.entry(uint32(m.next)))
	wqe.Cqe(b[:]).SetOwner(false)
	m.to.write(m.moved, b[:])
	m.next, m.moved = m.next+1, m.moved+1
	return nil
}

// Finish moves what was written since MoveTo, the request for a signal and the state, and returns the new ring. No
// producer writes to the old one meanwhile or afterwards. The error is ErrFull; the old ring is as before then.
func (m *Move) Finish() (*Completions, error) {
	first := m.next - m.moved
	for taken := m.from.taken.Load(); m.next < taken; {
		if err := m.entry(); err != nil {
			return nil, err
		}
	}
	m.to.taken.Store(m.moved)
	if alerted := m.from.alerted.Load(); alerted > first {
		m.to.alerted.Store(alerted - first)
	}
	m.to.ring.state.Store(m.from.ring.state.Load())
	m.to.ring.armed.Store(m.from.ring.armed.Load())
	return m.to, nil
}

// WriteTo has the producer write to another ring, also what it has not published yet.
func (p *CompletionProducer) WriteTo(r *Completions) { p.to = r }
