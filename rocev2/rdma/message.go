// SPDX-License-Identifier: Apache-2.0

package rdma

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"

	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Message is a message that arrived. Its bytes are in a receive buffer of the connection, which is
// posted again by Release. The buffers of a connection are freed when it was closed and all messages were
// released: one that is never released keeps them for as long as the program lives.
type Message struct {
	c      *Conn
	wr     verbs.RecvWR
	mem    []byte
	kind   MessageKind
	n      int // bytes of the message, as the peer sent it
	imm    uint32
	hasImm bool
	out    atomic.Bool // the application has the message
}

// MessageKind is the operation of the peer that a Message comes from.
type MessageKind uint8

// The operations that use a receive buffer (IBTA 9.4).
const (
	// KindSend is a SEND: its data is in the receive buffer.
	KindSend MessageKind = iota + 1
	// KindWrite is a WRITE with immediate data: its data is in memory that this end has registered, at
	// an address that the peer has chosen and that no completion reports. The receive buffer is unchanged.
	KindWrite
)

func (k MessageKind) String() string {
	switch k {
	case KindSend:
		return "SEND"
	case KindWrite:
		return "WRITE with immediate"
	}
	return fmt.Sprintf("message kind %d", uint8(k))
}

// Kind returns the operation of the peer.
func (m *Message) Kind() MessageKind { return m.kind }

// Len returns how many bytes the peer has sent (KindSend) or written (KindWrite).
func (m *Message) Len() int { return m.n }

// Bytes returns the message, until Release, also after Close of the connection or of the device. A message
// of KindWrite has no bytes here, whatever its Len.
func (m *Message) Bytes() []byte {
	if m.kind != KindSend {
		return nil
	}
	return m.mem[:m.n]
}

// Imm returns the immediate data, if the peer has sent some.
func (m *Message) Imm() (v uint32, ok bool) { return m.imm, m.hasImm }

// Release posts the buffer again: the next message may be in it. A message is released once;
// messages that are never released leave fewer buffers.
func (m *Message) Release() error {
	if !m.out.CompareAndSwap(true, false) {
		return errors.New("rdma: the message was released before")
	}
	var err error
	select {
	case <-m.c.dead:
	default:
		err = m.post()
	}
	return wrap("release", m.c.remote, errors.Join(err, m.c.recvMem.release(m.c.host.dev)))
}

func (m *Message) post() error {
	c := m.c
	c.recvOpen.Add(1)
	if err := c.qp.PostRecv(&m.wr); err != nil {
		c.recvOpen.Add(-1)
		return err
	}
	return nil
}

// RecvMessage waits for the next message and returns it without a copy. The message is released
// when it is no longer used. After the peer has closed the connection, and all messages were
// received, the error is io.EOF.
func (c *Conn) RecvMessage(ctx context.Context) (*Message, error) {
	m, err := await(ctx, c, c.inbox)
	switch {
	case c.closing.Load():
		return nil, wrap("recv", c.remote, net.ErrClosed)
	case err == ErrPeerClosed:
		return nil, io.EOF
	case err != nil:
		return nil, wrap("recv", c.remote, err)
	case !c.recvMem.acquire():
		return nil, wrap("recv", c.remote, net.ErrClosed)
	}
	m.out.Store(true)
	return m, nil
}

// Recv waits for the next message, copies it to p and returns its length. If p is too short, it
// gets the beginning, the rest is lost, and the error is io.ErrShortBuffer. A WRITE with immediate data
// is a message of 0 bytes; RecvMessage tells it from an empty SEND. After the peer has closed the
// connection, and all messages were received, the error is io.EOF.
func (c *Conn) Recv(ctx context.Context, p []byte) (int, error) {
	m, err := c.RecvMessage(ctx)
	if err != nil {
		return 0, err
	}
	b := m.Bytes()
	n := copy(p, b)
	if n < len(b) {
		err = io.ErrShortBuffer
	}
	if failed := m.Release(); err == nil && failed != nil && c.Err() == nil {
		err = failed
	}
	return n, err
}
