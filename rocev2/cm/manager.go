// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"fmt"
	"net/netip"

	"github.com/softroce/softroce-xdp/rocev2/internal/share"
	"github.com/softroce/softroce-xdp/rocev2/mad"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Manager is the communication manager of one end. It belongs to one goroutine.
type Manager struct {
	cfg       Config
	listeners map[mad.ServiceID]*listener
	conns     map[ID]*conn
	byPeer    map[peerKey]*conn  // passive ones
	byQP      map[qpKey]*conn    // connections whose peer's queue pair is known
	half      share.Table[*conn] // requests that are no connections yet
	timers    timers
	answered  int  // connections in StateAnswered
	order     []ID // connections that entered StateAnswered, oldest first; some may be gone
	out       []Action
	count     Counters
}

// Counters count what a Manager did not act on.
type Counters struct {
	Malformed  uint64 // messages that are no valid MADs of communication management
	Unowned    uint64 // messages that belong to no connection and no listener
	Unexpected uint64 // messages that do not fit the state of their connection
	Overflow   uint64 // requests dropped because the backlog of their listener was full
	Rejected   uint64 // requests and replies that the application rejected, those with a wrong key among them
	Displaced  uint64 // requests that have given way to others
	Stale      uint64 // REQs dropped because the queue pair of their sender has a connection, which they do not end
	Asked      uint64 // messages that ask a peer whether it has the connection
	Forgotten  uint64 // refused requests no longer remembered because of MaxAnswered
	Repeated   uint64 // messages sent again because no answer came
}

// New returns a Manager without connections.
func New(c Config) *Manager {
	c = c.complete()
	return &Manager{
		cfg: c, half: newHalf(c.MaxConns), listeners: map[mad.ServiceID]*listener{}, conns: map[ID]*conn{},
		byPeer: map[peerKey]*conn{}, byQP: map[qpKey]*conn{},
	}
}

// Take returns what is to be done since the last call, in order. The slice is the caller's.
func (m *Manager) Take() []Action {
	out := m.out
	m.out = nil
	return out
}

// Counters returns the counters.
func (m *Manager) Counters() Counters { return m.count }

// Len is the number of connections and resolutions, those in timewait included.
func (m *Manager) Len() int { return len(m.conns) }

// State returns the state of a connection; ok is false if there is none.
func (m *Manager) State(id ID) (s State, ok bool) {
	c := m.live(id)
	if c == nil {
		return 0, false
	}
	return c.state, true
}

// Listen has requests for a service ID reported as events. Up to backlog of them wait for the
// application at a time, or DefaultBacklog for 0; more are dropped, and their senders repeat them.
func (m *Manager) Listen(id mad.ServiceID, backlog int) error {
	if m.listeners[id] != nil {
		return fmt.Errorf("%w: %s", ErrInUse, id)
	}
	if backlog <= 0 {
		backlog = DefaultBacklog
	}
	m.listeners[id] = newListener(backlog)
	m.steer(KeyService{id}, true)
	return nil
}

// Unlisten refuses requests for a service ID from now on. Requests that wait for the application
// stay valid.
func (m *Manager) Unlisten(id mad.ServiceID) {
	if m.listeners[id] != nil {
		delete(m.listeners, id)
		m.steer(KeyService{id}, false)
	}
}

// Owns reports whether a message that arrived from src belongs to this Manager: it is for one of
// its listeners or for one of its connections. Queue pair 1 may have another owner for the rest.
func (m *Manager) Owns(src netip.Addr, b []byte) bool {
	h, err := mad.Parse(b)
	if err != nil {
		return false
	}
	switch h.Attr() {
	case mad.AttrREQ:
		r := mad.REQ{Header: h}
		return m.listeners[r.ServiceID()] != nil || m.byPeer[reqKey(src.Unmap(), r)] != nil
	case mad.AttrSIDRREQ:
		r := mad.SIDRREQ{Header: h}
		return m.listeners[r.ServiceID()] != nil || m.byPeer[sidrKey(src.Unmap(), r)] != nil
	}
	return m.find(src.Unmap(), h) != nil
}

// Receive takes a message of size mad.Len that arrived at queue pair 1 from src, at the address
// dst of this host; proof says how far src can be believed. What is not valid is counted, and answered with a REJ
// where the standard asks for one.
func (m *Manager) Receive(now int64, src, dst netip.Addr, b []byte, proof Proof) {
	src, dst = src.Unmap(), dst.Unmap()
	h, err := mad.Parse(b)
	if err != nil || !src.IsValid() || !dst.IsValid() {
		m.count.Malformed++
		return
	}
	switch h.Attr() {
	case mad.AttrREQ:
		m.onREQ(now, src, dst, mad.REQ{Header: h}, proof)
		return
	case mad.AttrSIDRREQ:
		m.onSIDRREQ(now, src, dst, mad.SIDRREQ{Header: h}, proof)
		return
	}
	c := m.find(src, h)
	if c == nil {
		m.onUnowned(src, dst, h)
		return
	}
	if c.state == StateAnswered {
		m.repeatAnswer(c, h)
		return
	}
	switch p := (mad.Pair{Header: h}); h.Attr() {
	case mad.AttrREP:
		m.onREP(now, c, mad.REP{Pair: p})
	case mad.AttrRTU:
		m.onRTU(now, c, mad.RTU{Pair: p})
	case mad.AttrMRA:
		m.onMRA(now, c, mad.MRA{Pair: p})
	case mad.AttrREJ:
		m.onREJ(now, c, mad.REJ{Pair: p})
	case mad.AttrDREQ:
		m.onDREQ(now, c, mad.DREQ{Pair: p})
	case mad.AttrDREP:
		m.onDREP(now, c, mad.DREP{Pair: p})
	case mad.AttrSIDRREP:
		m.onSIDRREP(now, c, mad.SIDRREP{Header: h})
	}
}

