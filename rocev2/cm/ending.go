// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"

	"github.com/softroce/softroce-xdp/rocev2/mad"
)

// Reject refuses a Request, a Reply or a ResolveRequest. private is for the peer's application, up
// to 148 bytes, or 136 for a ResolveRequest. Gone follows at once.
func (m *Manager) Reject(now int64, id ID, private []byte) error {
	c := m.live(id)
	if c == nil {
		return ErrID
	}
	kind := mad.KindREQ
	switch c.state {
	case StateREQRcvd:
	case StateREPRcvd:
		kind = mad.KindREP
	case StateSIDRRcvd:
		err := m.answer(now, c, mad.SIDRReject, 0, 0, private)
		if err == nil {
			m.count.Rejected++
		}
		return err
	default:
		return stateError("Reject", c.state)
	}
	if len(private) > mad.REJPrivateLen {
		return fmt.Errorf("cm: reject: %d bytes of private data: %w", len(private), mad.ErrPrivate)
	}
	m.count.Rejected++
	m.refuse(now, c, kind, mad.ReasonConsumer, private)
	return nil
}

// Disconnect ends a connection, or the attempt to make one. A connection in Established gets
// Disconnected, and Gone after timewait; bring its queue pair to ERR before. An attempt gets
// Failed, and then Gone. private is for the peer's application, up to 220 bytes, and only sent
// from Established.
func (m *Manager) Disconnect(now int64, id ID, private []byte) error {
	c := m.live(id)
	if c == nil {
		return ErrID
	}
	switch c.state {
	case StateREQSent:
		m.fail(now, c, ErrCanceled, mad.KindOther, mad.ReasonTimeout, nil)
	case StateREPRcvd:
		m.fail(now, c, ErrCanceled, mad.KindREP, mad.ReasonConsumer, nil)
	case StateREQRcvd:
		m.fail(now, c, ErrCanceled, mad.KindREQ, mad.ReasonConsumer, nil)
	case StateREPSent:
		m.send(c, m.rej(c, mad.KindOther, mad.ReasonConsumer, nil))
		m.timewait(now, c, Event{Kind: Failed, Err: ErrCanceled})
	case StateEstablished:
		if len(private) > mad.DREQPrivateLen {
			return fmt.Errorf("cm: disconnect: %d bytes of private data: %w", len(private), mad.ErrPrivate)
		}
		m.disconnect(now, c, nil, private)
	case StateSIDRSent:
		m.forget(c, ErrCanceled)
	case StateSIDRRcvd:
		m.event(c, Event{Kind: Failed, Err: ErrCanceled})
		return m.answer(now, c, mad.SIDRReject, 0, 0, nil)
	default: // ended already, or about to
		return stateError("Disconnect", c.state)
	}
	return nil
}

// disconnect sends a DREQ. With err, Disconnected is reported at once, because this end does not
// wait for the peer.
func (m *Manager) disconnect(now int64, c *conn, err error, private []byte) {
	dreq := mad.NewDREQ(c.tid, uint32(c.id), c.remote, c.path.Remote.QPN)
	_ = dreq.SetPrivateData(private) // the length was checked
	c.repeats, c.deadline = m.cfg.Retries, now+int64(m.cfg.Limit)
	c.interval = max(c.interval, timeoutNs(m.cfg.ResponseTimeout))
	m.ask(now, c, StateDREQSent, dreq.Header)
	if err != nil {
		m.event(c, Event{Kind: Disconnected, Err: err})
		c.reported = true
	}
}

// onDREQ ends the connection at once. The application brings its queue pair to ERR; messages of this end that the
// peer did not want any more are lost.
func (m *Manager) onDREQ(now int64, c *conn, dreq mad.DREQ) {
	if dreq.RemoteQPN() != c.path.Local.QPN {
		m.count.Unexpected++
		return
	}
	drep := mad.NewDREP(dreq.TID(), uint32(c.id), c.remote)
	switch c.state {
	case StateREPSent: // the RTU was lost
		m.established(c, nil)
		fallthrough
	case StateEstablished, StateDREQSent:
		m.send(c, drep.Header)
		m.timewait(now, c, Event{Kind: Disconnected, Private: dreq.PrivateData()})
	case StateREPRcvd:
		m.send(c, drep.Header)
		m.timewait(now, c, Event{Kind: Failed, Err: ErrHungUp})
	case StateTimewait:
		m.send(c, drep.Header)
	default:
		m.count.Unexpected++
	}
}

