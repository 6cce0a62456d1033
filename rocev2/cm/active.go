// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/mad"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// ConnectParams are what Connect needs.
type ConnectParams struct {
	Local, Peer netip.Addr
	Service     mad.ServiceID
	SrcPort     uint16       // port of this end; only with the service ID of an IP port
	Type        verbs.QPType // RC (default) or UC
	QPN         uint32
	PSN         rocev2.PSN // PSN of the first packet that the peer sends
	SRQ         bool       // the queue pair takes its receives from an SRQ

	// Attr are the attributes of the queue pair; verbs.DefaultAttr is a start. MaxRdAtomic and
	// MaxDestRdAtomic are what this end wants, and change to what both agree on. Timeout, RetryCnt
	// and RNRRetry are also what the peer shall use. Timeout stays as it is also if the peer's
	// AckDelay is longer: adapters announce 134 ms and more, and answer within microseconds. A
	// Timeout of 0, for none, is this end's alone: the peer gets that of verbs.DefaultAttr.
	Attr verbs.Attr

	// Private is for the peer's application: up to 56 bytes with the service ID of an IP port, 92
	// otherwise.
	Private []byte
}

// Connect asks a peer for a connection. Reply or Failed follows within Config.Limit.
func (m *Manager) Connect(now int64, p ConnectParams) (ID, error) {
	p.Local, p.Peer = p.Local.Unmap(), p.Peer.Unmap()
	if p.Type == 0 {
		p.Type = verbs.RC
	}
	if err := p.check(); err != nil {
		return 0, err
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
		path: Path{
			Type: p.Type, Local: verbs.Endpoint{Addr: p.Local, QPN: p.QPN},
			Remote: verbs.Endpoint{Addr: p.Peer, PSN: p.PSN}, Attr: p.Attr,
		},
		interval: timeoutNs(m.cfg.ResponseTimeout), repeats: m.cfg.Retries, deadline: now + int64(m.cfg.Limit),
		linger: m.linger(timeoutNs(m.cfg.ResponseTimeout)),
	})
	c.tid = uint64(c.id)
	req, err := m.newREQ(c, p, private)
	if err != nil {
		m.remove(c)
		return 0, err
	}
	m.ask(now, c, StateREQSent, req)
	return c.id, nil
}

func (p *ConnectParams) check() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf("cm: connect: "+format, args...)) }
	if !ofHosts(p.Local, p.Peer) {
		bad("from %s to %s: give two IPv4 or two IPv6 addresses of hosts", p.Local, p.Peer)
	}
	if p.Type != verbs.RC && p.Type != verbs.UC {
		bad("%s queue pair: only RC and UC connect; Resolve finds UD queue pairs", p.Type)
	}
	if !validQPN(p.QPN) {
		bad("QPN %#x: give the number of a queue pair, 0x2 to 0xfffffe", p.QPN)
	}
	if !p.Attr.PMTU.Valid() {
		bad("PMTU is %d, must be 1 to 5 for 256 to 4096 bytes", p.Attr.PMTU)
	}
	if uint32(p.PSN) > rocev2.PSNMask {
		bad("PSN %#x has more than 24 bits", p.PSN)
	}
	if p.Attr.Timeout > 31 || p.Attr.RetryCnt > 7 || p.Attr.RNRRetry > 7 {
		bad("Timeout %d, RetryCnt %d, RNRRetry %d: the largest are 31, 7 and 7", p.Attr.Timeout, p.Attr.RetryCnt, p.Attr.RNRRetry)
	}
	return errors.Join(errs...)
}

// ofHosts tells whether two addresses can be those of a connection: of one IP version, and neither
// unspecified nor multicast, where no host would answer.
func ofHosts(local, peer netip.Addr) bool {
	host := func(a netip.Addr) bool { return a.IsValid() && !a.IsUnspecified() && !a.IsMulticast() }
	return host(local) && host(peer) && local.Is4() == peer.Is4()
}

// validQPN tells whether a queue pair that connects can have the number: 0 and 1 are for
// management, 0xFFFFFF is multicast.
func validQPN(qpn uint32) bool { return qpn > mad.QPN && qpn < 0xFFFFFF }

// ipPrivate puts the IP addressing header in front of private data where the service ID wants it.
func ipPrivate(id mad.ServiceID, local, peer netip.Addr, port uint16, private []byte) ([]byte, error) {
	if _, _, ok := id.IP(); !ok {
		return private, nil
	}
	b, err := mad.IPData{Src: local, Dst: peer, SrcPort: port}.Append(nil)
	return append(b, private...), err
}

