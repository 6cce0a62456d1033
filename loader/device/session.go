// SPDX-License-Identifier: Apache-2.0

package device

import (
	"fmt"
	"math/bits"
	"net"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/loader/device/limits"
	"github.com/softroce/softroce-xdp/rocev2/nic"
	"github.com/softroce/softroce-xdp/rocev2/rdma/proto"
	"github.com/softroce/softroce-xdp/rocev2/ring"
)

// session is a process that uses the device: its objects, and the messages that make and change them. The messages
// pass its socket. What the engine's thread has of the process is rings.
type session struct {
	s       *Server
	process *process
	socket  *socket
	account *limits.Process
	counts  *nic.Counts   // nil before the hello
	slow    chan struct{} // calls that wait for a neighbour
	greeted atomic.Bool   // the process has opened the device
	calls   sync.WaitGroup

	mu      sync.Mutex
	objects map[uint32]object
	qpns    map[uint32]struct{} // numbers of its queue pairs
	last    uint32
	memory  *processMemory // nil before TPassMemory

	cm        connections
	ringFiles *ringFiles // nil before the hello
	rings     *rings
	fed       bool // feeder.processes has the rings
}

func newSession(s *Server, conn *net.UnixConn) (*session, error) {
	p, err := peerOf(conn)
	if err != nil {
		return nil, err
	}
	k := newSocket(s, conn, p)
	c := &session{
		s: s, process: p, socket: k, rings: newRings(k), objects: map[uint32]object{}, qpns: map[uint32]struct{}{},
		slow: make(chan struct{}, proto.MaxWaiting),
	}
	c.cm.c = c
	if c.account, err = s.accounts.Open(s.now(), p.uid, usesOfProcess...); err != nil {
		return c, overLimit(err)
	}
	k.costs.account, k.costs.now = c.account, s.now
	c.rings.costs.account = c.account
	p.pidfd = pidfdOf(conn, int(p.pid))
	return c, nil
}

