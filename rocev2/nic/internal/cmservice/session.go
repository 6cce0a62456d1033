// SPDX-License-Identifier: Apache-2.0

package cmservice

import (
	"errors"
	"fmt"
	"sync"

	"github.com/softroce/softroce-xdp/rocev2/cm"
	"github.com/softroce/softroce-xdp/rocev2/mad"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

var (
	errEnded        = fmt.Errorf("cm: the session or its device was closed: open another: %w", verbs.ErrClosed)
	errNotListening = errors.New("cm: the session does not listen at this service ID")
)

// session implements cm.Session.
type session struct {
	s      *Service
	events chan cm.Event
	ended  chan struct{} // closed by end
	pumped chan struct{} // closed when pump has ended

	mu    sync.Mutex
	queue []cm.Event
	more  chan struct{}

	ids map[cm.ID]struct{} // the service's goroutine
}

var _ cm.Session = (*session)(nil)

// Open opens a session. After Close the error wraps verbs.ErrClosed.
func (s *Service) Open() (cm.Session, error) {
	x := &session{
		s: s, events: make(chan cm.Event), ended: make(chan struct{}), pumped: make(chan struct{}),
		more: make(chan struct{}, 1), ids: map[cm.ID]struct{}{},
	}
	if !s.do(func() { s.sessions[x] = struct{}{} }) {
		return nil, errEnded
	}
	go x.pump()
	return x, nil
}

// Events implements cm.Session.
func (x *session) Events() <-chan cm.Event { return x.events }

// add queues an event. It does not wait.
func (x *session) add(e cm.Event) {
	x.mu.Lock()
	x.queue = append(x.queue, e)
	x.mu.Unlock()
	select {
	case x.more <- struct{}{}:
	default:
	}
}

// waiting is how many events the application has not taken, but for one that pump has.
func (x *session) waiting() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.queue)
}

// pump passes the events to the application until the session has ended.
func (x *session) pump() {
	defer close(x.pumped)
	defer close(x.events)
	for {
		x.mu.Lock()
		list := x.queue
		if len(list) > 0 {
			x.queue = list[1:]
		}
		x.mu.Unlock()
		if len(list) == 0 {
			select {
			case <-x.more:
			case <-x.ended:
				return
			}
			continue
		}
		select {
		case x.events <- list[0]:
		case <-x.ended:
			return
		}
	}
}

// end is called once, by the service's goroutine.
func (x *session) end() { close(x.ended) }

// Close implements cm.Session.
func (x *session) Close() error {
	x.s.do(func() { x.s.abandon(x) }) // a service that has ended has ended its sessions
	<-x.pumped
	return nil
}

// do has the service's goroutine run f unless the session has ended.
func (x *session) do(f func(s *Service, now int64) error) error {
	err := errEnded
	x.s.do(func() {
		if _, ok := x.s.sessions[x]; ok {
			err = f(x.s, x.s.now())
		}
	})
	return err
}

// of runs f for a connection of the session.
func (x *session) of(id cm.ID, f func(s *Service, now int64) error) error {
	return x.do(func(s *Service, now int64) error {
		if _, ok := x.ids[id]; !ok {
			return cm.ErrID
		}
		return f(s, now)
	})
}

// Listen implements cm.Session.
func (x *session) Listen(id mad.ServiceID, backlog int) error {
	return x.do(func(s *Service, _ int64) error {
		if err := s.manager.Listen(id, backlog); err != nil {
			return err
		}
		s.setListener(id, x)
		if s.carry(); s.steerErr != nil {
			err := s.steerErr
			s.unlisten(id)
			return fmt.Errorf("cm: listen at %s: %w", id, err)
		}
		return nil
	})
}

func (s *Service) unlisten(id mad.ServiceID) {
	s.setListener(id, nil)
	s.manager.Unlisten(id)
}

// Unlisten implements cm.Session.
func (x *session) Unlisten(id mad.ServiceID) error {
	return x.do(func(s *Service, _ int64) error {
		if s.listeners[id] != x {
			return fmt.Errorf("%w: %s", errNotListening, id)
		}
		s.unlisten(id)
		return nil
	})
}

// start sends the first message of a new ID.
func (x *session) start(s *Service, id cm.ID) error {
	if s.carry(); s.steerErr == nil {
		return nil
	}
	err := fmt.Errorf("cm: the answers of the peer would not arrive: %w", s.steerErr)
	s.conns[id].session = nil
	delete(x.ids, id)
	_ = s.manager.Disconnect(s.now(), id, nil) // refused where it has ended already
	return err
}

// Connect implements cm.Session.
func (x *session) Connect(p cm.ConnectParams) (id cm.ID, err error) {
	err = x.do(func(s *Service, now int64) (err error) {
		if id, err = s.manager.Connect(now, p); err != nil {
			return err
		}
		s.add(id, x)
		s.use(id, p.QPN)
		return x.start(s, id)
	})
	return id, err
}

// Resolve implements cm.Session.
func (x *session) Resolve(p cm.ResolveParams) (id cm.ID, err error) {
	err = x.do(func(s *Service, now int64) (err error) {
		if id, err = s.manager.Resolve(now, p); err != nil {
			return err
		}
		s.add(id, x)
		return x.start(s, id)
	})
	return id, err
}

// Accept implements cm.Session.
func (x *session) Accept(id cm.ID, p cm.Path, private []byte) error {
	return x.of(id, func(s *Service, now int64) error {
		err := s.manager.Accept(now, id, p, private)
		if err == nil {
			s.use(id, p.Local.QPN)
		}
		return err
	})
}

// Ready implements cm.Session.
func (x *session) Ready(id cm.ID, private []byte) error {
	return x.of(id, func(s *Service, now int64) error { return s.manager.Ready(now, id, private) })
}

// Reject implements cm.Session.
func (x *session) Reject(id cm.ID, private []byte) error {
	return x.of(id, func(s *Service, now int64) error { return s.manager.Reject(now, id, private) })
}

// Disconnect implements cm.Session.
func (x *session) Disconnect(id cm.ID, private []byte) error {
	return x.of(id, func(s *Service, now int64) error { return s.manager.Disconnect(now, id, private) })
}

// Arrived implements cm.Session.
func (x *session) Arrived(id cm.ID) error {
	return x.of(id, func(s *Service, _ int64) error { s.manager.Arrived(id); return nil })
}

// Answer implements cm.Session.
func (x *session) Answer(id cm.ID, qpn, qkey uint32, private []byte) error {
	return x.of(id, func(s *Service, now int64) error { return s.manager.Answer(now, id, qpn, qkey, private) })
}
