// SPDX-License-Identifier: Apache-2.0

package device

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/loader/device/limits"
	"github.com/softroce/softroce-xdp/rocev2/nic"
	"github.com/softroce/softroce-xdp/rocev2/rdma/proto"
	"github.com/softroce/softroce-xdp/rocev2/ring"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// session is a process that uses the device.
type session struct {
	s        *Server
	conn     *net.UnixConn
	pid, uid uint32
	pidfd    int // -1 if it has ended already
	account  *limits.Process
	counts   *nic.Counts   // nil before the hello
	slow     chan struct{} // calls that wait for a neighbour
	greeted  atomic.Bool   // the process has opened the device
	calls    sync.WaitGroup
	events   chan []byte
	writing  sync.Mutex // held while a message is written

	mu      sync.Mutex
	objects map[uint32]object
	qpns    map[uint32]struct{} // numbers of its queue pairs
	last    uint32
	memory  *processMemory // nil before TPassMemory

	cm        connections
	over      atomic.Bool       // hangUp was called
	hung      chan struct{}     // closed then
	debt      atomic.Int64      // ns until the process may make another call; see pace
	delayed   atomic.Int64      // ns that pace has waited
	late      []<-chan struct{} // calls on descriptors that took too long; closed when they return
	lastCall  <-chan struct{}   // the latest of all such calls
	abandoned bool              // the descriptors of the request belong to such a call

	handles sync.Map // address handles: uint32 to *nic.AH

	rings        *ringFiles // nil before the hello
	doorbell     ring.Doorbell
	wake, signal int  // eventfd for the engine's thread; socket to the process
	fed          bool // feeder.sessions has it

	// The engine's thread.
	costs       costs
	slowSignals int                      // signals in a row that took long
	queues      []*queue                 // queues by the number that the doorbell has for them
	pending     [ring.Queues / 64]uint64 // bits of those in receives and sends
	receives    []*queue                 // receive queues with entries that were not taken
	sends       []*queue                 // send queues with entries that were not taken
	watched     []*queue                 // queues whose process rings no doorbell (watch.go)
	reviewed    uint32                   // iterations since the last review
	send        verbs.SendWR
	recv        verbs.RecvWR
}

const (
	eventBacklog = 1024

	// writePatience is how long a process may leave a message unread while its socket is full.
	writePatience = 10 * time.Second
)

func newSession(s *Server, conn *net.UnixConn) (*session, error) {
	cred, err := peerOf(conn)
	if err != nil {
		return nil, err
	}
	c := &session{
		s: s, conn: conn, pid: uint32(cred.Pid), uid: cred.Uid, pidfd: -1, objects: map[uint32]object{}, qpns: map[uint32]struct{}{}, wake: -1, signal: -1,
		slow: make(chan struct{}, proto.MaxWaiting), events: make(chan []byte, eventBacklog),
		hung: make(chan struct{}),
	}
	c.cm.c = c
	if c.account, err = s.accounts.Open(c.uid, usesOfProcess...); err != nil {
		return c, overLimit(err)
	}
	c.pidfd = pidfdOf(conn, int(cred.Pid))
	return c, nil
}

// pidfdOf returns the pidfd of the process that has connected, or -1. SO_PEERPIDFD (Linux 6.5) is that
// process also if it has ended and another one has its number, which is not to be killed in its place.
func pidfdOf(conn *net.UnixConn, pid int) int {
	fd, err := -1, error(unix.ENOPROTOOPT)
	if raw, e := conn.SyscallConn(); e == nil {
		_ = raw.Control(func(s uintptr) { fd, err = unix.GetsockoptInt(int(s), unix.SOL_SOCKET, unix.SO_PEERPIDFD) })
	}
	if errors.Is(err, unix.ENOPROTOOPT) {
		fd, err = unix.PidfdOpen(pid, 0)
	}
	if err != nil { // it has ended
		return -1
	}
	return fd
}