// serve answers the messages of the process until it closes its socket, or dies.
func (c *session) serve() {
	buf := make([]byte, proto.MaxMessage)
	c.socket.costs.call(callsToAccept)
	for c.socket.pace() {
		n, fds, err := proto.ReadWith(c.socket.conn, buf, c.socket.metered)
		if err != nil {
			return
		}
		h, body, err := proto.Split(buf[:n])
		switch {
		case err != nil: // it has no number to answer to
			c.socket.discard(fds)
			return
		case !c.greeted.Load() && (h.Type == proto.TStatus || h.Type == proto.TCounters):
			c.socket.discard(fds)
			c.socket.costs.call(callsToOpen)
			c.status(h, body)
			return
		case !c.greeted.Load() && h.Type != proto.THello:
			err = fmt.Errorf("%w: the first message must be a hello", proto.ErrProtocol)
		case c.greeted.Load() && h.Type == proto.THello:
			err = fmt.Errorf("%w: a second hello", proto.ErrProtocol)
		}
		if err != nil {
			c.socket.discard(fds)
			c.socket.costs.call(1)
			c.socket.reply(h, nil, nil, err)
			if !c.greeted.Load() {
				return
			}
			continue
		}
		if !c.greeted.Load() {
			c.socket.discard(fds)
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
	c.socket.costs.call(callsToOpen)
	var m proto.Hello
	var processEnd int
	err := proto.Decode(body, &m)
	switch {
	case err != nil:
	case m.Magic != proto.Magic:
		err = proto.ErrProtocol
	case m.Version != proto.Version:
		err = proto.VersionError(m.Version, proto.Version)
	default:
		processEnd, err = c.open()
	}
	if err != nil {
		c.socket.reply(h, nil, nil, err)
		return false
	}
	l := c.s.dev.Limits()
	most := func(k limits.Kind) uint32 { return uint32(min(c.account.Most(k), proto.MaxObjects)) }
	entries := c.account.Most(limits.CQEntries) | 1
	r := &proto.HelloReply{ // the ring of a completion queue has a power of two of entries
		Version: proto.Version, CQ: uint32(min(l.CQ, 1<<(bits.Len64(entries)-1))), WR: uint32(l.WR), SGE: uint32(l.SGE), MaxInline: uint32(l.Inline),
		MaxRdAtomic: uint32(l.MaxRdAtomic), QPs: most(limits.QPs), CQs: most(limits.CQs), SRQs: most(limits.SRQs), MRs: most(limits.MRs),
		MWs: most(limits.MWs), AHs: most(limits.AHs), RegionBytes: c.account.Most(limits.Bytes),
	}
	c.greeted.Store(true)
	passRights(c.socket.conn, true)
	c.socket.reply(h, r, []int{c.s.feeder.memory.fd, c.ringFiles.fd(), c.rings.wake, processEnd}, nil)
	unix.Close(processEnd)
	return true
}

// open makes what the process and the engine's thread share, and has the engine look at it. processEnd is the socket for
// signals to the process, which belongs to the caller.
func (c *session) open() (processEnd int, err error) {
	var doorbell []byte
	if c.ringFiles, doorbell, err = openRingFiles(c.account); err != nil {
		return -1, err
	}
	if c.rings.doorbell, err = ring.OpenDoorbell(doorbell); err != nil {
		return -1, err
	}
	if c.rings.wake, err = newWake(); err != nil {
		return -1, fmt.Errorf("eventfd: %w", err)
	}
	if err := c.s.feeder.watch(c.rings.wake); err != nil {
		return -1, err
	}
	if c.rings.signal, processEnd, err = signalPair(); err != nil {
		return -1, err
	}
	c.fed = true
	c.counts = c.s.dev.NewCounts()
	c.s.dev.InLoop(func() { c.s.feeder.join(c.rings) })
	return processEnd, nil
}

// request answers one message. Those that wait for a neighbour do so in a goroutine.
func (c *session) request(h proto.Header, body []byte, fds []int) {
	defer func() {
		if !c.socket.abandoned {
			c.socket.discard(fds)
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
		c.socket.costs.call(1)
		c.socket.reply(h, nil, nil, fmt.Errorf("type %d: %w", h.Type, err))
		return
	}
	c.socket.costs.call(callsOf(h.Type))
	c.answer(h, proto.Waits(h.Type, req), func() ([]byte, []int) {
		r, give, err := c.do(h.Type, req, fds)
		return proto.AppendReply(nil, h, r, err), give
	})
}

// requests answers a batch.
func (c *session) requests(h proto.Header, body []byte) {
	parts, err := proto.DecodeBatch(body)
	if err != nil {
		c.socket.costs.call(1)
		c.socket.reply(h, nil, nil, fmt.Errorf("type %d: %w", h.Type, err))
		return
	}
	c.socket.costs.call(callsOfBatch(parts))
	c.answer(h, proto.BatchWaits(parts), func() ([]byte, []int) {
		results, give := c.batch(parts)
		return append(proto.AppendReply(nil, h, nil, nil), results...), give
	})
}

// answer writes the message that do returns, with its descriptors, which stay the server's.
func (c *session) answer(h proto.Header, waits bool, do func() ([]byte, []int)) {
	if !waits {
		b, give := do()
		c.socket.write(b, give...)
		return
	}
	select {
	case c.slow <- struct{}{}:
	default:
		c.socket.reply(h, nil, nil, proto.ErrBusyCalls)
		return
	}
	c.calls.Go(func() {
		b, give := do()
		<-c.slow // before the process can send another request
		c.socket.write(b, give...)
	})
}

// close ends all that the process had.
func (c *session) close() {
	c.socket.hangUp()
	_ = c.socket.conn.CloseWrite() // the process sees the end also if Close takes long
	c.socket.within(func() { c.socket.conn.Close() })
	c.calls.Wait()
	c.cm.close()
	for _, o := range c.inOrder() {
		if err := c.destroy(o); err != nil {
			c.s.log.Error("an object of a process that has ended cannot be destroyed", "pid", c.process.pid, "object", o, "err", err)
		}
	}
	if c.fed {
		c.s.dev.InLoop(func() { c.s.feeder.leave(c.rings) })
	}
	if c.counts != nil {
		c.counts.Close()
	}
	c.mu.Lock() // which checkMemory takes
	if c.memory != nil {
		c.memory.close()
		c.memory = nil
	}
	if c.process.pidfd >= 0 {
		unix.Close(c.process.pidfd)
		c.process.pidfd = -1
	}
	c.mu.Unlock()
	if c.ringFiles != nil {
		c.ringFiles.close()
	}
	if c.rings.wake >= 0 {
		c.s.feeder.forget(c.rings.wake)
		unix.Close(c.rings.wake)
	}
	if c.rings.signal >= 0 {
		unix.Close(c.rings.signal)
	}
	c.closeAccount()
}
