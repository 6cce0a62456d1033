// SPDX-License-Identifier: Apache-2.0

package stream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/softroce/softroce-xdp/rocev2/rdma"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Conn is a net.Conn over RDMA, with CloseWrite.
//
// One goroutine reads and one writes at a time; others wait for their turn. The one that has nothing
// to do receives messages for both (wait).
type Conn struct {
	c    *rdma.Conn
	size int // largest data message, bytes
	give int // owed credits that are worth a message

	reading, writing chan struct{} // full while a goroutine reads or writes
	receiving        chan struct{} // full while a goroutine receives messages
	readable         chan struct{} // signalled: data, end or error
	writable         chan struct{} // signalled: credits, end or error
	rd, wr           *deadline

	ring *rdma.Region // region of send buffers
	ops  []*rdma.Op   // operations that use the send buffers; the writer's
	next int

	mu          sync.Mutex
	in          []*rdma.Message // arrived
	off         int             // bytes of the first one that were read
	credits     int             // data messages that the peer has room for
	limit       int             // maximum of credits: all buffers of the peer
	owed        int             // buffers that were posted again, and the peer does not know
	returning   bool            // a goroutine sends credits
	eof         bool            // the peer has ended its direction
	err         error           // the connection has failed
	writeClosed bool
	closed      bool
	released    bool // resources were released; see release
}

var _ net.Conn = (*Conn)(nil)

// The immediate data of a message.
const (
	creditMask = 1<<16 - 1
	last       = 1 << 16
)

func newConn(c *rdma.Conn, cfg config) (*Conn, error) {
	buffers, size, err := parseHello(c.PeerPrivate())
	if err != nil {
		return nil, err
	}
	size = min(size, cfg.size)
	mem, err := rdma.Alloc(c.Device(), cfg.sends*size)
	if err != nil {
		return nil, err
	}
	ring, err := c.Register(mem, 0)
	if err != nil {
		return nil, errors.Join(err, rdma.Free(c.Device(), mem))
	}
	return &Conn{
		c: c, size: size, give: (cfg.buffers + 1) / 2, credits: buffers, limit: buffers, ring: ring, ops: make([]*rdma.Op, cfg.sends),
		reading: make(chan struct{}, 1), writing: make(chan struct{}, 1), receiving: make(chan struct{}, 1),
		readable: make(chan struct{}, 1), writable: make(chan struct{}, 1), rd: newDeadline(), wr: newDeadline(),
	}, nil
}

// LocalAddr returns the address of this end.
func (s *Conn) LocalAddr() net.Addr { return s.c.LocalAddr() }

// RemoteAddr returns the address of the peer.
func (s *Conn) RemoteAddr() net.Addr { return s.c.RemoteAddr() }

// SetDeadline sets both deadlines.
func (s *Conn) SetDeadline(t time.Time) error {
	_ = s.SetReadDeadline(t)
	return s.SetWriteDeadline(t)
}

// SetReadDeadline sets the time at which Read fails, also one that waits now. The zero time is none.
func (s *Conn) SetReadDeadline(t time.Time) error { return s.setDeadline(s.rd, t) }

// SetWriteDeadline does the same for Write. What Write has sent before is sent.
func (s *Conn) SetWriteDeadline(t time.Time) error { return s.setDeadline(s.wr, t) }

func (s *Conn) setDeadline(d *deadline, t time.Time) error {
	d.set(t)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return s.fails("set deadline", net.ErrClosed)
	}
	return nil
}

