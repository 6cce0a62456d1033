// SPDX-License-Identifier: Apache-2.0

package perf

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"

	"github.com/softroce/softroce-xdp/cmd/internal/cli"
	"github.com/softroce/softroce-xdp/rocev2/rdma"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// maxClients is the number of connections that are served at a time: one has its run, the
// others wait for it or have not sent their plan yet, for which they have answerTime.
const maxClients = 16

// server is the state that all clients share.
type server struct {
	dev    verbs.Device
	memory uint64 // bytes that one run may register
	log    *slog.Logger
	with   *rdma.Encryption // nil: runs are plain
	device chan struct{}    // semaphore with one element while a run has the device
}

// why is what Serve returns when ctx has ended: an error only if the device is gone.
func why(ctx context.Context) error {
	if cause := context.Cause(ctx); errors.Is(cause, verbs.ErrGone) {
		return cause
	}
	return nil
}

// Serve serves clients until ctx or the device ends: up to maxClients at a time, and their runs
// one after the other. An error of a run is sent to the client and logged. No run gets more
// than memory bytes. All runs are encrypted if with is not nil, and none otherwise.
func Serve(ctx context.Context, l net.Listener, dev verbs.Device, memory uint64, with *rdma.Encryption, log *slog.Logger) error {
	ctx, end := context.WithCancelCause(ctx)
	defer context.AfterFunc(ctx, func() { _ = l.Close() })()
	var clients sync.WaitGroup
	defer func() {
		end(nil)
		clients.Wait()
	}()
	s := &server{dev, memory, log, with, make(chan struct{}, 1)}
	room := make(chan struct{}, maxClients)
	for {
		select {
		case room <- struct{}{}: // others wait in the listener's queue
		case <-ctx.Done():
			return why(ctx)
		}
		conn, err := l.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return why(ctx)
			}
			return err
		}
		clients.Go(func() {
			defer func() { <-room }()
			if err := s.client(ctx, conn); errors.Is(err, verbs.ErrGone) {
				end(err)
			}
		})
	}
}

// client serves one client, and sends it the error if the run fails.
func (s *server) client(ctx context.Context, conn net.Conn) error {
	t := newControlConn(ctx, conn)
	defer t.guard()()
	defer conn.Close()
	err := s.serve(ctx, t)
	if err != nil && ctx.Err() == nil {
		s.log.Warn("the run failed", "client", conn.RemoteAddr(), "err", err)
		_ = t.send(message{Error: err.Error()})
	}
	return err
}

// agree reads the client's plan, and refuses what is not permitted.
func (s *server) agree(t *controlConn) (*message, error) {
	hello, err := t.receive(answerTime)
	if err != nil {
		return nil, err
	}
	p := hello.Plan
	switch {
	case p == nil || !hello.Addr.IsValid():
		return nil, errors.New("that is no plan: use `softroce-xdp perf` as the client")
	case len(hello.Pairs) != p.QPs:
		return nil, fmt.Errorf("the plan has %d queue pairs, the message %d", p.QPs, len(hello.Pairs))
	}
	if err := p.Validate(); err != nil {
		return nil, err
	}
	if err := sameEncryption(p, s.with); err != nil {
		return nil, err
	}
	if n := p.memory(); n > s.memory {
		return nil, fmt.Errorf("the run needs %s of memory here, and this server lends %s: start it with a larger --memory",
			cli.Bytes(n), cli.Bytes(s.memory))
	}
	return &hello, nil
}

// serve has one run from the plan to the last message.
func (s *server) serve(ctx context.Context, t *controlConn) error {
	hello, err := s.agree(t)
	if err != nil {
		return err
	}
	select {
	case s.device <- struct{}{}:
		defer func() { <-s.device }()
	case <-ctx.Done():
		return ctx.Err()
	}
	p := hello.Plan
	s.log.Info("run", "client", t.conn.RemoteAddr(), "operation", p.Op, "service", p.Service, "size", p.Size, "qps", p.QPs)
	e, err := newEnd(ctx, s.dev, p)
	if err != nil {
		return err
	}
	defer e.close()
	reply, err := s.connect(t, e, hello)
	if err != nil {
		return err
	}
	if _, err := t.ask(reply); err != nil {
		return err
	}
	if err := t.send(message{}); err != nil {
		return err
	}
	finished, messages, err := e.receiveAll(ctx, t)
	if err != nil {
		return err
	}
	return t.send(e.report(&finished, messages))
}

// connect connects the queue pairs to those of the client, and returns what the client needs to know.
func (s *server) connect(t *controlConn, e *end, hello *message) (reply message, err error) {
	if reply, err = e.describe(hello.Addr); err != nil {
		return reply, err
	}
	if n := len(hello.Rails); n > len(reply.Rails) {
		return reply, fmt.Errorf("the client has %d further interfaces and this server %d: name as many with --rail at both", n, len(reply.Rails))
	}
	reply.Rails = reply.Rails[:len(hello.Rails)]
	pmtu, err := e.plan.pmtu(min(reply.MTU, hello.MTU))
	if err != nil {
		return reply, err
	}
	if e.plan.Op == "read" {
		e.fillAll()
	}
	if reply.Pairs, err = e.answer(t.conn, s.with, hello.Pairs); err != nil {
		return reply, err
	}
	reply.Buffer, reply.RKey = e.region.VA(), e.region.RKey()
	return reply, e.connect(t.ctx, hello, len(reply.Rails), pmtu, true)
}
