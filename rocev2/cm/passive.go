// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"fmt"
	"net/netip"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/mad"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// full reports whether no more connections fit.
func (m *Manager) full() bool { return len(m.conns)-m.answered >= m.cfg.MaxConns }

func (m *Manager) onREQ(now int64, src, dst netip.Addr, r mad.REQ, proof Proof) {
	if c := m.byPeer[reqKey(src, r)]; c != nil {
		m.repeatedREQ(now, c, r)
		return
	}
	l := m.listeners[r.ServiceID()]
	reject := func(reason mad.Reason, info ...byte) {
		rej := mad.NewREJ(r.TID(), 0, r.LocalCommID(), mad.KindREQ, reason)
		_ = rej.SetInfo(info) // one byte
		m.sendTo(dst, src, rej.Header)
	}
	if l == nil {
		m.count.Unowned++
		if m.cfg.Alone() {
			reject(mad.ReasonInvalidServiceID)
		}
		return
	}
	data, private, reason := checkREQ(src, dst, r)
	if reason != 0 {
		reject(reason)
		return
	}
	if old := m.byQP[qpKey{src, r.CAGUID(), r.QPN()}]; old != nil {
		switch m.replaces(now, old, proof) {
		case verdictReject:
			reject(mad.ReasonStaleConnection)
			return
		case verdictDrop:
			return
		}
	}
	c := m.requested(src, dst, r, proof)
	switch {
	case r.PMTU() > m.cfg.MaxPMTU:
		reject(mad.ReasonInvalidMTU, byte(m.cfg.MaxPMTU))
	case m.full():
		reject(mad.ReasonNoResources)
	case !m.admit(now, l, c):
		m.count.Overflow++
	default:
		m.add(c)
		m.setPeer(c)
		m.byQP[c.qpKey()] = c
		m.await(now, c, StateREQRcvd)
		m.event(c, Event{Kind: Request, Service: c.service, SrcPort: data.SrcPort, Path: c.path, Private: private})
	}
}

// checkREQ returns why a REQ cannot be served, or 0 with its IP addressing header and the private
// data behind it.
func checkREQ(src, dst netip.Addr, r mad.REQ) (d mad.IPData, private []byte, reason mad.Reason) {
	switch {
	case r.Service() > mad.ServiceUC || r.ExtendedTransport() != 0:
		return d, nil, mad.ReasonInvalidService
	case r.LocalCommID() == 0:
		return d, nil, mad.ReasonInvalidCommID
	case !validQPN(r.QPN()):
		return d, nil, mad.ReasonUnsupported
	// The data goes where the REQ says; only its sender may be there.
	case r.LocalGID() != src || r.RemoteGID() != dst:
		return d, nil, mad.ReasonInvalidGID
	case !r.PMTU().Valid():
		return d, nil, mad.ReasonInvalidMTU
	}
	return ipData(r.ServiceID(), dst, r.PrivateData())
}

// ipData reads the IP addressing header of private data, if the service ID says that it is there.
func ipData(id mad.ServiceID, dst netip.Addr, private []byte) (d mad.IPData, rest []byte, reason mad.Reason) {
	if _, _, ok := id.IP(); !ok {
		return d, private, 0
	}
	d, rest, err := mad.ParseIPData(private)
	switch {
	case err != nil:
		return d, nil, mad.ReasonUnsupported
	case d.Dst.Unmap() != dst:
		return d, nil, mad.ReasonInvalidGID
	}
	return d, rest, 0
}

// maxREPs is how often a REP is sent for one REQ whose sender has proved nothing, before its RTU. Where a tenth of the messages is lost,
// one attempt of 4000 fails by it.
const maxREPs = 5

// requested makes the connection of a REQ.
func (m *Manager) requested(src, dst netip.Addr, r mad.REQ, proof Proof) *conn {
	a := verbs.DefaultAttr()
	a.PMTU, a.AV.TClass = r.PMTU(), r.TrafficClass()
	a.RetryCnt, a.RNRRetry = r.RetryCount(), r.RNRRetry()
	if r.AckTimeout() != 0 {
		a.Timeout = r.AckTimeout()
	}
	a.MaxRdAtomic = min(r.ResponderResources(), MaxRdAtomic)
	a.MaxDestRdAtomic = min(r.InitiatorDepth(), MaxRdAtomic)
	t := verbs.RC
	if r.Service() == mad.ServiceUC {
		t = verbs.UC
	}
	repeats := max(r.MaxRetries(), 1)
	if proof != Proven { // the REPs may go to a host that has sent no REQ
		repeats = min(repeats, maxREPs-1)
	}
	return &conn{
		proof: proof, local: dst, peer: src, remote: r.LocalCommID(), guid: r.CAGUID(), tid: r.TID(), service: r.ServiceID(),
		path: Path{
			Type: t, Local: verbs.Endpoint{Addr: dst, PSN: r.PSN()}, Remote: verbs.Endpoint{Addr: src, QPN: r.QPN()}, Attr: a,
		},
		interval: peerTimeoutNs(r.LocalResponseTimeout()), repeats: repeats,
		linger: m.linger(peerTimeoutNs(r.RemoteResponseTimeout())),
	}
}

