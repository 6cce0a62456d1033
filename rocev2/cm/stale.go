// SPDX-License-Identifier: Apache-2.0

package cm

import "github.com/softroce/softroce-xdp/rocev2/mad"

// A REQ from a queue pair of a peer that has a connection already says that the peer has forgotten the connection,
// by a restart for example (IBTA 12.9.8.3.1). Anyone who guesses GUID and QPN can send such a REQ in the name of the
// peer. So it ends a connection only if its stamp proves that the peer has sent it. Otherwise the peer is asked, by a
// message that has the communication IDs of both ends, which a host that does not see the packets cannot know:
//
//   - The passive end sends its REP again. A peer that has the connection answers with its RTU, one that has not with a
//     REJ or not at all.
//   - The active end sends a DREQ to QPN 0, which no queue pair has. A peer that has the connection drops it,
//     as the QPN is wrong (IBTA 12.6.10), one that has not answers with a DREP.
//
// Meanwhile the REQ is dropped: its sender repeats it. An encrypted connection is never ended by a REQ alone, whether
// proven or not, nor because no answer comes.

const (
	// maxAsks is how often a peer is asked, Config.ResponseTimeout apart.
	maxAsks = 3
	// aliveNs is how long a peer is not asked again after it was found to have the connection, in ns.
	aliveNs = int64(5e9)
)

// verdict is what a REQ from a queue pair that is in a connection leads to.
type verdict uint8

const (
	verdictDrop   verdict = iota // nothing, for now
	verdictReject                // a REJ: stale connection
	verdictServe                 // the old connection is gone
)

// replaces judges a REQ from the queue pair of an existing connection.
func (m *Manager) replaces(now int64, c *conn, p Proof) verdict {
	switch c.state {
	case StateEstablished:
		if p == Proven && !c.encrypted {
			m.disconnect(now, c, ErrStale, nil)
			return verdictReject
		}
		m.count.Stale++
		if c.asked == 0 && now >= c.aliveUntil {
			m.askPeer(now, c)
		}
		return verdictDrop
	case StateREQRcvd, StateREPSent:
		// One of the two is forged, or the peer has restarted.
		if p > c.proof {
			m.displace(now, c)
			return verdictServe
		}
		m.count.Stale++
		return verdictDrop
	}
	return verdictReject
}

// askPeer asks whether the peer of an established connection still has it.
func (m *Manager) askPeer(now int64, c *conn) {
	c.asked++
	m.count.Asked++
	if c.active {
		m.send(c, mad.NewDREQ(c.tid, uint32(c.id), c.remote, 0).Header)
	} else {
		m.send(c, c.last) // the REP
	}
	m.setTimer(c, now+timeoutNs(m.cfg.ResponseTimeout))
}

// unanswered handles the timer of an established connection whose peer was asked.
func (m *Manager) unanswered(now int64, c *conn) {
	switch {
	case c.asked < maxAsks:
		m.askPeer(now, c)
	case c.active || c.encrypted:
		m.alive(now, c)
	default:
		c.asked = 0
		m.unbindQP(c)
		m.disconnect(now, c, ErrStale, nil)
	}
}

// alive notes that the peer has the connection.
func (m *Manager) alive(now int64, c *conn) {
	c.asked, c.aliveUntil = 0, now+aliveNs
	m.setTimer(c, 0)
}

// forgotten ends a connection that the peer does not have any more, as its answer says.
func (m *Manager) forgotten(now int64, c *conn) {
	c.asked = 0
	m.unbindQP(c)
	m.timewait(now, c, Event{Kind: Disconnected, Err: ErrStale})
}

// SetEncrypted says that the queue pair of a connection takes encrypted packets only.
func (m *Manager) SetEncrypted(id ID) {
	if c := m.live(id); c != nil {
		c.encrypted = true
	}
}
