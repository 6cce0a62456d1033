// SPDX-License-Identifier: Apache-2.0

package cmpeer

// A LoopDevice is a loopback device with a communication manager (rocev2/cm), for tests of
// applications that connect: a test configures the managers and loses messages between them. Both
// ends of a connection are on one device. Messages of the managers go from one to the other by
// function calls; queue pairs and data are those of the engine.

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/rocev2/cm"
	"github.com/softroce/softroce-xdp/rocev2/mad"
	"github.com/softroce/softroce-xdp/rocev2/nic"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Config are the properties of a device.
type Config struct {
	NIC nic.Options
	CM  cm.Config // configuration of every session

	// Drop, if not nil, is asked for every message between managers. True loses the message.
	Drop func(s cm.Send) bool
}

// A LoopDevice is a loopback device that implements cm.Connector.
type LoopDevice struct {
	verbs.Device
	cfg   Config
	start time.Time

	mu       sync.Mutex
	sessions []*session
	managers []*cm.Manager // managers of all sessions, those that have ended included
	timer    *time.Timer
	closed   bool
	taken    map[*byte]bool

	// Sent counts the messages of the managers, those that Drop lost included.
	Sent atomic.Int64
}

// Open makes a device.
func Open(c Config) (*LoopDevice, error) {
	d, err := nic.OpenLoopback(c.NIC)
	if err != nil {
		return nil, err
	}
	dev := &LoopDevice{Device: d, cfg: c, start: time.Now().Add(-time.Second), taken: map[*byte]bool{}}
	dev.timer = time.AfterFunc(time.Hour, dev.expire)
	return dev, nil
}

// Counters implements verbs.Statistics.
func (d *LoopDevice) Counters() []verbs.Counter { return d.Device.(verbs.Statistics).Counters() }

// Rejected is how many requests and replies the applications have rejected: cm_rejected of a NIC.
func (d *LoopDevice) Rejected() (n uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, m := range d.managers {
		n += m.Counters().Rejected
	}
	return n
}

// Close ends the device and its sessions.
func (d *LoopDevice) Close() error {
	err := d.Device.Close()
	d.mu.Lock()
	d.closed = true
	d.timer.Stop()
	for _, s := range d.sessions {
		s.end()
	}
	d.sessions = nil
	d.mu.Unlock()
	return err
}

// Alloc implements rdma.Allocator.
func (d *LoopDevice) Alloc(n int) ([]byte, error) {
	b, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	d.taken[&b[0]] = true
	d.mu.Unlock()
	return b, nil
}

// Free implements rdma.Allocator. A later access ends the test with a fault.
func (d *LoopDevice) Free(b []byte) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.taken[&b[0]] {
		return errors.New("cmloop: free of memory that Alloc did not return, or that is free")
	}
	delete(d.taken, &b[0])
	return unix.Mprotect(b, unix.PROT_NONE)
}

// Allocated is how many pieces of memory were allocated and not freed.
func (d *LoopDevice) Allocated() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.taken)
}

// OpenCM implements cm.Connector. Each session has a manager of its own.
func (d *LoopDevice) OpenCM() (cm.Session, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, verbs.ErrClosed
	}
	c := d.cfg.CM
	c.Alone = func() bool { return true }
	s := &session{dev: d, m: cm.New(c), events: make(chan cm.Event), wake: make(chan struct{}, 1)}
	d.sessions, d.managers = append(d.sessions, s), append(d.managers, s.m)
	go s.deliver()
	return s, nil
}

func (d *LoopDevice) now() int64 { return int64(time.Since(d.start)) }

func (d *LoopDevice) expire() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, s := range d.sessions {
		s.m.Expire(d.now())
	}
	d.carry()
}

