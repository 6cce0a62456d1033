// SPDX-License-Identifier: Apache-2.0

package stream

import (
	"cmp"
	"context"
	"errors"
	"net"
	"time"

	"github.com/softroce/softroce-xdp/rocev2/rdma"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// closeTime is how long Close waits until everything written has arrived.
const closeTime = 5 * time.Second

// Write implements net.Conn. It returns when all bytes are copied to send buffers.
func (s *Conn) Write(p []byte) (n int, err error) {
	defer func() { err = s.fails("write", err) }()
	if err := s.enter(s.writing, s.wr, &s.writeClosed); err != nil {
		return 0, err
	}
	defer func() { <-s.writing }()
	for {
		ctx := s.wr.get()
		if err := s.mayWrite(ctx); err != nil || len(p) == 0 {
			return n, err
		}
		imm, ok := s.takeCredit()
		if !ok {
			_ = s.wait(ctx, s.writable) // mayWrite reports the deadline
			continue
		}
		k, err := s.send(ctx, p, imm)
		if err != nil {
			s.giveBack(imm)
			if err := s.mayWrite(ctx); err != nil {
				return n, err
			}
			return n, err
		}
		n, p = n+k, p[k:]
	}
}

// mayWrite returns why no more can be written.
func (s *Conn) mayWrite(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.writeClosed:
		return net.ErrClosed
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return s.err
}

// takeCredit takes a credit for a data message, and what is owed for its immediate data.
func (s *Conn) takeCredit() (imm uint32, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.credits == 0 {
		return 0, false
	}
	s.credits--
	imm, s.owed = uint32(s.owed), 0
	return imm, true
}

func (s *Conn) giveBack(imm uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.credits++
	s.owed += int(imm)
}

// send sends the beginning of p as a message, and returns its length.
func (s *Conn) send(ctx context.Context, p []byte, imm uint32) (int, error) {
	if op := s.ops[s.next]; op != nil {
		if _, err := op.Wait(ctx); err != nil {
			return 0, err
		}
	}
	at := s.next * s.size
	n := copy(s.ring.Bytes()[at:at+s.size], p)
	op, err := s.c.Start(ctx, &verbs.SendWR{Op: verbs.OpSendImm, Imm: imm, SGL: []verbs.SGE{s.ring.SGE(at, n)}})
	if err != nil {
		return 0, err
	}
	s.ops[s.next] = op
	s.next = (s.next + 1) % len(s.ops)
	return n, nil
}

// CloseWrite ends this direction: after what was written, the peer reads io.EOF. The other direction
// stays. A Write that waits fails.
func (s *Conn) CloseWrite() error {
	_, err := s.closeWrite(context.Background())
	return s.fails("close write", err)
}

// closeWrite sends the last message, once.
func (s *Conn) closeWrite(ctx context.Context) (*rdma.Op, error) {
	s.mu.Lock()
	first := !s.writeClosed
	s.writeClosed = true
	s.mu.Unlock()
	if !first {
		return nil, net.ErrClosed
	}
	s.wr.end()
	if !s.endWrites(ctx) {
		return nil, ctx.Err()
	}
	defer func() { <-s.writing }()
	s.mu.Lock()
	imm := uint32(s.owed)
	s.owed = 0
	s.mu.Unlock()
	return s.c.Start(ctx, message(last|imm))
}

// endWrites waits for the end of a Write, which returns at once, or of CloseWrite.
func (s *Conn) endWrites(ctx context.Context) bool {
	select {
	case s.writing <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// Close ends both directions and disconnects. What was written is sent before, which takes a round
// trip; if the peer does not answer, five seconds.
func (s *Conn) Close() error {
	s.mu.Lock()
	first := !s.closed
	s.closed = true
	s.mu.Unlock()
	if !first {
		return s.fails("close", net.ErrClosed)
	}
	s.rd.end()
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	end, err := s.closeWrite(ctx)
	if errors.Is(err, net.ErrClosed) {
		err = nil // by CloseWrite
	}
	if s.endWrites(ctx) { // else CloseWrite waits for room in the send queue until the connection ends
		defer func() { <-s.writing }()
		if s.peerDone() {
			err = nil // the peer has closed before; nobody wants the rest
		}
		for _, op := range append(s.ops, end) {
			if op != nil && err == nil {
				_, err = op.Wait(ctx)
			}
		}
	} else {
		err = cmp.Or(err, ctx.Err())
	}
	if s.peerDone() {
		err = nil
	}
	closed := s.c.Close()
	s.release()
	// The first error says why; if the device is gone, all of them are this one.
	err = cmp.Or(err, closed, rdma.Bounded(s.freeRing))
	return s.fails("close", err)
}

// freeRing frees the memory of what is received.
func (s *Conn) freeRing() error {
	return cmp.Or(s.ring.Deregister(), rdma.Free(s.c.Device(), s.ring.Bytes()))
}

// peerDone reports whether the peer has closed its direction and disconnected.
func (s *Conn) peerDone() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return errors.Is(s.c.Err(), rdma.ErrPeerClosed)
}
