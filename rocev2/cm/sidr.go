// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"fmt"
	"net/netip"

	"github.com/softroce/softroce-xdp/rocev2/mad"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// ResolveParams are what Resolve needs.
type ResolveParams struct {
	Local, Peer netip.Addr
	Service     mad.ServiceID
	SrcPort     uint16 // port of this end; only with the service ID of an IP port

	// Private is for the peer's application: up to 180 bytes with the service ID of an IP port,
	// 216 otherwise.
	Private []byte
}

// Resolve asks a peer for the UD queue pair of a service. Resolved or Failed follows within
// Config.Limit, and then Gone.
func (m *Manager) Resolve(now int64, p ResolveParams) (ID, error) {
	p.Local, p.Peer = p.Local.Unmap(), p.Peer.Unmap()
	if !ofHosts(p.Local, p.Peer) {
		return 0, fmt.Errorf("cm: resolve: from %s to %s: give two IPv4 or two IPv6 addresses of hosts", p.Local, p.Peer)
	}
	private, err := ipPrivate(p.Service, p.Local, p.Peer, p.SrcPort, p.Private)
	if err != nil {
		return 0, err
	}
	if m.full() {
		return 0, ErrTooMany
	}
	c := m.add(&conn{
		active: true, local: p.Local, peer: p.Peer, service: p.Service,
		path:     Path{Type: verbs.UD, Local: verbs.Endpoint{Addr: p.Local}, Remote: verbs.Endpoint{Addr: p.Peer}},
		interval: timeoutNs(m.cfg.ResponseTimeout), repeats: m.cfg.Retries, deadline: now + int64(m.cfg.Limit),
	})
	c.tid = uint64(c.id)
	req := mad.NewSIDRREQ(c.tid, uint32(c.id), p.Service)
	if err := req.SetPrivateData(private); err != nil {
		m.remove(c)
		return 0, fmt.Errorf("cm: resolve: %d bytes of private data: %w", len(p.Private), err)
	}
	m.ask(now, c, StateSIDRSent, req.Header)
	return c.id, nil
}

func (m *Manager) onSIDRREP(_ int64, c *conn, rep mad.SIDRREP) {
	if s := rep.Status(); s != mad.SIDRSuccess || !validQPN(rep.QPN()) {
		m.forget(c, &UnresolvedError{Status: s, Private: rep.PrivateData()})
		return
	}
	c.path.Remote.QPN, c.path.Remote.QKey = rep.QPN(), rep.QKey()
	m.remove(c)
	m.event(c, Event{Kind: Resolved, Path: c.path, Private: rep.PrivateData()})
	m.event(c, Event{Kind: Gone})
}

func (m *Manager) onSIDRREQ(now int64, src, dst netip.Addr, r mad.SIDRREQ, proof Proof) {
	if c := m.byPeer[sidrKey(src, r)]; c != nil {
		if c.state == StateAnswered {
			m.send(c, c.last)
		}
		return // the application has not answered yet
	}
	l := m.listeners[r.ServiceID()]
	if l == nil {
		m.count.Unowned++
		if m.cfg.Alone() {
			m.sendTo(dst, src, mad.NewSIDRREP(r.TID(), r.RequestID(), mad.SIDRUnsupported, r.ServiceID()).Header)
		}
		return
	}
	c := &conn{
		proof: proof, local: dst, peer: src, remote: r.RequestID(), tid: r.TID(), service: r.ServiceID(),
		path:   Path{Type: verbs.UD, Local: verbs.Endpoint{Addr: dst}, Remote: verbs.Endpoint{Addr: src}},
		linger: m.linger(timeoutNs(m.cfg.ResponseTimeout)),
	}
	data, private, reason := ipData(r.ServiceID(), dst, r.PrivateData())
	switch {
	case reason != 0:
		m.sendTo(dst, src, mad.NewSIDRREP(r.TID(), r.RequestID(), mad.SIDRReject, r.ServiceID()).Header)
	case m.full():
		m.sendTo(dst, src, mad.NewSIDRREP(r.TID(), r.RequestID(), mad.SIDRNoQP, r.ServiceID()).Header)
	case !m.admit(now, l, c):
		m.count.Overflow++
	default:
		m.add(c)
		m.await(now, c, StateSIDRRcvd)
		m.setPeer(c)
		m.event(c, Event{Kind: ResolveRequest, Service: c.service, SrcPort: data.SrcPort, Path: c.path, Private: private})
	}
}

// Answer answers a ResolveRequest with a UD queue pair and its key. private is for the peer's
// application, up to 136 bytes. Gone follows at once.
func (m *Manager) Answer(now int64, id ID, qpn, qkey uint32, private []byte) error {
	c := m.live(id)
	switch {
	case c == nil:
		return ErrID
	case c.state != StateSIDRRcvd:
		return stateError("Answer", c.state)
	case !validQPN(qpn):
		return fmt.Errorf("cm: answer: QPN %#x: give the number of a queue pair, 0x2 to 0xfffffe", qpn)
	}
	return m.answer(now, c, mad.SIDRSuccess, qpn, qkey, private)
}

func (m *Manager) answer(now int64, c *conn, s mad.SIDRStatus, qpn, qkey uint32, private []byte) error {
	rep := mad.NewSIDRREP(c.tid, c.remote, s, c.service)
	rep.SetQP(qpn, qkey)
	if err := rep.SetPrivateData(private); err != nil {
		return fmt.Errorf("cm: answer: %d bytes of private data: %w", len(private), err)
	}
	m.send(c, rep.Header)
	m.answerWith(now, c, rep.Header)
	return nil
}