// carry takes what the managers want done, until nothing is left.
func (d *LoopDevice) carry() {
	for again := true; again; {
		again = false
		for _, s := range d.sessions {
			for _, a := range s.m.Take() {
				again = true
				switch a := a.(type) {
				case cm.Send:
					d.send(s, a)
				case cm.Event:
					s.queue = append(s.queue, a)
					s.signal()
				}
			}
		}
	}
	var next int64
	for _, s := range d.sessions {
		if at, ok := s.m.Next(); ok && (next == 0 || at < next) {
			next = at
		}
	}
	if next != 0 && !d.closed {
		d.timer.Reset(time.Duration(max(next-d.now(), 0)))
	}
}

// send gives a message to the manager that it belongs to, or to the sender's, which refuses it.
func (d *LoopDevice) send(from *session, a cm.Send) {
	d.Sent.Add(1)
	if d.cfg.Drop != nil && d.cfg.Drop(a) {
		return
	}
	to := from
	for _, s := range d.sessions {
		if s.m.Owns(a.Local, a.MAD) {
			to = s
			break
		}
	}
	to.m.Receive(d.now(), a.Local, a.Peer, a.MAD, cm.Proven) // both ends are of this host
}

// session implements cm.Session.
type session struct {
	dev    *LoopDevice
	m      *cm.Manager
	events chan cm.Event
	queue  []cm.Event // events that were not delivered yet
	wake   chan struct{}
	ended  bool
}

var errEnded = errors.New("cmloop: the session was closed")

func (s *session) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// deliver moves events to the channel, so that nothing waits for the application.
func (s *session) deliver() {
	defer close(s.events)
	for range s.wake {
		for {
			s.dev.mu.Lock()
			if s.ended {
				s.dev.mu.Unlock()
				return
			}
			list := s.queue
			s.queue = nil
			s.dev.mu.Unlock()
			if len(list) == 0 {
				break
			}
			for _, e := range list {
				s.events <- e
			}
		}
	}
}

// end ends the session; the device is locked.
func (s *session) end() {
	s.ended = true
	s.signal()
}

func (s *session) do(f func(m *cm.Manager, now int64) error) error {
	s.dev.mu.Lock()
	defer s.dev.mu.Unlock()
	if s.ended {
		return errEnded
	}
	err := f(s.m, s.dev.now())
	s.dev.carry()
	return err
}

func (s *session) Events() <-chan cm.Event { return s.events }

func (s *session) Close() error {
	s.dev.mu.Lock()
	defer s.dev.mu.Unlock()
	s.end()
	return nil
}

func (s *session) Listen(id mad.ServiceID, backlog int) error {
	return s.do(func(m *cm.Manager, _ int64) error { return m.Listen(id, backlog) })
}

func (s *session) Unlisten(id mad.ServiceID) error {
	return s.do(func(m *cm.Manager, _ int64) error { m.Unlisten(id); return nil })
}

func (s *session) Connect(p cm.ConnectParams) (id cm.ID, err error) {
	err = s.do(func(m *cm.Manager, now int64) error { id, err = m.Connect(now, p); return err })
	return id, err
}

func (s *session) Accept(id cm.ID, p cm.Path, private []byte) error {
	return s.do(func(m *cm.Manager, now int64) error { return m.Accept(now, id, p, private) })
}

func (s *session) Ready(id cm.ID, private []byte) error {
	return s.do(func(m *cm.Manager, now int64) error { return m.Ready(now, id, private) })
}

func (s *session) Reject(id cm.ID, private []byte) error {
	return s.do(func(m *cm.Manager, now int64) error { return m.Reject(now, id, private) })
}

func (s *session) Disconnect(id cm.ID, private []byte) error {
	return s.do(func(m *cm.Manager, now int64) error { return m.Disconnect(now, id, private) })
}

func (s *session) Arrived(id cm.ID) error {
	return s.do(func(m *cm.Manager, _ int64) error { m.Arrived(id); return nil })
}

func (s *session) Resolve(p cm.ResolveParams) (id cm.ID, err error) {
	err = s.do(func(m *cm.Manager, now int64) error { id, err = m.Resolve(now, p); return err })
	return id, err
}

func (s *session) Answer(id cm.ID, qpn, qkey uint32, private []byte) error {
	return s.do(func(m *cm.Manager, now int64) error { return m.Answer(now, id, qpn, qkey, private) })
}