func (m *Manager) onDREP(now int64, c *conn, drep mad.DREP) {
	switch {
	case c.state == StateDREQSent:
		m.timewait(now, c, Event{Kind: Disconnected, Private: drep.PrivateData()})
	case c.state == StateEstablished && c.active && c.asked > 0:
		m.forgotten(now, c)
	default:
		m.count.Unexpected++
	}
}

// timewait keeps ID and QPN reserved until packets and messages of the connection are gone from
// the network (IBTA 12.9.8.1).
func (m *Manager) timewait(now int64, c *conn, e Event) {
	m.leaveHalf(c)
	c.state, c.last, c.deadline = StateTimewait, nil, 0
	m.setTimer(c, now+int64(m.cfg.Timewait))
	if e.Kind != Disconnected || !c.reported {
		m.event(c, e)
	}
}

// onREJ ends an attempt to connect. A REJ of an established connection comes from a peer that
// waited in vain for the RTU.
func (m *Manager) onREJ(now int64, c *conn, rej mad.REJ) {
	if rej.Message() == mad.KindREQ && c.state != StateREQSent {
		m.count.Unexpected++ // older than the REP that followed
		return
	}
	if rej.LocalCommID() == 0 && c.remote != 0 && c.state != StateREQSent ||
		rej.RemoteCommID() == 0 && c.state != StateREQRcvd && c.state != StateREPSent {
		m.count.Unexpected++ // the peer knows both IDs; a forger, who has guessed one, would have to guess the other too
		return
	}
	err := &RejectedError{Reason: rej.Reason(), Info: rej.Info(), Private: rej.PrivateData()}
	switch c.state {
	case StateREQSent:
		m.forget(c, err)
	case StateREQRcvd: // the peer gave up
		m.forget(c, err)
	case StateREPSent, StateREPRcvd:
		m.timewait(now, c, Event{Kind: Failed, Err: err})
	case StateEstablished:
		if c.asked > 0 {
			m.forgotten(now, c)
			return
		}
		m.timewait(now, c, Event{Kind: Disconnected, Err: err})
	case StateDREQSent:
		m.timewait(now, c, Event{Kind: Disconnected})
	default:
		m.count.Unexpected++
	}
}

// giveUp ends a state in which no answer came.
func (m *Manager) giveUp(now int64, c *conn) {
	switch c.state {
	case StateREQSent:
		m.fail(now, c, ErrTimeout, mad.KindOther, mad.ReasonTimeout, nil)
	case StateREPSent:
		m.send(c, m.rej(c, mad.KindOther, mad.ReasonTimeout, nil))
		if c.proof != Proven { // a forged REQ does not keep the queue pair of the peer from connecting
			m.unbindQP(c)
		}
		m.timewait(now, c, Event{Kind: Failed, Err: ErrTimeout})
	case StateDREQSent:
		m.timewait(now, c, Event{Kind: Disconnected})
	default: // SIDR Sent
		m.forget(c, ErrTimeout)
	}
}

// Unreachable says that messages to a peer cannot be sent, and why: attempts of this end that wait for its first
// answer get Failed with ErrUnreachable, and Gone. Connections keep to their timers: the peer may come back.
func (m *Manager) Unreachable(local, peer netip.Addr, why error) {
	local, peer = local.Unmap(), peer.Unmap()
	var waiting []ID
	for id, c := range m.conns {
		if c.peer == peer && c.local == local && c.remote == 0 && (c.state == StateREQSent || c.state == StateSIDRSent) {
			waiting = append(waiting, id)
		}
	}
	slices.Sort(waiting)
	for _, id := range waiting {
		m.forget(m.conns[id], fmt.Errorf("%w: %w", ErrUnreachable, why))
	}
}

