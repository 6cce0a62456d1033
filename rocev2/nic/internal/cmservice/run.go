// SPDX-License-Identifier: Apache-2.0

package cmservice

import (
	"slices"
	"time"

	"github.com/softroce/softroce-xdp/rocev2/cm"
	"github.com/softroce/softroce-xdp/rocev2/mad"
)

// now is the Manager's time. It does not begin at 0, which is no time.
func (s *Service) now() int64 { return int64(time.Since(s.start) + time.Second) }

// run is the goroutine.
func (s *Service) run() {
	defer close(s.done)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for s.turn() {
		if at, ok := s.manager.Next(); ok {
			timer.Reset(time.Duration(max(at-s.now(), 0)))
		} else {
			timer.Stop()
		}
		select {
		case <-s.wake:
		case <-timer.C:
		}
	}
	for x := range s.sessions {
		x.end()
	}
}

// turn does what there is to do now. False: the service has ended.
func (s *Service) turn() bool {
	s.mu.Lock()
	arrived, pairs, calls, closing := s.arrived, s.pairs, s.calls, s.closing
	s.arrived, s.noListener, s.doubted, s.pairs, s.calls = nil, 0, 0, nil, nil
	s.mu.Unlock()
	for _, m := range arrived {
		s.receive(m)
	}
	for _, n := range pairs {
		s.pair(n)
	}
	for _, f := range calls {
		f()
		s.carry()
	}
	s.manager.Expire(s.now())
	s.carry()
	return !closing
}

// pair has the connections of a queue pair go on or end.
func (s *Service) pair(n pairNews) {
	switch n.what {
	case pairEncrypted:
		s.sealed[n.qpn] = struct{}{}
	case pairDestroyed:
		delete(s.sealed, n.qpn)
	}
	for _, id := range slices.Clone(s.byQPN[n.qpn]) {
		switch n.what {
		case pairArrived:
			s.manager.Arrived(id)
		case pairEncrypted:
			s.manager.SetEncrypted(id)
		case pairDestroyed:
			_ = s.manager.Disconnect(s.now(), id, nil) // refused where it has ended already
		}
		s.carry()
	}
}

// use notes the queue pair of a connection.
func (s *Service) use(id cm.ID, qpn uint32) {
	s.conns[id].qpn = qpn
	s.byQPN[qpn] = append(s.byQPN[qpn], id)
	if _, ok := s.sealed[qpn]; ok {
		s.manager.SetEncrypted(id)
	}
}

// receive passes a message to the Manager, unless it is a request for a session that does not take
// its events. A request for a listener waits for the path to its sender first, so that an application that accepts it
// does not.
func (s *Service) receive(m message) {
	if !m.reached {
		s.count.Arrived++
	}
	if id, ok := requested(m.mad); ok && s.listeners[id] != nil {
		if s.listeners[id].waiting() >= MaxEvents {
			s.count.NotTaken++
			return
		}
		if !m.reached {
			m.reached = true
			if !s.transport.Reach(m.dst, m.src, m.proof, func() { s.enqueue(m) }) {
				return
			}
		}
	}
	s.manager.Receive(s.now(), m.src, m.dst, m.mad, m.proof)
	s.carry()
}

// requested returns the service that a REQ or SIDR_REQ is for.
func requested(m []byte) (id mad.ServiceID, ok bool) {
	h, err := mad.Parse(m)
	if err != nil {
		return 0, false
	}
	switch h.Attr() {
	case mad.AttrREQ:
		return mad.REQ{Header: h}.ServiceID(), true
	case mad.AttrSIDRREQ:
		return mad.SIDRREQ{Header: h}.ServiceID(), true
	}
	return 0, false
}

// setListener notes the session that listens at a service, nil for none.
func (s *Service) setListener(id mad.ServiceID, x *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if x == nil {
		delete(s.listeners, id)
	} else {
		s.listeners[id] = x
	}
}

// carry does what the Manager wants done.
func (s *Service) carry() {
	s.steerErr = nil
	for _, a := range s.manager.Take() {
		switch a := a.(type) {
		case cm.Send:
			s.count.Sent++
			s.transport.Send(a.Local, a.Peer, a.MAD)
		case cm.Steer:
			if err := s.transport.Steer(a); err != nil {
				s.count.SteerErrors++
				s.steerErr = err
			}
		case cm.Event:
			s.event(a)
		}
	}
}

// event passes an event to the session of its ID.
func (s *Service) event(e cm.Event) {
	c := s.conns[e.ID]
	if c == nil { // Request or ResolveRequest
		c = s.add(e.ID, s.listeners[e.Service])
	}
	if c.session != nil {
		c.session.add(e)
	}
	if e.Kind == cm.Gone {
		s.remove(e.ID, c)
	}
}

func (s *Service) add(id cm.ID, x *session) *conn {
	c := &conn{session: x}
	s.conns[id] = c
	if x != nil {
		x.ids[id] = struct{}{}
	}
	return c
}

func (s *Service) remove(id cm.ID, c *conn) {
	delete(s.conns, id)
	if left := slices.DeleteFunc(s.byQPN[c.qpn], func(x cm.ID) bool { return x == id }); len(left) > 0 {
		s.byQPN[c.qpn] = left
	} else {
		delete(s.byQPN, c.qpn)
	}
	if c.session != nil {
		delete(c.session.ids, id)
	}
}

// abandon ends what a session has. Its connections stay until they are gone.
func (s *Service) abandon(x *session) {
	if _, ok := s.sessions[x]; !ok {
		return
	}
	delete(s.sessions, x)
	for id, owner := range s.listeners {
		if owner == x {
			s.unlisten(id)
		}
	}
	for id := range x.ids {
		s.conns[id].session = nil
		_ = s.manager.Disconnect(s.now(), id, nil) // refused where it has ended already
	}
	clear(x.ids)
	x.end()
}
