// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"github.com/softroce/softroce-xdp/rocev2/internal/share"
	"github.com/softroce/softroce-xdp/rocev2/mad"
)

// listener is what waits for requests at a service ID.
type listener struct {
	backlog share.Table[*conn] // requests without an answer of the application
}

func newListener(backlog int) *listener {
	return &listener{backlog: share.Table[*conn]{Max: backlog, MaxLowest: max(backlog/doubtfulPart, 1)}}
}

// doubtfulPart is the part of the places that doubtful requests may have: one in so many.
const doubtfulPart = 16

// newHalf returns the places of connections of which the peer has proved nothing yet: half of MaxConns, so that floods
// of requests leave the other half to connections that are established, and to those of this end.
func newHalf(maxConns int) share.Table[*conn] {
	n := max(maxConns/2, 1)
	return share.Table[*conn]{Max: n, MaxLowest: max(n/doubtfulPart, 1), Refresh: true}
}

// admit finds a request its places. False: there are none.
func (m *Manager) admit(now int64, l *listener, c *conn) bool {
	place, lost := l.backlog.Take(c.peer, int(c.proof), c)
	if place == nil {
		return false
	}
	if lost != nil {
		m.displace(now, lost.Value)
	}
	half, lost := m.half.Take(c.peer, int(c.proof), c)
	if half == nil {
		l.backlog.Free(place)
		return false
	}
	if lost != nil {
		m.displace(now, lost.Value)
	}
	c.listener, c.place, c.half = l, place, half
	return true
}

// displace ends a request that gives way to others. The peer repeats its REQ if it is there; one that has the
// REP would take the connection for established.
func (m *Manager) displace(now int64, c *conn) {
	m.count.Displaced++
	if c.state == StateREPSent {
		m.send(c, m.rej(c, mad.KindOther, mad.ReasonTimeout, nil))
		m.unbindQP(c)
		m.timewait(now, c, Event{Kind: Failed, Err: ErrDisplaced})
		return
	}
	m.forget(c, ErrDisplaced)
}

// leaveBacklog gives the place among the requests of a listener back.
func (m *Manager) leaveBacklog(c *conn) {
	if c.listener != nil {
		c.listener.backlog.Free(c.place)
		c.listener, c.place = nil, nil
	}
}

// leaveHalf gives all places of a request back: it is a connection now, or has ended.
func (m *Manager) leaveHalf(c *conn) {
	m.leaveBacklog(c)
	m.half.Free(c.half)
	c.half = nil
}
