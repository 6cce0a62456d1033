// SPDX-License-Identifier: Apache-2.0

// Package cmservice runs a communication manager (package cm) for several applications: one
// goroutine owns the Manager, and each application has a cm.Session. A Transport carries the
// messages.
//
// A listener belongs to the session that made it, a connection to that of its Connect or of the
// listener that it came in by. When a session is closed, its listeners end and its connections are
// disconnected, which their peers are told. A session that does not take its events hurts itself
// only: with 1024 events waiting, requests for its listeners are dropped as beyond a full
// backlog, and everything else is kept, which its own connections bound.
//
// Time is that of package time, so tests run in a bubble of testing/synctest.
package cmservice

import (
	"net/netip"
	"sync"
	"time"

	"github.com/softroce/softroce-xdp/rocev2/cm"
	"github.com/softroce/softroce-xdp/rocev2/mad"
)

// Transport carries messages between queue pairs 1. Only the goroutine of the Service calls it.
type Transport interface {
	// Send sends a message as a UD SEND Only with mad.QKey. It must not wait. A message that cannot
	// be sent is lost; the Manager repeats what matters. The message is the Transport's.
	Send(local, peer netip.Addr, m mad.Header)

	// Reach reports whether messages to peer would leave at once, as its route and neighbour are known. If not, it has
	// them looked up, and calls then from another goroutine when they are known. It does not call it if they
	// cannot be found within its time, or if others need the place. It must not wait.
	Reach(local, peer netip.Addr, p cm.Proof, then func()) bool

	// Steer has messages come to this end, or not any more. Those that match no key belong to
	// others. An error means that they do not come.
	Steer(s cm.Steer) error
}

// Limits of a Service.
const (
	// MaxArrived is how many received messages wait for the Manager; more are dropped. Requests for
	// services without a listener are at most half of them, and requests that are not proven at most three
	// quarters, so that they do not displace others.
	MaxArrived = 4096
	// MaxFirst is how many first packets of queue pairs wait for the Manager: as many as there are
	// connections. More are dropped; the peer repeats the message that does the same.
	MaxFirst = 1 << 16
	// MaxEvents is how many events of a session may wait before requests for its listeners are
	// dropped.
	MaxEvents = 1024
)

// Counters count what a Service and its Manager did not act on.
type Counters struct {
	cm.Counters
	Arrived     uint64 // messages received
	Sent        uint64 // messages sent
	Dropped     uint64 // messages and first packets dropped because MaxArrived or MaxFirst waited
	NotTaken    uint64 // requests dropped because their session had MaxEvents events
	SteerErrors uint64 // Steer failed
}

// Service is a communication manager with its goroutine. Its methods may be called by any
// goroutine.
type Service struct {
	transport Transport
	start     time.Time
	wake      chan struct{}
	done      chan struct{} // closed when the goroutine has ended

	mu         sync.Mutex
	arrived    []message
	noListener int // requests of arrived without a listener
	doubted    int // requests of arrived that are not proven
	pairs      []pairNews
	calls      []func()
	dropped    uint64
	closing    bool // no more calls
	// The goroutine writes it with mu, and reads it without.
	listeners map[mad.ServiceID]*session

	// The goroutine's.
	manager  *cm.Manager
	sessions map[*session]struct{}
	conns    map[cm.ID]*conn
	byQPN    map[uint32][]cm.ID  // the connections of a queue pair of this end
	sealed   map[uint32]struct{} // encrypted queue pairs
	steerErr error               // error of the actions that were carried out last
	count    Counters
}

type message struct {
	src, dst netip.Addr
	mad      []byte
	proof    cm.Proof
	reached  bool // the path to its sender is known
}

// conn is what the service knows of an ID.
type conn struct {
	session *session // nil: it was closed
	qpn     uint32   // QPN of this end, or 0
}

// pairNews is what has happened to a queue pair.
type pairNews struct {
	qpn  uint32
	what pairChange
}

type pairChange uint8

const (
	pairArrived   pairChange = iota // it received its first packet
	pairEncrypted                   // it takes encrypted packets only
	pairDestroyed
)

