// SPDX-License-Identifier: Apache-2.0

package hwoffload

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// flushBytes is how many bytes of posted writes are sent together at most.
const flushBytes = 16 << 10

// Socket is a Device behind a unix stream socket: a simulator, or a model that another process
// serves (Serve). Writes are posted: they are sent together with later ones, but without
// delay. A read waits for its answer.
//
// If no answer arrives within the timeout of Dial, or the connection ends, Err returns the
// reason, and all later accesses fail at once.
type Socket struct {
	Fault
	addr    string
	conn    net.Conn
	size    uint64
	timeout time.Duration

	lock   sync.Mutex
	in     *bufio.Reader
	out    []byte // posted writes that are not sent yet
	body   [maxBody]byte
	closed bool

	kick chan struct{} // there are posted writes
	done sync.WaitGroup
}

var _ Device = (*Socket)(nil)

// Dial connects to a card. addr is "unix:" and the path of the socket. timeout limits
// connecting, and the wait for each answer. One process at a time may use a card.
func Dial(addr string, timeout time.Duration) (*Socket, error) {
	path, ok := strings.CutPrefix(addr, "unix:")
	if !ok || path == "" {
		return nil, fmt.Errorf("card at %q: use unix: and the path of its socket, for example unix:/run/card.sock", addr)
	}
	conn, err := net.DialTimeout("unix", path, timeout)
	if err != nil {
		return nil, fmt.Errorf("card at %s: %w", addr, err)
	}
	return newSocket(addr, conn, timeout)
}

// newSocket uses a connection to a card, which it closes if the card refuses this process.
func newSocket(addr string, conn net.Conn, timeout time.Duration) (*Socket, error) {
	s := &Socket{addr: addr, conn: conn, timeout: timeout, in: bufio.NewReader(conn), kick: make(chan struct{}, 1)}
	if err := s.handshake(); err != nil {
		conn.Close()
		return nil, s.explain(err)
	}
	s.done.Go(s.flusher)
	return s, nil
}

func (s *Socket) handshake() error {
	if err := s.conn.SetDeadline(time.Now().Add(s.timeout)); err != nil {
		return err
	}
	_, sent := s.conn.Write(hello())
	if sent != nil && !ended(sent) {
		return sent
	}
	// A server that refuses the client may have closed the connection already; its message can still be read.
	size, err := readWelcome(s.in)
	if err == nil {
		err = sent
	}
	s.size = size
	return err
}

// ended reports whether a write failed because the server has ended the connection.
func ended(err error) bool { return errors.Is(err, unix.EPIPE) || errors.Is(err, unix.ECONNRESET) }

// refusal returns the reason that the server sent before it ended the connection. If it sent none, or a write
// has failed for another reason, that is err. The caller has the lock.
func (s *Socket) refusal(err error) error {
	for ended(err) {
		m, failed := readMessage(s.in, s.body[:])
		if failed != nil {
			return err
		}
		if m.status != 0 {
			return refused(m)
		}
	}
	return err
}

func refused(m message) error { return fmt.Errorf("the card refuses the access: %s", m.body) }

// explain adds the address to an error of the connection, and says what it means.
func (s *Socket) explain(err error) error {
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		err = fmt.Errorf("no answer within %v: does its process still run?", s.timeout)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), ended(err):
		err = fmt.Errorf("the connection has ended: does its process still run? (%w)", err)
	}
	return fmt.Errorf("card at %s: %w", s.addr, err)
}

// Size is the length of the address space in bytes.
func (s *Socket) Size() uint64 { return s.size }

// R32 reads 32 bits. All ones is the value after a failure.
func (s *Socket) R32(addr uint64) uint32 { return uint32(s.read(opR32, addr, 4)) }

// R64 reads 64 bits. All ones is the value after a failure.
func (s *Socket) R64(addr uint64) uint64 { return s.read(opR64, addr, 8) }

// W32 writes 32 bits.
func (s *Socket) W32(addr uint64, v uint32) { s.write(opW32, addr, uint64(v), 4) }

// W64 writes 64 bits.
func (s *Socket) W64(addr uint64, v uint64) { s.write(opW64, addr, v, 8) }

func (s *Socket) read(op byte, addr, width uint64) uint64 {
	if !s.Check(addr, width, s.size) {
		return ^uint64(0)
	}
	v, err := s.Call(op, addr)
	if err != nil {
		return ^uint64(0)
	}
	return v
}

