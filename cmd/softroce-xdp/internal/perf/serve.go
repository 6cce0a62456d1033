// SPDX-License-Identifier: Apache-2.0

package perf

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"time"

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
		}
		conn, err := l.Accept()
		if err != nil {
			if cause := context.Cause(ctx); errors.Is(cause, verbs.ErrGone) {
				return cause
			} else if cause != nil {
				return nil
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
		return nil, fmt.Errorf("the run needs %s of memory here, and this server lends %s: start it with a larger --memory", cli.Bytes(n), cli.Bytes(s.memory))
	}
	return &hello, nil
}

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
	p, dev, log := hello.Plan, s.dev, s.log
	log.Info("run", "client", t.conn.RemoteAddr(), "operation", p.Op, "service", p.Service, "size", p.Size, "qps", p.QPs)
	port, err := dev.Port()
	if err != nil {
		return err
	}
	e, err := newEnd(ctx, dev, p)
	if err != nil {
		return err
	}
	defer e.close()
	rails, mtu, err := e.rails(hello.Addr, port.MTU)
	if err != nil {
		return err
	}
	if n := len(hello.Rails); n > len(rails) {
		return fmt.Errorf("the client has %d further interfaces and this server %d: name as many with --rail at both", n, len(rails))
	}
	rails = rails[:len(hello.Rails)]
	pmtu, err := p.pmtu(min(mtu, hello.MTU))
	if err != nil {
		return err
	}
	if p.Op == "read" {
		e.fillAll()
	}
	local, err := address(port, hello.Addr)
	if err != nil {
		return err
	}
	pairs, err := e.answer(t.conn, s.with, hello.Pairs)
	if err != nil {
		return err
	}
	if err := e.connect(ctx, hello, len(rails), pmtu, true); err != nil {
		return err
	}
	if err := t.send(message{Addr: local, Rails: rails, MTU: mtu, Pairs: pairs, Buffer: e.region.VA(), RKey: e.region.RKey()}); err != nil {
		return err
	}
	if _, err := t.receive(answerTime); err != nil {
		return err
	}
	if err := t.send(message{}); err != nil {
		return err
	}

	// The engine answers by itself; only SEND takes what the application posts.
	receiving, cancel := context.WithCancel(ctx)
	defer cancel()
	got := make(chan result, 1)
	// The duration of a counted run is unknown; TCP detects a client that is gone.
	limit := time.Time{}
	if p.Count == 0 {
		limit = time.Now().Add(p.Warmup + p.Duration + 10*time.Minute)
	}
	_ = t.conn.SetReadDeadline(limit)
	go func() {
		r := e.receive(receiving)
		if r.err != nil { // the client would wait for receives for ever
			_ = t.conn.SetReadDeadline(time.Unix(1, 0))
		}
		got <- r
	}()
	finished, err := t.next()
	cancel()
	r := <-got
	if r.err != nil {
		return r.err
	}
	if err != nil {
		return err
	}
	answer := message{Messages: r.messages, Counters: e.counters()}
	if p.Op != "send" {
		answer.Messages = finished.Messages
	}
	// With fewer messages than busy queue pairs, the client has not listed the idle ones.
	if p.Check && p.Op != "read" && finished.Messages >= uint64(len(e.qps)-min(len(finished.Idle), len(e.qps))) {
		answer.Bad = e.compare(finished.Idle)
	}
	return t.send(answer)
}

// result has the messages that the receive queues got.
type result struct {
	messages uint64
	err      error
}

// receive polls completions and posts the receives again, until ctx has ended and no completion
// is left.
func (e *end) receive(ctx context.Context) (r result) {
	var batch [256]verbs.Completion
	for {
		n := e.cq.Poll(batch[:])
		for i := range batch[:n] {
			w := &batch[i]
			if w.Status != verbs.StatusSuccess {
				r.err = e.failure(fmt.Sprintf("receive on queue pair %#x", w.QPN), w.Status)
				return r
			}
			r.messages++
			if err := e.postRecv(int(w.WRID)); err != nil && !errors.Is(err, verbs.ErrQueueFull) {
				r.err = err
				return r
			}
		}
		if n > 0 {
			continue
		}
		if err := e.cq.Wait(ctx, false); err != nil {
			if ctx.Err() == nil {
				r.err = err
			}
			return r
		}
	}
}

// compare returns the first place at which the memory differs from the sender's, or "". Idle
// queue pairs are not compared.
func (e *end) compare(idle []int) string {
	for i := range e.qps {
		if slices.Contains(idle, i) {
			continue
		}
		if at := differs(e.data(i), uint64(i)); at >= 0 {
			return fmt.Sprintf("queue pair %d: byte %d differs", i, at)
		}
	}
	return ""
}
