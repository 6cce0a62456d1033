// SPDX-License-Identifier: Apache-2.0

package device

import (
	"fmt"
	"sync"

	"github.com/softroce/softroce-xdp/loader/device/limits"
	"github.com/softroce/softroce-xdp/rocev2/cm"
	"github.com/softroce/softroce-xdp/rocev2/mad"
	"github.com/softroce/softroce-xdp/rocev2/rdma/proto"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// connections is what a process has of the communication manager: one session of the engine, which
// begins with the first TCMOpen and ends with the process. TCMClose ends all listeners and
// connections; the session stays until they are gone, so that they count until then.
type connections struct {
	c *session

	mu        sync.Mutex
	session   cm.Session    // nil before the first TCMOpen
	forwarded chan struct{} // closed when forward has ended
	open      bool          // TCMOpen has come, and TCMClose has not
	ids       map[cm.ID]*connection
	listeners map[mad.ServiceID]struct{}
}

// connection is an ID of the session. It counts as a connection until it is gone.
type connection struct {
	silent bool // the process does not get its events: it was refused, or its session was closed
}

var (
	oneConnection = limits.Use{Kind: limits.Connections, N: 1}
	oneListener   = limits.Use{Kind: limits.Listeners, N: 1}
)

// maxBacklog is how many requests of a listener wait at most.
const maxBacklog = 1024

// doCM executes a call of the communication manager.
func (c *session) doCM(t proto.Type, req any) (any, error) {
	x := &c.cm
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case t == proto.TCMOpen:
		return nil, x.begin()
	case !x.open:
		return nil, fmt.Errorf("%w: open the communication manager first", proto.ErrProtocol)
	}
	switch m := req.(type) {
	case *proto.CMListen:
		return nil, x.listen(mad.ServiceID(m.Service), int(m.Backlog))
	case *proto.CMUnlisten:
		return nil, x.unlisten(mad.ServiceID(m.Service))
	case *proto.CMConnect:
		return x.connect(m)
	case *proto.CMResolve:
		return x.resolve(m)
	case *proto.CMAccept:
		return nil, x.accept(m)
	case *proto.CMAnswer:
		return nil, x.answer(m)
	case *proto.CMCall:
		return nil, x.call(t, m)
	case *proto.Handle: // TCMArrived
		if err := x.own(m.Handle); err != nil {
			return nil, err
		}
		return nil, x.session.Arrived(cm.ID(m.Handle))
	}
	return nil, x.shut()
}

// begin is TCMOpen.
func (x *connections) begin() error {
	if x.open {
		return fmt.Errorf("cm: the process has a session: %w", verbs.ErrBusy)
	}
	if x.session == nil {
		s, err := x.c.s.dev.OpenCM()
		if err != nil {
			return err
		}
		x.session, x.forwarded = s, make(chan struct{})
		x.ids, x.listeners = map[cm.ID]*connection{}, map[mad.ServiceID]struct{}{}
		go x.forward(s)
	}
	x.open = true
	return nil
}

// shut is TCMClose.
func (x *connections) shut() error {
	for id := range x.listeners {
		if err := x.unlisten(id); err != nil {
			return err
		}
	}
	for id, e := range x.ids {
		e.silent = true
		_ = x.session.Disconnect(id, nil) // refused where it has ended already
	}
	x.open = false
	return nil
}

func (x *connections) listen(id mad.ServiceID, backlog int) error {
	if err := x.c.process.mayListen(id); err != nil {
		return err
	}
	if err := x.c.charge(oneListener); err != nil {
		return err
	}
	if err := x.session.Listen(id, min(backlog, maxBacklog)); err != nil {
		x.c.account.Release(oneListener)
		return err
	}
	x.listeners[id] = struct{}{}
	return nil
}

func (x *connections) unlisten(id mad.ServiceID) error {
	if err := x.session.Unlisten(id); err != nil {
		return err
	}
	delete(x.listeners, id)
	x.c.account.Release(oneListener)
	return nil
}

func (x *connections) connect(m *proto.CMConnect) (*proto.Handle, error) {
	p, err := m.CM()
	if err != nil {
		return nil, err
	}
	if err := x.c.owns(p.QPN); err != nil {
		return nil, err
	}
	h, err := x.start(func() (cm.ID, error) { return x.session.Connect(p) })
	if err != nil {
		return nil, err
	}
	if err := x.c.owns(p.QPN); err != nil { // as in accept
		x.ids[cm.ID(h.Handle)].silent = true
		_ = x.session.Disconnect(cm.ID(h.Handle), nil)
		return nil, err
	}
	return h, nil
}

