// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"container/heap"
	"net/netip"

	"github.com/softroce/softroce-xdp/rocev2/internal/share"
	"github.com/softroce/softroce-xdp/rocev2/mad"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// State is a state of a connection or of a resolution (IBTA 12.9.7).
type State uint8

// The states. A connection that is not in the tables of a Manager has none.
const (
	StateREQSent     State = iota + 1 // active: REQ sent, no REP yet
	StateREPRcvd                      // active: the application prepares its queue pair
	StateREQRcvd                      // passive: the application decides
	StateREPSent                      // passive: REP sent, no RTU yet
	StateEstablished                  // connected
	StateDREQSent                     // DREQ sent, no DREP yet
	StateTimewait                     // ended; the ID and the QPN stay reserved
	StateAnswered                     // refused, or SIDR answered; repetitions get the same answer
	StateSIDRSent                     // SIDR_REQ sent, no SIDR_REP yet
	StateSIDRRcvd                     // the application decides on a SIDR_REQ
)

var stateNames = [...]string{
	StateREQSent: "REQ Sent", StateREPRcvd: "REP Rcvd", StateREQRcvd: "REQ Rcvd", StateREPSent: "REP Sent",
	StateEstablished: "Established", StateDREQSent: "DREQ Sent", StateTimewait: "Timewait",
	StateAnswered: "Answered", StateSIDRSent: "SIDR Sent", StateSIDRRcvd: "SIDR Rcvd",
}

func (s State) String() string {
	if s >= StateREQSent && s <= StateSIDRRcvd {
		return stateNames[s]
	}
	return "unknown state"
}

// conn is a connection or a resolution.
type conn struct {
	id          ID
	state       State
	active      bool // the REQ or SIDR_REQ was sent by this end
	local, peer netip.Addr
	remote      uint32 // communication ID of the peer, 0: not known yet
	guid        uint64 // CA GUID of the peer, 0: not known yet
	tid         uint64
	service     mad.ServiceID
	path        Path
	proof       Proof     // passive: of the REQ or SIDR_REQ
	listener    *listener // owner of the backlog that the request is in
	place, half *share.Place[*conn]

	last     mad.Header // the message that a timer or a repetition of the peer's repeats
	repeats  uint8      // repetitions that the timer still may send
	interval int64      // ns between repetitions
	deadline int64      // the state ends then, however many repetitions are left; 0: never
	linger   int64      // ns in StateAnswered
	told     bool       // Disconnected was reported

	encrypted  bool  // the queue pair takes encrypted packets only
	asked      uint8 // Established: how often the peer was asked whether it has the connection, 0: it is not asked
	aliveUntil int64 // time before which the peer is not asked

	at    int64 // time at which the timer fires, 0: never
	index int   // position in the heap of timers, -1: not in it
}

// peerKey finds the connection of a REQ or SIDR_REQ that is repeated.
type peerKey struct {
	addr netip.Addr
	guid uint64
	id   uint32
	sidr bool
}

func reqKey(src netip.Addr, r mad.REQ) peerKey {
	return peerKey{addr: src, guid: r.CAGUID(), id: r.LocalCommID()}
}

func sidrKey(src netip.Addr, r mad.SIDRREQ) peerKey {
	return peerKey{addr: src, id: r.RequestID(), sidr: true}
}

// qpKey finds the connection of a peer's queue pair.
type qpKey struct {
	addr netip.Addr
	guid uint64
	qpn  uint32
}

func (c *conn) peerKey() peerKey {
	return peerKey{c.peer, c.guid, c.remote, c.path.Type == verbs.UD}
}

func (c *conn) qpKey() qpKey { return qpKey{c.peer, c.guid, c.path.Remote.QPN} }

// timers is a heap of connections, the one that is due first on top.
type timers []*conn

func (t timers) Len() int           { return len(t) }
func (t timers) Less(i, j int) bool { return t[i].at < t[j].at }
func (t timers) Swap(i, j int) {
	t[i], t[j] = t[j], t[i]
	t[i].index, t[j].index = i, j
}

func (t *timers) Push(x any) {
	c := x.(*conn)
	c.index = len(*t)
	*t = append(*t, c)
}

func (t *timers) Pop() any {
	last := len(*t) - 1
	c := (*t)[last]
	(*t)[last] = nil
	*t = (*t)[:last]
	c.index = -1
	return c
}

// setTimer has the timer of c fire at a time, or never with 0.
func (m *Manager) setTimer(c *conn, at int64) {
	c.at = at
	switch {
	case at == 0 && c.index >= 0:
		heap.Remove(&m.timers, c.index)
	case at != 0 && c.index >= 0:
		heap.Fix(&m.timers, c.index)
	case at != 0:
		heap.Push(&m.timers, c)
	}
}

// add puts a new connection into the tables.
func (m *Manager) add(c *conn) *conn {
	c.index = -1
	for c.id == 0 || m.conns[c.id] != nil {
		c.id = ID(m.cfg.Rand())
	}
	m.conns[c.id] = c
	m.steerID(c, true)
	return c
}

// live returns the connection that an application names: not one that is Gone for it.
func (m *Manager) live(id ID) *conn {
	if c := m.conns[id]; c != nil && c.state != StateAnswered {
		return c
	}
	return nil
}

// remove takes a connection out of all tables. Its ID may be drawn again.
func (m *Manager) remove(c *conn) {
	m.leaveHalf(c)
	m.setTimer(c, 0)
	delete(m.conns, c.id)
	m.steerID(c, false)
	if k := c.peerKey(); m.byPeer[k] == c {
		delete(m.byPeer, k)
		m.steer(KeyRequest{k.addr, k.guid, k.id, k.sidr}, false)
	}
	m.unbindQP(c)
	if c.state == StateAnswered {
		m.answered--
	}
}

func (m *Manager) unbindQP(c *conn) {
	if k := c.qpKey(); m.byQP[k] == c {
		delete(m.byQP, k)
	}
}