// fails makes the error of an operation.
func (s *Conn) fails(op string, err error) error {
	if err == nil || err == io.EOF {
		return err
	}
	return &net.OpError{Op: op, Net: "rdma", Source: s.LocalAddr(), Addr: s.RemoteAddr(), Err: err}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// wait returns when woken is signalled, or something else has happened: the caller looks again. In
// the meantime it receives messages if no other goroutine does. The error is that of ctx.
func (s *Conn) wait(ctx context.Context, woken <-chan struct{}) error {
	select {
	case <-woken:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case s.receiving <- struct{}{}:
	}
	defer func() { <-s.receiving }()
	select {
	case <-woken: // before this goroutine was the one that receives
		return nil
	default:
	}
	m, err := s.c.RecvMessage(ctx)
	switch {
	case err == nil:
		s.arrived(m)
	case ctx.Err() != nil:
		return ctx.Err()
	default:
		s.failed(err)
	}
	return nil
}

// arrived takes a message.
func (s *Conn) arrived(m *rdma.Message) {
	imm, ok := m.Imm()
	data, credits := len(m.Bytes()) > 0, int(imm&creditMask)
	if !data {
		_ = m.Release() // it fails if the connection has ended, which the next RecvMessage reports
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.credits += credits
	if data && s.released {
		_ = m.Release()
		return
	}
	if !ok || s.credits > s.limit || s.eof && data {
		s.err = fmt.Errorf("stream: a message of the peer breaks the protocol: immediate data %#x, %v", imm, ok)
		if data {
			_ = m.Release()
		}
		signal(s.readable)
		signal(s.writable)
		return
	}
	if data {
		s.in = append(s.in, m)
	}
	s.eof = s.eof || imm&last != 0
	if data || s.eof {
		signal(s.readable)
	}
	if credits > 0 {
		signal(s.writable)
	}
}

// release releases the messages that were not read, which keep the buffers of a closed connection, and those
// that another goroutine has just received.
func (s *Conn) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.in {
		_ = m.Release() // the connection was closed
	}
	s.in, s.released = nil, true
}

// failed notes the end of the connection.
func (s *Conn) failed(err error) {
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF // the peer has disconnected without its last message
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = err
	}
	signal(s.readable)
	signal(s.writable)
}

// Read implements net.Conn.
func (s *Conn) Read(p []byte) (n int, err error) {
	defer func() { err = s.fails("read", err) }()
	if err := s.enter(s.reading, s.rd, &s.closed); err != nil {
		return 0, err
	}
	defer func() { <-s.reading }()
	for {
		ctx := s.rd.get()
		n, done, err := s.take(ctx, p)
		if done {
			return n, err
		}
		_ = s.wait(ctx, s.readable) // take reports the deadline
	}
}

// enter waits for the turn of a goroutine that reads or writes, until a deadline or the end.
func (s *Conn) enter(turn chan struct{}, d *deadline, closed *bool) error {
	ctx := d.get()
	var err error
	select {
	case turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		err = os.ErrDeadlineExceeded
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if *closed {
		err = net.ErrClosed
	}
	return err
}

// take copies what has arrived to p. done: there is a result.
func (s *Conn) take(ctx context.Context, p []byte) (n int, done bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return 0, true, net.ErrClosed
	case ctx.Err() != nil:
		return 0, true, ctx.Err()
	case len(p) == 0:
		return 0, true, nil
	}
	for len(s.in) > 0 && n < len(p) {
		m := s.in[0]
		k := copy(p[n:], m.Bytes()[s.off:])
		n += k
		if s.off += k; s.off < len(m.Bytes()) {
			break
		}
		s.in, s.off = s.in[1:], 0
		if m.Release() == nil {
			s.owed++
		}
	}
	switch {
	case n > 0:
		s.returnCredits()
		return n, true, nil
	case s.eof:
		return 0, true, io.EOF
	}
	return 0, s.err != nil, s.err
}

// returnCredits sends a message with the owed credits if it is worth one. The connection is locked. A
// goroutine sends it: that may wait for room in the send queue, for ever if the peer takes no message,
// and a Read or Close does not. It ends with the connection.
func (s *Conn) returnCredits() {
	if s.owed < s.give || s.err != nil || s.returning {
		return
	}
	s.returning = true
	go func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		for s.owed >= s.give && s.err == nil {
			owed := s.owed
			s.owed = 0
			s.mu.Unlock()
			_, err := s.c.Start(context.Background(), message(uint32(owed)))
			s.mu.Lock()
			if err != nil { // the connection has ended
				break
			}
		}
		s.returning = false
	}()
}

// message is a message without data.
func message(imm uint32) *verbs.SendWR {
	return &verbs.SendWR{Op: verbs.OpSendImm, Imm: imm, Flags: verbs.Inline}
}
