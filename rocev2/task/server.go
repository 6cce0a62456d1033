// SPDX-License-Identifier: Apache-2.0

package task

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// ServerConfig are the properties of a Server.
type ServerConfig struct {
	Executor *Executor

	// PD is where the server makes its memory (verbs.NewMemory).
	PD verbs.Registrar

	// QP is a queue pair of service RC in INIT, or later if the peer has sent nothing yet. QPInit
	// has what it is created with. CQ is its completion queue for both directions. The server
	// is the only user of both.
	QP Poster
	CQ Completions

	// Memory is what tasks may access on this node, by rkey; nil for nothing.
	Memory Memory

	// Depth is how many descriptors can be received and not answered; 0 for DefaultDepth. The
	// peer's next SEND is delayed (RNR) until there is room. Each of them may need memory for
	// the operands and the result of the peer, up to MaxBytes of the executor.
	Depth int
}

// Poster is the part of a verbs.QP that a Server needs.
type Poster interface {
	PostSend(wr *verbs.SendWR) error
	PostRecv(wr *verbs.RecvWR) error
}

// Completions is the part of a verbs.CQ that a Server needs.
type Completions interface {
	Poll(out []verbs.Completion) int
	RequestNotify(solicitedOnly bool)
	Notify() <-chan struct{}
}

// DefaultDepth is the Depth of a Server and of a Client that have none.
const DefaultDepth = 16

// QPInit returns how the queue pair of a Server or a Client is created, for a Depth.
func QPInit(cq verbs.CQ, depth int) verbs.QPInit {
	if depth == 0 {
		depth = DefaultDepth
	}
	return verbs.QPInit{Type: verbs.RC, SendCQ: cq, RecvCQ: cq, MaxSend: 3 * depth, MaxRecv: depth, MaxSendSGE: 1, MaxRecvSGE: 1}
}

// MaxDepth is the largest Depth.
const MaxDepth = maxQueue

// ServerBytes is how much memory of its PD a Server has for descriptors and answers. Operands and
// results of the peer need more.
func ServerBytes(depth int) int { return depth * servedBytes }

// CQDepth is the size of the completion queue for QPInit.
func CQDepth(depth int) int {
	if depth == 0 {
		depth = DefaultDepth
	}
	return 4 * depth
}

func checkDepth(depth int) (int, error) {
	if depth == 0 {
		depth = DefaultDepth
	}
	if depth < 1 || depth > maxQueue {
		return 0, fmt.Errorf("task: a depth of %d: use 1 to %d, or 0 for %d", depth, maxQueue, DefaultDepth)
	}
	return depth, nil
}

// Server executes the tasks that the peer of a queue pair sends, and answers them (S1.7). It
// reads operands from the peer by RDMA READ, and writes results to the peer by RDMA WRITE,
// where the descriptor says so.
//
// Keys of the peer are checked by the peer's NIC. A wrong one ends the connection, as it does
// for every RDMA request.
type Server struct {
	config ServerConfig
	origin *Origin
	arena  verbs.DM // descriptors and answers
	slots  []served
	out    []verbs.SendWR // requests that wait for room in the send queue

	waiting []*served // tasks that wait for memory of the peer's operands, the oldest first

	lock     sync.Mutex
	answers  []answered // answers from cores
	answered chan struct{}
}

// answered is the end of a task.
type answered struct {
	slot   int
	answer Answer
}

// kind is what a completion is about: the low bits of its work request's id. The other bits
// are the slot.
const (
	kindRecv = iota
	kindRead
	kindAnswer
	kinds
)