// New starts a Service. Config.Steer is set.
func New(t Transport, c cm.Config) *Service {
	c.Steer = true
	s := &Service{
		transport: t, start: time.Now(), wake: make(chan struct{}, 1), done: make(chan struct{}),
		manager: cm.New(c), sessions: map[*session]struct{}{}, listeners: map[mad.ServiceID]*session{},
		conns: map[cm.ID]*conn{}, byQPN: map[uint32][]cm.ID{}, sealed: map[uint32]struct{}{},
	}
	go s.run()
	return s
}

// Receive takes a message that arrived at queue pair 1 from src, at the address dst of this host.
// It copies the message and does not wait. p says how far src can be believed.
func (s *Service) Receive(src, dst netip.Addr, m []byte, p cm.Proof) {
	s.enqueue(message{src: src, dst: dst, mad: append([]byte(nil), m...), proof: p})
}

// enqueue has the goroutine receive a message, if there is room.
func (s *Service) enqueue(m message) {
	id, request := requested(m.mad)
	s.mu.Lock()
	noListener := request && s.listeners[id] == nil
	doubted := request && m.proof != cm.Proven
	full := len(s.arrived) >= MaxArrived || noListener && s.noListener >= MaxArrived/2 || doubted && s.doubted >= MaxArrived/4*3
	if full {
		s.dropped++
	} else {
		if noListener {
			s.noListener++
		}
		if doubted {
			s.doubted++
		}
		s.arrived = append(s.arrived, m)
	}
	s.mu.Unlock()
	if !full {
		s.poke()
	}
}

// Arrived says that the first packet arrived at a queue pair: if it is that of an accepted
// connection, the connection is established (IBTA 12.9.7.2). It does not wait.
func (s *Service) Arrived(qpn uint32) { s.note(pairNews{qpn, pairArrived}) }

// Encrypted says that a queue pair takes encrypted packets only, until it is destroyed: a REQ does not end its
// connection. It does not wait.
func (s *Service) Encrypted(qpn uint32) { s.note(pairNews{qpn, pairEncrypted}) }

// Destroyed says that a queue pair does not exist any more: its connections end as by
// Session.Disconnect, which their peers are told. It is called before the number is used for another
// queue pair. It does not wait.
func (s *Service) Destroyed(qpn uint32) { s.note(pairNews{qpn, pairDestroyed}) }

// Unreachable says that messages to a peer cannot be sent, and why: attempts that wait for its first answer fail. It
// waits for the goroutine of the Service.
func (s *Service) Unreachable(local, peer netip.Addr, why error) {
	s.do(func() { s.manager.Unreachable(local, peer, why) })
}

func (s *Service) note(n pairNews) {
	s.mu.Lock()
	full := n.what == pairArrived && len(s.pairs) >= MaxFirst
	if full {
		s.dropped++
	} else {
		s.pairs = append(s.pairs, n)
	}
	s.mu.Unlock()
	if !full {
		s.poke()
	}
}

func (s *Service) poke() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// do has the goroutine run f, and waits for it. False: the service has ended, f did not run.
func (s *Service) do(f func()) bool {
	ran := make(chan struct{})
	s.mu.Lock()
	if s.closing {
		s.mu.Unlock()
		return false
	}
	s.calls = append(s.calls, func() { f(); close(ran) })
	s.mu.Unlock()
	s.poke()
	<-ran
	return true
}

// Counters returns the counters.
func (s *Service) Counters() (c Counters) {
	read := func() {
		c = s.count
		c.Counters = s.manager.Counters()
	}
	if !s.do(read) {
		<-s.done
		read()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c.Dropped = s.dropped
	return c
}

// Close ends the service: connections are disconnected, their peers are told once, and the
// channels of all sessions are closed.
func (s *Service) Close() {
	s.do(func() {
		for x := range s.sessions {
			s.abandon(x)
		}
		s.mu.Lock()
		s.closing = true
		s.mu.Unlock()
	})
	s.poke()
	<-s.done
}
