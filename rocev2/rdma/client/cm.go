// SPDX-License-Identifier: Apache-2.0

package client

import (
	"fmt"
	"sync"

	"github.com/softroce/softroce-xdp/rocev2/cm"
	"github.com/softroce/softroce-xdp/rocev2/mad"
	"github.com/softroce/softroce-xdp/rocev2/rdma/proto"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

var _ cm.Connector = (*Device)(nil)

// connections is the session of the communication manager, of which a device has one at a time.
type connections struct {
	calls sync.Mutex // held while a session begins or ends
	mu    sync.Mutex
	now   *session // nil: none
}

// OpenCM implements cm.Connector. A device has one session at a time: while there is one, the error
// wraps verbs.ErrBusy.
func (d *Device) OpenCM() (cm.Session, error) {
	c := &d.cm
	c.calls.Lock()
	defer c.calls.Unlock()
	if err := d.alive(); err != nil {
		return nil, err
	}
	x := &session{d: d, events: make(chan cm.Event), ended: make(chan struct{}), pumped: make(chan struct{}), more: make(chan struct{}, 1)}
	c.mu.Lock()
	if c.now != nil {
		c.mu.Unlock()
		return nil, fmt.Errorf("cm: the device has a session, use it or close it: %w", verbs.ErrBusy)
	}
	c.now = x
	c.mu.Unlock()
	if err := d.plain(proto.TCMOpen, nil, nil); err != nil {
		c.forget()
		return nil, err
	}
	go x.pump()
	return x, nil
}

func (c *connections) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = nil
}

// event passes an event of the server to the session. It does not wait.
func (c *connections) event(body []byte) {
	e, err := proto.DecodeCMEvent(body)
	if err != nil {
		return
	}
	c.mu.Lock()
	x := c.now
	c.mu.Unlock()
	if x != nil {
		x.add(e)
	}
}

// session implements cm.Session.
type session struct {
	d      *Device
	events chan cm.Event
	ended  chan struct{} // closed by Close
	pumped chan struct{} // closed when pump has ended
	once   sync.Once

	mu    sync.Mutex
	queue []cm.Event
	more  chan struct{}
}

var _ cm.Session = (*session)(nil)

// Events implements cm.Session.
func (x *session) Events() <-chan cm.Event { return x.events }

// add queues an event.
func (x *session) add(e cm.Event) {
	x.mu.Lock()
	x.queue = append(x.queue, e)
	x.mu.Unlock()
	select {
	case x.more <- struct{}{}:
	default:
	}
}

// next removes the first event.
func (x *session) next() (e cm.Event, ok bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.queue) == 0 {
		return e, false
	}
	e, x.queue = x.queue[0], x.queue[1:]
	return e, true
}

// pump passes the events to the application until the session or the device has ended.
func (x *session) pump() {
	defer close(x.pumped)
	defer close(x.events)
	for {
		e, ok := x.next()
		if !ok {
			select {
			case <-x.more:
				continue
			case <-x.ended:
			case <-x.d.dead:
			}
			return
		}
		select {
		case x.events <- e:
		case <-x.ended:
			return
		case <-x.d.dead:
			return
		}
	}
}

// Close implements cm.Session.
func (x *session) Close() error {
	x.once.Do(func() {
		c := &x.d.cm
		c.calls.Lock()
		defer c.calls.Unlock()
		close(x.ended)
		<-x.pumped
		_ = x.d.plain(proto.TCMClose, nil, nil) // the end of the device was the end of the session
		c.forget()
	})
	return nil
}

// call executes a call of the session.
func (x *session) call(t proto.Type, request, reply any) error {
	if err := x.alive(); err != nil {
		return err
	}
	return x.d.plain(t, request, reply)
}

// alive returns an error after Close.
func (x *session) alive() error {
	select {
	case <-x.ended:
		return fmt.Errorf("cm: the session was closed: open another: %w", verbs.ErrClosed)
	default:
		return nil
	}
}

// about executes a call that has an ID and private data.
func (x *session) about(t proto.Type, id cm.ID, private []byte) error {
	p, err := proto.CMPrivateOf(private)
	if err != nil {
		return err
	}
	return x.call(t, &proto.CMCall{ID: uint32(id), Private: p}, nil)
}

// Listen implements cm.Session.
func (x *session) Listen(id mad.ServiceID, backlog int) error {
	return x.call(proto.TCMListen, &proto.CMListen{Service: uint64(id), Backlog: int32(min(max(backlog, 0), 1<<30))}, nil)
}

// Unlisten implements cm.Session.
func (x *session) Unlisten(id mad.ServiceID) error {
	return x.call(proto.TCMUnlisten, &proto.CMUnlisten{Service: uint64(id)}, nil)
}

// Connect implements cm.Session.
func (x *session) Connect(p cm.ConnectParams) (cm.ID, error) {
	m, err := proto.CMConnectOf(p)
	if err != nil {
		return 0, err
	}
	var r proto.Handle
	err = x.call(proto.TCMConnect, m, &r)
	return cm.ID(r.Handle), err
}

// Accept implements cm.Session.
func (x *session) Accept(id cm.ID, p cm.Path, private []byte) error {
	b, err := proto.CMPrivateOf(private)
	if err != nil {
		return err
	}
	return x.call(proto.TCMAccept, &proto.CMAccept{ID: uint32(id), Path: proto.CMPathOf(p), Private: b}, nil)
}

// Ready implements cm.Session.
func (x *session) Ready(id cm.ID, private []byte) error { return x.about(proto.TCMReady, id, private) }

// Reject implements cm.Session.
func (x *session) Reject(id cm.ID, private []byte) error {
	return x.about(proto.TCMReject, id, private)
}

// Disconnect implements cm.Session.
func (x *session) Disconnect(id cm.ID, private []byte) error {
	return x.about(proto.TCMDisconnect, id, private)
}

// Arrived implements cm.Session.
func (x *session) Arrived(id cm.ID) error {
	return x.call(proto.TCMArrived, &proto.Handle{Handle: uint32(id)}, nil)
}

// Resolve implements cm.Session.
func (x *session) Resolve(p cm.ResolveParams) (cm.ID, error) {
	b, err := proto.CMPrivateOf(p.Private)
	if err != nil {
		return 0, err
	}
	var r proto.Handle
	err = x.call(proto.TCMResolve, &proto.CMResolve{
		Service: uint64(p.Service), Local: proto.AddrOf(p.Local), Peer: proto.AddrOf(p.Peer), SrcPort: p.SrcPort, Private: b,
	}, &r)
	return cm.ID(r.Handle), err
}

// Answer implements cm.Session.
func (x *session) Answer(id cm.ID, qpn, qkey uint32, private []byte) error {
	b, err := proto.CMPrivateOf(private)
	if err != nil {
		return err
	}
	return x.call(proto.TCMAnswer, &proto.CMAnswer{ID: uint32(id), QPN: qpn, QKey: qkey, Private: b}, nil)
}