func (m *Manager) newREQ(c *conn, p ConnectParams, private []byte) (mad.Header, error) {
	r := mad.NewREQ(c.tid)
	r.SetLocalCommID(uint32(c.id))
	r.SetServiceID(p.Service)
	r.SetCAGUID(m.cfg.GUID(c.peer))
	r.SetQPN(p.QPN)
	r.SetPSN(p.PSN)
	if p.Type == verbs.UC {
		r.SetService(mad.ServiceUC)
	} else {
		r.SetResponderResources(p.Attr.MaxDestRdAtomic)
		r.SetInitiatorDepth(p.Attr.MaxRdAtomic)
	}
	r.SetRemoteResponseTimeout(m.cfg.ResponseTimeout)
	r.SetLocalResponseTimeout(m.cfg.ResponseTimeout)
	r.SetMaxRetries(m.cfg.Retries)
	r.SetRetryCount(p.Attr.RetryCnt)
	r.SetRNRRetry(p.Attr.RNRRetry)
	r.SetPMTU(p.Attr.PMTU)
	r.SetSRQ(p.SRQ)
	r.SetPath(p.Local, p.Peer)
	r.SetTrafficClass(p.Attr.AV.TClass)
	r.SetHopLimit(rocev2.DefaultTTL)
	timeout := p.Attr.Timeout
	if timeout == 0 { // Linux would take the shortest one
		timeout = verbs.DefaultAttr().Timeout
	}
	r.SetAckTimeout(timeout)
	if err := r.SetPrivateData(private); err != nil {
		return nil, fmt.Errorf("cm: connect: %d bytes of private data: %w", len(p.Private), err)
	}
	return r.Header, nil
}

// onREP takes the peer's answer to a REQ. A repeated REP means that the RTU was lost, or that the
// application is slow.
func (m *Manager) onREP(now int64, c *conn, rep mad.REP) {
	switch {
	case c.state == StateREQSent:
		m.firstREP(now, c, rep)
	case c.state == StateREPRcvd:
		m.sendMRA(now, c, mad.KindREP)
	case c.state == StateEstablished && c.active:
		m.send(c, c.last)
	default:
		m.count.Unexpected++
	}
}

func (m *Manager) firstREP(now int64, c *conn, rep mad.REP) {
	if rep.LocalCommID() == 0 {
		m.count.Malformed++
		return
	}
	m.setRemote(c, rep.LocalCommID())
	c.guid = rep.CAGUID()
	a := &c.path.Attr
	// The peer gives what it will have outstanding. More than was asked for is fine as long as the
	// device serves it.
	depth := rep.InitiatorDepth()
	reason := mad.Reason(0)
	switch {
	case !validQPN(rep.QPN()):
		reason = mad.ReasonUnsupported
	case depth > MaxRdAtomic:
		reason = mad.ReasonResponderResources
	}
	if reason != 0 {
		m.fail(now, c, fmt.Errorf("%w: %s", ErrReply, reason), mad.KindREP, reason, nil)
		return
	}
	c.path.Remote.QPN, c.path.Local.PSN = rep.QPN(), rep.PSN()
	if c.path.Type == verbs.RC {
		a.MaxRdAtomic = min(a.MaxRdAtomic, rep.ResponderResources())
		a.MaxDestRdAtomic = depth
		a.RNRRetry = rep.RNRRetry()
	}
	if m.byQP[c.qpKey()] != nil {
		m.fail(now, c, ErrStale, mad.KindREP, mad.ReasonStaleConnection, nil)
		return
	}
	m.byQP[c.qpKey()] = c
	m.await(now, c, StateREPRcvd)
	m.event(c, Event{Kind: Reply, Path: c.path, Private: rep.PrivateData()})
}

// MaxRdAtomic is the most READs and ATOMICs that a peer may have outstanding.
const MaxRdAtomic = 128

// await gives the application its time to answer.
func (m *Manager) await(now int64, c *conn, s State) {
	c.state = s
	c.deadline = now + int64(m.cfg.AnswerTimeout)
	m.setTimer(c, c.deadline)
}

// Ready ends the connecting of the active end: its queue pair is in RTS. private is for the
// peer's application, up to 224 bytes.
func (m *Manager) Ready(now int64, id ID, private []byte) error {
	c := m.live(id)
	switch {
	case c == nil:
		return ErrID
	case c.state != StateREPRcvd:
		return stateError("Ready", c.state)
	}
	rtu := mad.NewRTU(c.tid, uint32(c.id), c.remote)
	if err := rtu.SetPrivateData(private); err != nil {
		return fmt.Errorf("cm: ready: %d bytes of private data: %w", len(private), err)
	}
	c.last = rtu.Header
	m.send(c, c.last)
	m.established(c, nil)
	return nil
}

func (m *Manager) established(c *conn, private []byte) {
	m.leaveHalf(c)
	c.state, c.deadline = StateEstablished, 0
	m.setTimer(c, 0)
	m.event(c, Event{Kind: Established, Private: private})
}

// onMRA waits longer for a REP or an RTU, but never beyond the deadline.
func (m *Manager) onMRA(now int64, c *conn, mra mad.MRA) {
	switch {
	case c.state == StateREQSent && mra.Message() == mad.KindREQ && mra.LocalCommID() != 0:
		m.setRemote(c, mra.LocalCommID())
	case c.state == StateREPSent && mra.Message() == mad.KindREP:
	default:
		m.count.Unexpected++
		return
	}
	m.setTimer(c, min(now+timeoutNs(mra.ServiceTimeout())+c.interval, c.deadline))
}

// sendMRA asks the peer for patience until the application's time is over.
func (m *Manager) sendMRA(now int64, c *conn, k mad.Kind) {
	mra := mad.NewMRA(c.tid, uint32(c.id), c.remote, k)
	mra.SetServiceTimeout(timeoutCode(c.deadline - now))
	m.send(c, mra.Header)
}

func be64(b []byte) uint64 { return binary.BigEndian.Uint64(b) }
