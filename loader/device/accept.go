// SPDX-License-Identifier: Apache-2.0

package device

import (
	"cmp"
	"errors"
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/rocev2/rdma/proto"
)

const (
	// acceptPause is the pause after accept has failed, because there are too many descriptors for
	// example.
	acceptPause = 50 * time.Millisecond

	// acceptRate is how many connections the server accepts in a second on average by default, and acceptSaved for
	// how long those that were not made are kept. This limits what connections cost of which the server
	// does not know the user yet.
	acceptRate  = 200
	acceptSaved = 5 * time.Second

	// backlog is how many connections wait to be accepted. Processes block in connect beyond it, and are
	// served in order. So a process that connects without pause delays others by a fraction of a second.
	backlog = 128

	// maxRefused is how many processes get an answer at the same time that says why they are refused.
	// More of them only see that the connection ends: waiting for their messages would take as many
	// descriptors.
	maxRefused = 64

	// maxClosers is how many connections are closed at the same time without an answer. Before Linux
	// 6.16, close may wait for what a process has sent with descriptors.
	maxClosers = 64
)

// configure sets the backlog of the listener. Messages of processes that were not accepted cannot have
// descriptors, since to close those may take as long as the process likes (foreign.go).
func configure(l *net.UnixListener) error {
	raw, err := l.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		failed = unix.Listen(int(fd), backlog) // again, since package net takes net.core.somaxconn
	})
	passRights(l, false)
	return errors.Join(err, failed)
}

// passRights sets whether a process may pass descriptors to a connection, or to those that a listener will have. Before
// Linux 6.16 it always may.
func passRights(conn syscall.Conn, on bool) {
	v := 0
	if on {
		v = 1
	}
	if raw, err := conn.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { _ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PASSRIGHTS, v) })
	}
}

// now is the time of the limits of rates.
func (s *Server) now() time.Duration { return s.feeder.now() }

func (s *Server) accept() {
	for {
		conn, err := s.listener.AcceptUnix()
		pause := acceptPause
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			s.log.Warn("a process cannot connect", "err", err)
		default:
			s.begin(conn)
			if pause = s.accepts.Spend(s.now(), 1, cmp.Or(s.conf.Accepts, acceptRate), acceptSaved); pause < shortWait {
				continue
			}
		}
		select {
		case <-time.After(pause):
		case <-s.done:
		}
	}
}

// begin serves a process, or refuses it. There is a bounded number of goroutines for each.
func (s *Server) begin(conn *net.UnixConn) {
	c, err := newSession(s, conn)
	if err == nil {
		s.all.Go(func() { s.serve(c) })
		return
	}
	select {
	case s.refused <- struct{}{}:
		s.all.Go(func() {
			defer func() { <-s.refused }()
			s.refuse(conn, err)
		})
		return
	default:
	}
	s.closers <- struct{}{}
	s.all.Go(func() {
		conn.Close()
		<-s.closers
	})
}

// serve serves a process until it ends.
func (s *Server) serve(c *session) {
	done := make(chan struct{})
	if !s.admit(c) {
		c.close()
		return
	}
	s.all.Go(func() { c.socket.sendEvents(done) })
	s.log.Debug("a process opened the device", "pid", c.process.pid, "uid", c.process.uid)
	c.serve()
	close(done)
	c.close()
	s.mu.Lock()
	delete(s.sessions, c)
	s.mu.Unlock()
	s.log.Debug("a process left the device", "pid", c.process.pid, "uid", c.process.uid)
}

// refuse answers the first message of a process with an error.
func (s *Server) refuse(conn *net.UnixConn, why error) {
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(writePatience))
	answered := make(chan struct{})
	defer close(answered)
	go func() {
		select {
		case <-answered:
		case <-s.done:
			_ = conn.SetDeadline(time.Unix(1, 0))
		}
	}()
	buf := make([]byte, proto.MaxMessage)
	n, fds, err := proto.Read(conn, buf)
	if err != nil {
		return
	}
	proto.CloseFDs(fds)
	if h, _, err := proto.Split(buf[:n]); err == nil {
		_ = proto.Write(conn, proto.AppendReply(nil, h, nil, why))
	}
}