// repeatedREQ answers a REQ that arrived before.
func (m *Manager) repeatedREQ(now int64, c *conn, r mad.REQ) {
	switch c.state {
	case StateREQRcvd:
		m.sendMRA(now, c, mad.KindREQ)
	case StateREPSent, StateAnswered:
		m.send(c, c.last)
	case StateTimewait:
		m.send(c, mad.NewREJ(r.TID(), 0, c.remote, mad.KindREQ, mad.ReasonStaleConnection).Header)
	default: // a late copy: the peer has our REP
		m.count.Unexpected++
	}
}

// Accept accepts a Request. p is the Path of the event with Local.QPN and Remote.PSN set; its
// queue pair is in RTS already, so that no message of the peer is lost. MaxRdAtomic and
// MaxDestRdAtomic may be lower than in the event. private is for the peer's application, up to
// 196 bytes. Established or Failed follows.
func (m *Manager) Accept(now int64, id ID, p Path, private []byte) error {
	c := m.live(id)
	switch {
	case c == nil:
		return ErrID
	case c.state != StateREQRcvd:
		return stateError("Accept", c.state)
	case !validQPN(p.Local.QPN):
		return fmt.Errorf("cm: accept: QPN %#x: give the number of a queue pair, 0x2 to 0xfffffe", p.Local.QPN)
	case uint32(p.Remote.PSN) > rocev2.PSNMask:
		return fmt.Errorf("cm: accept: PSN %#x has more than 24 bits", p.Remote.PSN)
	case p.Attr.MaxRdAtomic > c.path.Attr.MaxRdAtomic || p.Attr.MaxDestRdAtomic > c.path.Attr.MaxDestRdAtomic:
		return fmt.Errorf("cm: accept: MaxRdAtomic %d and MaxDestRdAtomic %d, the peer has %d and %d",
			p.Attr.MaxRdAtomic, p.Attr.MaxDestRdAtomic, c.path.Attr.MaxRdAtomic, c.path.Attr.MaxDestRdAtomic)
	}
	rep := mad.NewREP(c.tid, uint32(c.id), c.remote)
	rep.SetQPN(p.Local.QPN)
	rep.SetPSN(p.Remote.PSN)
	if c.path.Type == verbs.RC {
		rep.SetResponderResources(p.Attr.MaxDestRdAtomic)
		rep.SetInitiatorDepth(p.Attr.MaxRdAtomic)
	}
	rep.SetTargetAckDelay(m.cfg.AckDelay)
	rep.SetRNRRetry(verbs.DefaultAttr().RNRRetry)
	rep.SetCAGUID(m.cfg.GUID(c.peer))
	if err := rep.SetPrivateData(private); err != nil {
		return fmt.Errorf("cm: accept: %d bytes of private data: %w", len(private), err)
	}
	m.leaveBacklog(c)
	c.path.Local.QPN, c.path.Remote.PSN = p.Local.QPN, p.Remote.PSN
	c.deadline = now + int64(m.cfg.Limit)
	m.ask(now, c, StateREPSent, rep.Header)
	return nil
}

// onRTU ends the connecting of the passive end.
func (m *Manager) onRTU(now int64, c *conn, rtu mad.RTU) {
	switch {
	case c.state == StateREPSent:
		m.established(c, rtu.PrivateData())
	case c.state == StateEstablished && !c.active && c.asked > 0:
		m.alive(now, c)
	default: // a copy
		m.count.Unexpected++
	}
}

// Arrived says that a message arrived at the queue pair of an accepted connection: the peer is
// ready, even if its RTU was lost (IBTA 12.9.7.2, communication established).
func (m *Manager) Arrived(id ID) {
	if c := m.live(id); c != nil && c.state == StateREPSent {
		m.established(c, nil)
	}
}