// unserved ends a state in which the application did not answer.
func (m *Manager) unserved(now int64, c *conn) {
	switch c.state {
	case StateREQRcvd:
		m.fail(now, c, ErrUnserved, mad.KindREQ, mad.ReasonTimeout, nil)
	case StateREPRcvd:
		m.fail(now, c, ErrUnserved, mad.KindREP, mad.ReasonTimeout, nil)
	default: // SIDR Rcvd
		m.event(c, Event{Kind: Failed, Err: ErrUnserved})
		_ = m.answer(now, c, mad.SIDRNoQP, 0, 0, nil) // without private data it cannot fail
	}
}

// fail refuses with a REJ and tells the application why.
func (m *Manager) fail(now int64, c *conn, err error, k mad.Kind, r mad.Reason, private []byte) {
	m.event(c, Event{Kind: Failed, Err: err})
	m.refuse(now, c, k, r, private)
}

// refuse sends a REJ and remembers it for messages that the peer repeats.
func (m *Manager) refuse(now int64, c *conn, k mad.Kind, r mad.Reason, private []byte) {
	h := m.rej(c, k, r, private)
	m.send(c, h)
	m.answerWith(now, c, h)
}

func (m *Manager) rej(c *conn, k mad.Kind, r mad.Reason, private []byte) mad.Header {
	rej := mad.NewREJ(c.tid, uint32(c.id), c.remote, k, r)
	if r == mad.ReasonTimeout {
		// A peer that does not know our ID finds the connection by the GUID.
		_ = rej.SetInfo(binary.BigEndian.AppendUint64(nil, m.cfg.GUID(c.peer)))
	}
	_ = rej.SetPrivateData(private) // the length was checked
	return rej.Header
}

// linger is how long a peer that repeats its message after interval ns may do so.
func (m *Manager) linger(interval int64) int64 { return 2*interval + int64(m.cfg.Timewait) }

// answerWith goes to StateAnswered. The application is done with the connection.
func (m *Manager) answerWith(now int64, c *conn, h mad.Header) {
	m.leaveHalf(c)
	m.unbindQP(c)
	c.last, c.state, c.deadline = h, StateAnswered, 0
	m.answered++
	m.order = append(m.order, c.id)
	m.setTimer(c, now+c.linger)
	m.event(c, Event{Kind: Gone})
	m.limitAnswered()
}

// limitAnswered forgets the oldest answers above MaxAnswered.
func (m *Manager) limitAnswered() {
	for m.answered > m.cfg.MaxAnswered || len(m.order) > 2*m.cfg.MaxAnswered {
		if c := m.conns[m.order[0]]; c != nil && c.state == StateAnswered {
			m.count.Forgotten++
			m.remove(c)
		}
		m.order = m.order[1:]
	}
}

// repeatAnswer answers a message to a connection that was refused. A REJ is never answered, so
// that two ends do not answer each other for ever.
func (m *Manager) repeatAnswer(c *conn, h mad.Header) {
	switch h.Attr() {
	case mad.AttrREP, mad.AttrRTU:
		if c.remote == 0 { // the REP crossed our REJ
			m.setRemote(c, mad.Pair{Header: h}.LocalCommID())
		}
		p := mad.REJ{Pair: mad.Pair{Header: c.last}}
		m.send(c, m.rej(c, mad.KindREP, p.Reason(), p.PrivateData()))
	case mad.AttrDREQ:
		m.send(c, mad.NewDREP(h.TID(), uint32(c.id), c.remote).Header)
	default:
		m.count.Unexpected++
	}
}

// forget ends an attempt of which the peer needs no word.
func (m *Manager) forget(c *conn, err error) {
	m.remove(c)
	m.event(c, Event{Kind: Failed, Err: err})
	m.event(c, Event{Kind: Gone})
}
