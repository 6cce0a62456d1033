// SPDX-License-Identifier: Apache-2.0

package engine

// Anybody can have a REQ answered, in the name of any address. If each answer made an entry in the
// destination table, 65 536 REQs would fill it, and new peers would be neither paced nor stamped. So a
// destination to which only answers of the communication manager are sent has no entry, unless one is there
// already: rate, capabilities and token are then those of the entry. The first queue pair that leads
// there, or request that is sent there, makes it an ordinary destination.

// answerDestination returns the entry of the address that a path of the communication manager leads to. The
// caller must drop it.
func (s *destinations) answerDestination(p *Path) *dest { return s.destinationFor(0, p, true) }

// endAnswers makes a destination an ordinary one, which is reported soon.
func (s *destinations) endAnswers(d *dest) {
	if !d.answers {
		return
	}
	d.answers = false
	d.initialSyncs = initialSyncReports
	s.queueForSync(d)
}