// find returns the connection that a message other than REQ and SIDR_REQ belongs to, or nil. The
// communication IDs of both ends and the address must be right.
func (m *Manager) find(src netip.Addr, h mad.Header) *conn {
	switch h.Attr() {
	case mad.AttrSIDRREP:
		c := m.conns[ID(mad.SIDRREP{Header: h}.RequestID())]
		if c != nil && c.peer == src && c.state == StateSIDRSent {
			return c
		}
		return nil
	case mad.AttrREP, mad.AttrRTU, mad.AttrMRA, mad.AttrREJ, mad.AttrDREQ, mad.AttrDREP:
	default:
		return nil
	}
	p := mad.Pair{Header: h}
	if p.RemoteCommID() == 0 {
		return m.findByGUID(src, mad.REJ{Pair: p})
	}
	c := m.conns[ID(p.RemoteCommID())]
	if c == nil || c.peer != src || c.path.Type == verbs.UD {
		return nil
	}
	remote := p.LocalCommID()
	// The peer's ID is not known before its REP or MRA. A REJ of a REQ may come without one.
	if c.remote != 0 && remote != c.remote && !(remote == 0 && h.Attr() == mad.AttrREJ) {
		return nil
	}
	return c
}

// findByGUID finds the connection of a REJ from a peer that never learned our ID: its additional
// information is the GUID of the sender.
func (m *Manager) findByGUID(src netip.Addr, rej mad.REJ) *conn {
	if rej.Attr() != mad.AttrREJ || rej.Reason() != mad.ReasonTimeout || len(rej.Info()) < 8 {
		return nil
	}
	return m.byPeer[peerKey{addr: src, guid: be64(rej.Info()), id: rej.LocalCommID()}]
}

// onUnowned answers what belongs to nobody, if nobody else could be the owner.
func (m *Manager) onUnowned(src, dst netip.Addr, h mad.Header) {
	m.count.Unowned++
	p := mad.Pair{Header: h}
	var answer mad.Header
	switch h.Attr() {
	case mad.AttrREP:
		answer = mad.NewREJ(h.TID(), p.RemoteCommID(), p.LocalCommID(), mad.KindREP, mad.ReasonInvalidCommID).Header
	case mad.AttrDREQ:
		answer = mad.NewDREP(h.TID(), p.RemoteCommID(), p.LocalCommID()).Header
	default:
		return
	}
	if m.cfg.Alone() {
		m.sendTo(dst, src, answer)
	}
}

// Next returns when Expire has something to do; ok is false if never.
func (m *Manager) Next() (at int64, ok bool) {
	if len(m.timers) == 0 {
		return 0, false
	}
	return m.timers[0].timerAt, true
}

// Expire does what is due at now.
func (m *Manager) Expire(now int64) {
	for len(m.timers) > 0 && m.timers[0].timerAt <= now {
		m.expire(now, m.timers[0])
	}
}

// expire handles the timer of a connection. It sets the timer to a later time or removes the
// connection, so that Expire ends.
func (m *Manager) expire(now int64, c *conn) {
	switch c.state {
	case StateREQSent, StateREPSent, StateDREQSent, StateSIDRSent:
		if c.repeats > 0 && (c.deadline == 0 || now < c.deadline) {
			c.repeats--
			m.count.Repeated++
			m.send(c, c.last)
			m.setTimer(c, m.nextRepeat(now, c))
			return
		}
		m.giveUp(now, c)
	case StateREQRcvd, StateREPRcvd, StateSIDRRcvd:
		m.unserved(now, c)
	case StateEstablished:
		m.unanswered(now, c)
	default: // Timewait, Answered
		answered := c.state == StateAnswered
		m.remove(c)
		if !answered {
			m.event(c, Event{Kind: Gone})
		}
	}
}

// nextRepeat is when the timer of a message that was just sent fires.
func (m *Manager) nextRepeat(now int64, c *conn) int64 {
	at := now + c.interval
	if c.deadline != 0 {
		at = min(at, max(c.deadline, now+1))
	}
	return at
}

// ask sends a message that is repeated until an answer comes.
func (m *Manager) ask(now int64, c *conn, to State, h mad.Header) {
	c.state, c.last = to, h
	m.send(c, h)
	m.setTimer(c, m.nextRepeat(now, c))
}

func (m *Manager) send(c *conn, h mad.Header) { m.sendTo(c.local, c.peer, h) }

// sendTo queues a copy: the message may be repeated later while the owner still has this one.
func (m *Manager) sendTo(local, peer netip.Addr, h mad.Header) {
	m.out = append(m.out, Send{local, peer, append(mad.Header(nil), h...)})
}

func (m *Manager) event(c *conn, e Event) {
	e.ID = c.id
	m.out = append(m.out, e)
}
