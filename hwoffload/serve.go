// SPDX-License-Identifier: Apache-2.0

package hwoffload

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

const (
	// A client has messageTimeout for its first message, and for the rest of each one that it
	// has begun. Between messages it may do nothing for any time.
	messageTimeout = 10 * time.Second

	// A client that finds the card in use is refused after releaseWait, as the process before
	// may have ended just now.
	releaseWait = time.Second
)

// Serve lets other processes use a device through a listener of unix stream sockets, one at a
// time: Dial connects. It returns nil after the listener was closed, or the error of the
// listener. All connections are closed before it returns. The device stays open.
//
// A message that is malformed, or an access that the address space does not have, ends the
// connection of its client, and does not concern the device.
func Serve(l net.Listener, d Device) error {
	s := server{device: d, seat: make(chan struct{}, 1), conns: map[net.Conn]bool{}}
	defer s.end()
	for {
		conn, err := l.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return nil
			}
			return err
		}
		s.lock.Lock()
		s.conns[conn] = true
		s.lock.Unlock()
		s.done.Go(func() { s.serve(conn) })
	}
}

type server struct {
	device Device
	seat   chan struct{} // semaphore with an element while a client uses the card

	lock  sync.Mutex
	conns map[net.Conn]bool
	done  sync.WaitGroup
}

// end closes all connections and waits for their goroutines.
func (s *server) end() {
	s.lock.Lock()
	for conn := range s.conns {
		conn.Close()
	}
	s.lock.Unlock()
	s.done.Wait()
}

// serve serves one connection.
func (s *server) serve(conn net.Conn) {
	defer func() {
		s.lock.Lock()
		delete(s.conns, conn)
		s.lock.Unlock()
		conn.Close()
	}()
	conn.SetDeadline(time.Now().Add(messageTimeout))
	status, err := readHello(conn)
	if err != nil {
		if status != welcomeOK {
			conn.Write(welcome(status, 0))
		}
		return
	}
	select {
	case s.seat <- struct{}{}:
		defer func() { <-s.seat }() // before the connection is closed: Socket.Close waits for that
	case <-time.After(releaseWait):
		conn.Write(welcome(welcomeBusy, 0))
		return
	}
	if _, err := conn.Write(welcome(welcomeOK, s.device.Size())); err != nil {
		return
	}
	conn.SetDeadline(time.Time{})
	session{s.device, conn}.run()
}

// session is a connection after the handshake.
type session struct {
	device Device
	conn   deadlineConn
}

// deadlineConn is what a session needs of a net.Conn.
type deadlineConn interface {
	io.ReadWriter
	SetReadDeadline(t time.Time) error
	SetWriteDeadline(t time.Time) error
}

// run executes requests until the client ends the connection, or sends something wrong.
func (c session) run() error {
	in := bufio.NewReader(c.conn)
	var out []byte
	var body [maxBody]byte
	for {
		if in.Buffered() == 0 && len(out) > 0 {
			if err := c.send(out); err != nil {
				return err
			}
			out = out[:0]
		}
		m, err := c.next(in, body[:])
		if err == io.EOF {
			return nil
		}
		switch {
		case err != nil:
		case m.op == opR64:
			out, err = c.readAhead(in, out, &m)
		default:
			out, err = c.execute(out, &m)
		}
		if err != nil {
			text := err.Error()
			text = text[:min(len(text), maxBody)]
			out = append(append(out, m.op, 1, byte(len(text)), byte(len(text)>>8)), text...)
			return errors.Join(err, c.send(out))
		}
	}
}

// next reads a request.
func (c session) next(in *bufio.Reader, body []byte) (m message, err error) {
	if in.Buffered() < headLen+16 {
		if _, err := in.Peek(1); err != nil {
			return m, err
		}
		if err := c.conn.SetReadDeadline(time.Now().Add(messageTimeout)); err != nil {
			return m, err
		}
		defer c.conn.SetReadDeadline(time.Time{})
	}
	return readMessage(in, body)
}

// send sends answers. A client that takes none of them does not keep the card.
func (c session) send(out []byte) error {
	if err := c.conn.SetWriteDeadline(time.Now().Add(messageTimeout)); err != nil {
		return err
	}
	_, err := c.conn.Write(out)
	return err
}

// execute executes a request, and appends the answer to out.
func (c session) execute(out []byte, m *message) ([]byte, error) {
	width, count := uint64(4), 1
	switch m.op {
	case opR32:
	case opW32:
		count = 2
	case opW64:
		width, count = 8, 2
	default:
		return out, fmt.Errorf("message %#x is unknown: is it one of a simulator?", m.op)
	}
	v, err := m.words(count)
	if err != nil {
		return out, err
	}
	var wrong Fault // the device would keep the failure
	if !wrong.Check(v[0], width, c.device.Size()) {
		return out, wrong.Err()
	}
	var value uint64
	switch m.op {
	case opR32:
		value = uint64(c.device.R32(v[0]))
	case opW32:
		c.device.W32(v[0], uint32(v[1]))
		return out, nil
	case opW64:
		c.device.W64(v[0], v[1])
		return out, nil
	}
	if err := c.device.Err(); err != nil {
		return out, err
	}
	return appendMessage(out, m.op, 0, value), nil
}