func peerOf(conn *net.UnixConn) (cred *unix.Ucred, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	if e := raw.Control(func(fd uintptr) { cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); e != nil {
		return nil, e
	}
	return cred, err
}

// serve answers the messages of the process until it closes its socket, or dies.
func (c *session) serve() {
	buf := make([]byte, proto.MaxMessage)
	c.spend(callsToAccept)
	for c.pace() {
		n, fds, err := proto.ReadWith(c.conn, buf, c.metered)
		if err != nil {
			return
		}
		h, body, err := proto.Split(buf[:n])
		switch {
		case err != nil: // it has no number to answer to
			c.discard(fds)
			return
		case !c.greeted.Load() && (h.Type == proto.TStatus || h.Type == proto.TCounters):
			c.discard(fds)
			c.spend(callsToOpen)
			c.status(h, body)
			return
		case !c.greeted.Load() && h.Type != proto.THello:
			err = fmt.Errorf("%w: the first message must be a hello", proto.ErrProtocol)
		case c.greeted.Load() && h.Type == proto.THello:
			err = fmt.Errorf("%w: a second hello", proto.ErrProtocol)
		}
		if err != nil {
			c.discard(fds)
			c.spend(1)
			c.reply(h, nil, nil, err)
			if !c.greeted.Load() {
				return
			}
			continue
		}
		if !c.greeted.Load() {
			c.discard(fds)
			if !c.hello(h, body) {
				return
			}
			continue
		}
		c.request(h, body, fds)
	}
}

// hello answers the first message. It returns false if there is no use in going on.
func (c *session) hello(h proto.Header, body []byte) bool {
	c.spend(callsToOpen)
	var m proto.Hello
	err := proto.Decode(body, &m)
	switch {
	case err != nil:
	case m.Magic != proto.Magic:
		err = proto.ErrProtocol
	case m.Version != proto.Version:
		err = proto.VersionError(m.Version, proto.Version)
	default:
		err = c.open()
	}
	if err != nil {
		c.reply(h, nil, nil, err)
		return false
	}
	var processEnd int
	if c.signal, processEnd, err = signalPair(); err == nil {
		l := c.s.dev.Limits()
		r := &proto.HelloReply{
			Version: proto.Version, CQ: uint32(l.CQ), WR: uint32(l.WR), SGE: uint32(l.SGE), Inline: uint32(l.Inline),
			MaxRdAtomic: uint32(l.MaxRdAtomic),
		}
		c.greeted.Store(true)
		passRights(c.conn, true)
		c.reply(h, r, []int{c.s.feeder.memory.fd, c.rings.fd(), c.wake, processEnd}, nil)
		unix.Close(processEnd)
		return true
	}
	c.reply(h, nil, nil, err)
	return false
}

// open makes what the process and the engine's thread share, and has the engine look at it.
func (c *session) open() (err error) {
	var doorbell []byte
	if c.rings, doorbell, err = openRingFiles(c.account); err != nil {
		return err
	}
	if c.doorbell, err = ring.OpenDoorbell(doorbell); err != nil {
		return err
	}
	if c.wake, err = newWake(); err != nil {
		return fmt.Errorf("eventfd: %w", err)
	}
	if err := c.s.feeder.watch(c.wake); err != nil {
		return err
	}
	c.fed = true
	c.counts = c.s.dev.NewCounts()
	c.s.dev.InLoop(func() { c.s.feeder.join(c) })
	return nil
}

// request answers one message. Those that wait for a neighbour do so in a goroutine.
func (c *session) request(h proto.Header, body []byte, fds []int) {
	defer func() {
		if !c.abandoned {
			c.discard(fds)
		}
	}()
	if h.Type == proto.TBatch {
		c.requests(h, body)
		return
	}
	req, _, ok := proto.Bodies(h.Type)
	err := error(proto.ErrProtocol)
	if ok {
		err = proto.Decode(body, req)
	}
	if err != nil {
		c.spend(1)
		c.reply(h, nil, nil, fmt.Errorf("type %d: %w", h.Type, err))
		return
	}
	c.spend(callsOf(h.Type))
	c.answer(h, proto.Waits(h.Type, req), func() ([]byte, []int) {
		r, give, err := c.do(h.Type, req, fds)
		return proto.AppendReply(nil, h, r, err), give
	})
}

// requests answers a batch.
func (c *session) requests(h proto.Header, body []byte) {
	parts, err := proto.DecodeBatch(body)
	if err != nil {
		c.spend(1)
		c.reply(h, nil, nil, fmt.Errorf("type %d: %w", h.Type, err))
		return
	}
	c.spend(callsOfBatch(parts))
	c.answer(h, proto.BatchWaits(parts), func() ([]byte, []int) {
		results, give := c.batch(parts)
		return append(proto.AppendReply(nil, h, nil, nil), results...), give
	})
}

// answer writes the message that do returns, with its descriptors, which stay the server's.
func (c *session) answer(h proto.Header, waits bool, do func() ([]byte, []int)) {
	if !waits {
		b, give := do()
		c.write(b, give...)
		return
	}
	select {
	case c.slow <- struct{}{}:
	default:
		c.reply(h, nil, nil, proto.ErrBusyCalls)
		return
	}
	c.calls.Go(func() {
		b, give := do()
		<-c.slow // before the process can send another request
		c.write(b, give...)
	})
}

// reply answers a request. fds stay the server's.
func (c *session) reply(h proto.Header, body any, fds []int, err error) {
	c.write(proto.AppendReply(nil, h, body, err), fds...)
}

// write sends a message. A process that does not read loses its connection. Messages have one deadline
// each, in turn: one that waits for its turn does not extend that of another.
func (c *session) write(b []byte, fds ...int) {
	c.writing.Lock()
	defer c.writing.Unlock()
	_ = c.conn.SetWriteDeadline(time.Now().Add(writePatience))
	if c.over.Load() { // hangUp has set an earlier deadline
		return
	}
	if err := proto.WriteWith(c.conn, b, c.metered, fds...); err != nil {
		c.hangUp()
	}
}

// event queues an event for the process. The oldest is lost if it does not read them.
func (c *session) event(b []byte) {
	for {
		select {
		case c.events <- b:
			return
		default:
		}
		select {
		case <-c.events:
		default:
		}
	}
}

// sendEvents sends events until the connection ends.
func (c *session) sendEvents(done <-chan struct{}) {
	for {
		select {
		case b := <-c.events:
			c.write(b)
		case <-done:
			return
		}
	}
}

// close ends all that the process had.
func (c *session) close() {
	c.hangUp()
	_ = c.conn.CloseWrite() // the process sees the end also if Close takes long
	c.within(func() { c.conn.Close() })
	c.calls.Wait()
	c.cm.close()
	for _, o := range c.inOrder() {
		if err := c.destroy(o); err != nil {
			c.s.log.Error("an object of a process that has ended cannot be destroyed", "pid", c.pid, "object", o, "err", err)
		}
	}
	if c.fed {
		c.s.dev.InLoop(func() { c.s.feeder.leave(c) })
	}
	if c.counts != nil {
		c.counts.Close()
	}
	c.mu.Lock() // which checkMemory takes
	if c.memory != nil {
		c.memory.close()
		c.memory = nil
	}
	if c.pidfd >= 0 {
		unix.Close(c.pidfd)
		c.pidfd = -1
	}
	c.mu.Unlock()
	if c.rings != nil {
		c.rings.close()
	}
	if c.wake >= 0 {
		c.s.feeder.forget(c.wake)
		unix.Close(c.wake)
	}
	if c.signal >= 0 {
		unix.Close(c.signal)
	}
	c.closeAccount()
}