// R64s reads 64-bit words from an address on into dst. The reads are sent together, and one wait
// is for all answers; each is an access of its own. All ones are the values after a failure.
func (s *Socket) R64s(addr uint64, dst []uint64) {
	const most = 512 // answers that fit the socket while the requests are sent
	for len(dst) > 0 {
		n := min(len(dst), most)
		s.someR64s(addr, dst[:n])
		dst, addr = dst[n:], addr+8*uint64(n)
	}
}

func (s *Socket) someR64s(addr uint64, dst []uint64) {
	s.lock.Lock()
	defer s.lock.Unlock()
	good := s.usable()
	for i := range dst {
		if good = good && s.Check(addr+8*uint64(i), 8, s.size); good {
			s.out = appendMessage(s.out, opR64, 0, addr+8*uint64(i))
		}
	}
	if good {
		s.flush()
	}
	for i := range dst {
		dst[i] = ^uint64(0)
		if s.Err() != nil {
			continue
		}
		v, err := s.answer(opR64)
		if err != nil {
			s.fail(err)
			continue
		}
		dst[i] = v
	}
}

func (s *Socket) write(op byte, addr, v, width uint64) {
	if s.Check(addr, width, s.size) {
		s.Post(op, addr, v)
	}
}

// Post sends a request that has no answer. Requests of simulators have operations from
// OpSimulator on, and at most 128 numbers.
func (s *Socket) Post(op byte, body ...uint64) {
	s.lock.Lock()
	defer s.lock.Unlock()
	if !s.usable() {
		return
	}
	s.out = appendMessage(s.out, op, 0, body...)
	if len(s.out) >= flushBytes {
		s.flush()
		return
	}
	select {
	case s.kick <- struct{}{}:
	default:
	}
}

// Call sends a request and returns the value that is the answer. The error is that of Err.
func (s *Socket) Call(op byte, body ...uint64) (uint64, error) {
	s.lock.Lock()
	defer s.lock.Unlock()
	if !s.usable() {
		return 0, s.Err()
	}
	s.out = appendMessage(s.out, op, 0, body...)
	s.flush()
	if s.Err() != nil {
		return 0, s.Err()
	}
	v, err := s.answer(op)
	if err != nil {
		s.fail(err)
	}
	return v, s.Err()
}

// answer reads the answer to a request.
func (s *Socket) answer(op byte) (uint64, error) {
	m, err := readMessage(s.in, s.body[:])
	if err != nil {
		return 0, err
	}
	if m.status != 0 {
		return 0, refused(m)
	}
	if m.op != op || len(m.body) != 8 {
		return 0, fmt.Errorf("message %#x with %d bytes answers message %#x", m.op, len(m.body), op)
	}
	return binary.LittleEndian.Uint64(m.body), nil
}

// usable reports whether the connection can be used. The caller has the lock.
func (s *Socket) usable() bool {
	if s.closed {
		s.Set(os.ErrClosed)
	}
	return s.Err() == nil
}

// fail stores the reason why the connection is of no use any more, and ends it.
func (s *Socket) fail(err error) {
	s.Set(s.explain(err))
	s.conn.Close()
}

// flush sends the posted writes, and starts the wait for an answer. The caller has the lock.
func (s *Socket) flush() {
	err := s.conn.SetDeadline(time.Now().Add(s.timeout))
	if err == nil && len(s.out) > 0 {
		_, err = s.conn.Write(s.out)
		s.out = s.out[:0]
	}
	if err != nil {
		s.fail(s.refusal(err))
	}
}

// flusher sends writes that no read follows.
func (s *Socket) flusher() {
	for range s.kick {
		s.lock.Lock()
		if len(s.out) > 0 && s.usable() {
			s.flush()
		}
		s.lock.Unlock()
	}
}

// Close sends what was posted, and waits until the server has executed it and ended the
// connection, so that another process may connect. The timeout of Dial limits the wait.
func (s *Socket) Close() error {
	defer s.done.Wait()
	s.lock.Lock()
	defer s.lock.Unlock()
	if s.closed {
		return nil
	}
	if s.Err() == nil {
		s.flush()
	}
	if s.Err() == nil {
		s.conn.(*net.UnixConn).CloseWrite()
		if err := s.serverEnds(); err != nil {
			s.fail(err)
		}
	}
	s.closed = true
	close(s.kick)
	return errors.Join(s.Err(), ignoreClosed(s.conn.Close()))
}

// serverEnds waits until the server has ended the connection. If the server refuses something before that, it returns
// the reason.
func (s *Socket) serverEnds() error {
	for {
		m, err := readMessage(s.in, s.body[:])
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case m.status != 0:
			return refused(m)
		}
	}
}

// ignoreClosed drops the error of a second Close.
func ignoreClosed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}
