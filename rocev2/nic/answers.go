// SPDX-License-Identifier: Apache-2.0

package nic

import (
	"github.com/softroce/softroce-xdp/rocev2/mad"
	"github.com/softroce/softroce-xdp/rocev2/nic/internal/route"
)

// Anybody can have a REQ answered, in the name of any address. If each answer made an entry in the
// destination table, 65 536 REQs would fill it, and new peers would be neither paced nor stamped. So a
// destination to which only answers of the communication manager are sent has no entry, unless one is there
// already: rate, capabilities and token are then those of the entry. The first queue pair that leads
// there, or request that is sent there, makes it an ordinary destination.

// answerDestination returns the entry of the address that a path of the communication manager leads to. The
// caller must drop it.
func (e *engine) answerDestination(p *route.Path) *dest { return e.destinationFor(0, p, true) }

// endAnswers makes a destination an ordinary one, which is reported soon.
func (e *engine) endAnswers(d *dest) {
	if !d.answers {
		return
	}
	d.answers = false
	d.initialSyncs = initialSyncReports
	e.queueForSync(d)
}

// isAnswer reports whether a message of the communication manager answers one that may be forged.
func isAnswer(m mad.Header) bool {
	switch m.Attr() {
	case mad.AttrMRA, mad.AttrREJ, mad.AttrREP, mad.AttrDREP, mad.AttrSIDRREP:
		return true
	}
	return false
}