func (x *connections) resolve(m *proto.CMResolve) (*proto.Handle, error) {
	private, err := m.Private.Data()
	if err != nil {
		return nil, err
	}
	p := cm.ResolveParams{
		Local: m.Local.IP(), Peer: m.Peer.IP(), Service: mad.ServiceID(m.Service), SrcPort: m.SrcPort, Private: private,
	}
	return x.start(func() (cm.ID, error) { return x.session.Resolve(p) })
}

// start counts a new connection or resolution. Its first events wait for x.mu in forward.
func (x *connections) start(begin func() (cm.ID, error)) (*proto.Handle, error) {
	if err := x.c.charge(oneConnection); err != nil {
		return nil, err
	}
	id, err := begin()
	if err != nil {
		x.c.account.Release(oneConnection)
		return nil, err
	}
	x.ids[id] = &connection{}
	return &proto.Handle{Handle: uint32(id)}, nil
}

func (x *connections) accept(m *proto.CMAccept) error {
	private, err := m.Private.Data()
	if err != nil {
		return err
	}
	if err := x.own(m.ID); err != nil {
		return err
	}
	if err := x.c.owns(m.Path.Local.QPN); err != nil {
		return err
	}
	if err := x.session.Accept(cm.ID(m.ID), m.Path.CM(), private); err != nil {
		return err
	}
	if err := x.c.owns(m.Path.Local.QPN); err != nil { // it was destroyed meanwhile, while nobody knew of the connection
		_ = x.session.Disconnect(cm.ID(m.ID), nil)
		return err
	}
	return nil
}

func (x *connections) answer(m *proto.CMAnswer) error {
	private, err := m.Private.Data()
	if err != nil {
		return err
	}
	if err := x.own(m.ID); err != nil {
		return err
	}
	if err := x.c.owns(m.QPN); err != nil {
		return err
	}
	return x.session.Answer(cm.ID(m.ID), m.QPN, m.QKey, private)
}

func (x *connections) call(t proto.Type, m *proto.CMCall) error {
	private, err := m.Private.Data()
	if err != nil {
		return err
	}
	if err := x.own(m.ID); err != nil {
		return err
	}
	switch id := cm.ID(m.ID); t {
	case proto.TCMReady:
		return x.session.Ready(id, private)
	case proto.TCMReject:
		return x.session.Reject(id, private)
	default:
		return x.session.Disconnect(id, private)
	}
}

// own refuses IDs that the process does not know: those of others, of closed sessions, and of
// requests that were refused for it.
func (x *connections) own(id uint32) error {
	if e := x.ids[cm.ID(id)]; e == nil || e.silent {
		return cm.ErrID
	}
	return nil
}

// owns refuses queue pairs of others.
func (c *session) owns(qpn uint32) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.qpns[qpn]; ok {
		return nil
	}
	return fmt.Errorf("%w: queue pair %#x", proto.ErrHandle, qpn)
}

// forward sends the events of the session to the process. A process that does not read them has
// the service keep them, which bounds them.
func (x *connections) forward(s cm.Session) {
	defer close(x.forwarded)
	for e := range s.Events() {
		if x.keep(s, e) {
			x.c.socket.write(proto.AppendCMEvent(nil, e))
		}
	}
}

// keep counts the connections of events, and reports whether the process gets an event.
func (x *connections) keep(s cm.Session, e cm.Event) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	k := x.ids[e.ID]
	switch {
	case e.Kind == cm.Request || e.Kind == cm.ResolveRequest:
		k = &connection{silent: !x.open}
		if err := x.c.charge(oneConnection); err != nil {
			x.c.s.log.Debug("a request for a connection is rejected", "pid", x.c.process.pid, "uid", x.c.process.uid, "err", err)
			_ = s.Reject(e.ID, nil)
			return false // no other event of the ID is known: see the next case
		}
		x.ids[e.ID] = k
		if k.silent {
			_ = s.Reject(e.ID, nil)
		}
	case k == nil:
		return false
	case e.Kind == cm.Gone:
		delete(x.ids, e.ID)
		x.c.account.Release(oneConnection)
	}
	return !k.silent
}

// close ends the session. Peers are told while the queue pairs still exist.
func (x *connections) close() {
	x.mu.Lock()
	s := x.session
	x.mu.Unlock()
	if s != nil {
		_ = s.Close()
		<-x.forwarded
	}
}
