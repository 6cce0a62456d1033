// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"net/netip"

	"github.com/softroce/softroce-xdp/rocev2/mad"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Steer is an Action: messages that match Key belong to this Manager from now on, or with Off no
// longer. The keys that are on describe the same messages as Owns, for the owner of queue pair 1,
// who hands each message to one of several managers. A key that is on may be reported again.
// There are such actions only with Config.Steer. Those of a message that the Manager sends come
// before the Send, so that its answer finds them.
type Steer struct {
	Key Key
	Off bool
}

func (Steer) action() {}

// Key says which messages belong to a Manager: a KeyService, a KeyRequest or a KeyID. The owner of
// queue pair 1 sets a KeyRest itself.
type Key interface{ key() }

// KeyService matches every REQ and SIDR_REQ for a service ID.
type KeyService struct{ Service mad.ServiceID }

// KeyRequest matches the copies of a REQ (SIDR false) or SIDR_REQ (SIDR true) that has been
// received, and a REJ (timeout) of its sender that names no communication ID of this end.
type KeyRequest struct {
	Addr netip.Addr // address of the peer
	GUID uint64     // CA GUID of the peer, 0 with SIDR
	ID   uint32     // communication ID or request ID of the peer
	SIDR bool
}

// KeyID matches the messages that carry a communication ID of this end: SIDR_REP with SIDR, all
// others without.
type KeyID struct {
	ID     ID
	Addr   netip.Addr // address of the peer
	Remote uint32     // communication ID of the peer, 0: not known, any; a REJ may carry 0 instead
	SIDR   bool
}

// KeyRest matches all messages to an address of this end that no other key matches. It is right only
// where the Manager is alone (Config.Alone).
type KeyRest struct{ Local netip.Addr }

func (KeyRest) key()    {}
func (KeyService) key() {}
func (KeyRequest) key() {}
func (KeyID) key()      {}

func (m *Manager) steer(k Key, on bool) {
	if m.cfg.Steer {
		m.out = append(m.out, Steer{k, !on})
	}
}

// steerID reports the key of a connection's ID. The passive end of a resolution has none.
func (m *Manager) steerID(c *conn, on bool) {
	if sidr := c.path.Type == verbs.UD; c.active || !sidr {
		m.steer(KeyID{c.id, c.peer, c.remote, sidr}, on)
	}
}

// setRemote notes the communication ID of the peer.
func (m *Manager) setRemote(c *conn, id uint32) {
	if c.remote != id {
		c.remote = id
		m.steerID(c, true)
	}
}

// setPeer puts the connection of a request into the table of repeated ones.
func (m *Manager) setPeer(c *conn) {
	k := c.peerKey()
	m.byPeer[k] = c
	m.steer(KeyRequest{k.addr, k.guid, k.id, k.sidr}, true)
}