// NewServer posts the receives of a server. Serve does its work, and ends it.
func NewServer(c ServerConfig) (*Server, error) {
	depth, err := checkDepth(c.Depth)
	if err != nil {
		return nil, err
	}
	if c.Memory == nil {
		c.Memory = &Regions{}
	}
	s := &Server{config: c, slots: make([]served, depth), answered: make(chan struct{}, 1)}
	if s.arena, err = verbs.NewMemory(c.PD, ServerBytes(depth), verbs.AccessLocalWrite); err != nil {
		return nil, fmt.Errorf("task: server: %w", err)
	}
	if s.origin, err = c.Executor.NewOrigin(c.Memory); err != nil {
		return nil, errors.Join(err, s.arena.Deregister())
	}
	for i := range s.slots {
		p := &s.slots[i]
		p.server, p.index, p.at = s, i, int64(i*servedBytes)
		if err := p.receive(); err != nil {
			return nil, errors.Join(err, s.release(context.Background()))
		}
	}
	return s, nil
}

// release ends what NewServer began.
func (s *Server) release(ctx context.Context) error {
	failed := s.origin.Close(ctx)
	for i := range s.slots {
		failed = errors.Join(failed, s.slots[i].unstage())
	}
	return errors.Join(failed, s.arena.Deregister())
}

// Serve executes tasks until ctx ends or the connection does, and returns why. Tasks that have
// not ended are canceled; Serve waits for kernels in execution. The caller destroys the queue
// pair afterwards.
func (s *Server) Serve(ctx context.Context) error {
	err := s.loop(ctx)
	return errors.Join(err, s.release(context.Background()))
}

func (s *Server) loop(ctx context.Context) error {
	for {
		busy, err := s.poll()
		if err == nil && !busy {
			s.config.CQ.RequestNotify(false)
			busy, err = s.poll() // what came before the queue was armed
		}
		if err != nil {
			return err
		}
		if busy {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			continue
		}
		select {
		case <-s.config.CQ.Notify():
		case <-s.answered:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// poll handles what there is, and reports whether that was anything.
func (s *Server) poll() (busy bool, err error) {
	var batch [32]verbs.Completion
	n := s.config.CQ.Poll(batch[:])
	for _, c := range batch[:n] {
		if c.Status != verbs.StatusSuccess {
			return true, fmt.Errorf("task: server: the connection has ended: %s", c.Status)
		}
		if err := s.complete(&c); err != nil {
			return true, err
		}
	}
	s.lock.Lock()
	answers := s.answers
	s.answers = nil
	s.lock.Unlock()
	for _, a := range answers {
		if err := s.slots[a.slot].answer(a.answer); err != nil {
			return true, err
		}
	}
	return n > 0 || len(answers) > 0, s.flush()
}

// complete handles a completion.
func (s *Server) complete(c *verbs.Completion) error {
	slot := c.WRID / kinds
	if slot >= uint64(len(s.slots)) {
		return fmt.Errorf("task: server: a completion of work request %d: does another user have its completion queue?", c.WRID)
	}
	p := &s.slots[slot]
	switch c.WRID % kinds {
	case kindRecv:
		return p.received(c.Bytes)
	case kindRead:
		if p.reads--; p.reads == 0 {
			p.ready(nil)
		}
	case kindAnswer:
		return p.receive()
	}
	return nil
}

// sgl is a place in the arena.
func (s *Server) sgl(at int64, n uint32) []verbs.SGE {
	return []verbs.SGE{{Addr: s.arena.VA() + uint64(at), Len: n, LKey: s.arena.LKey()}}
}

// send posts a work request, or keeps it until the queue has room.
func (s *Server) send(wr verbs.SendWR) { s.out = append(s.out, wr) }

func (s *Server) flush() error {
	for len(s.out) > 0 {
		err := s.config.QP.PostSend(&s.out[0])
		if errors.Is(err, verbs.ErrQueueFull) {
			return nil // a completion makes room
		}
		if err != nil {
			return fmt.Errorf("task: server: %w", err)
		}
		s.out = s.out[1:]
	}
	s.out = nil
	return nil
}

// end passes the answer of a task to the loop. Any goroutine calls it.
func (s *Server) end(slot int, a Answer) {
	s.lock.Lock()
	s.answers = append(s.answers, answered{slot, a})
	s.lock.Unlock()
	select {
	case s.answered <- struct{}{}:
	default:
	}
}
