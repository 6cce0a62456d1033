// SPDX-License-Identifier: Apache-2.0

// Package rping is the protocol of rping(1), the example of librdmacm, over a connection. Internal to this project.
//
// The client sends where its memory is: an address (64 bits), a key (32) and a length in bytes (32),
// big-endian. The server READs that memory and answers with a message of the same length, whose
// content means nothing. The client sends where other memory is, the server WRITEs the bytes there
// and answers again. This is one round trip; the next one follows on the same connection. The client
// ends by disconnecting.
package rping

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/softroce/softroce-xdp/rocev2/rdma"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

const (
	// Port is the port of rping unless it is told another one.
	Port = 7174
	// MaxSize is the most bytes of a round trip, as in rping.
	MaxSize = 64 << 10

	infoLen = 16 // bytes of a message
)

// ErrData: other bytes came back than were sent.
var ErrData = errors.New("wrong data came back")

// Options are the options that a connection for a Client or a Server needs.
func Options() []rdma.Option { return []rdma.Option{rdma.WithMaxMessage(infoLen)} }

// end is one end of a connection: its memory, half of which is for each step.
type end struct {
	conn *rdma.Conn
	mem  []byte
	reg  *rdma.Region
}

func newEnd(c *rdma.Conn, access verbs.Access) (end, error) {
	mem, err := rdma.Alloc(c.Device(), 2*MaxSize)
	if err != nil {
		return end{}, err
	}
	reg, err := c.Register(mem, access)
	if err != nil {
		return end{}, errors.Join(err, rdma.Free(c.Device(), mem))
	}
	return end{c, mem, reg}, nil
}

// Close disconnects and releases the memory.
func (e *end) Close() error {
	err := e.conn.Close()
	return errors.Join(err, rdma.Bounded(func() error {
		return errors.Join(e.reg.Deregister(), rdma.Free(e.conn.Device(), e.mem))
	}))
}

// send sends n bytes of the region from off as a place.
func (e *end) send(ctx context.Context, off, n int) error {
	var b [infoLen]byte
	binary.BigEndian.PutUint64(b[:], e.reg.VA()+uint64(off))
	binary.BigEndian.PutUint32(b[8:], e.reg.RKey())
	binary.BigEndian.PutUint32(b[12:], uint32(n))
	return e.conn.Send(ctx, b[:])
}

// recv returns the place in the peer's next message.
func (e *end) recv(ctx context.Context) (p rdma.Remote, err error) {
	var b [infoLen]byte
	n, err := e.conn.Recv(ctx, b[:])
	if err != nil {
		return p, err
	}
	if n != infoLen {
		return p, fmt.Errorf("the peer sent a message of %d bytes; those of rping have %d", n, infoLen)
	}
	return rdma.Remote{
		Addr: binary.BigEndian.Uint64(b[:]), RKey: binary.BigEndian.Uint32(b[8:]), Len: uint64(binary.BigEndian.Uint32(b[12:])),
	}, nil
}

// Client asks for round trips. One goroutine at a time calls its methods.
type Client struct{ end }

// NewClient makes the client of a connection that was dialed. Its Close closes the connection; after
// an error the connection is the caller's.
func NewClient(c *rdma.Conn) (*Client, error) {
	e, err := newEnd(c, verbs.AccessLocalWrite|verbs.AccessRemoteRead|verbs.AccessRemoteWrite)
	if err != nil {
		return nil, err
	}
	return &Client{e}, nil
}

// Ping has the server read data and write it back, up to MaxSize bytes, which it compares with what
// was sent unless verify is false: ErrData. After any other error the connection is of no further use.
func (c *Client) Ping(ctx context.Context, data []byte, verify bool) error {
	if len(data) > MaxSize {
		return fmt.Errorf("%d bytes: at most %d", len(data), MaxSize)
	}
	source, sink := c.mem[:len(data)], c.mem[MaxSize:][:len(data)]
	copy(source, data)
	if verify {
		for i := range sink {
			sink[i] = ^data[i]
		}
	}
	for _, off := range []int{0, MaxSize} {
		if err := c.send(ctx, off, len(data)); err != nil {
			return closed(err)
		}
		if _, err := c.recv(ctx); err != nil {
			return closed(err)
		}
	}
	if verify && !slices.Equal(sink, data) {
		i := 0
		for sink[i] == data[i] {
			i++
		}
		return fmt.Errorf("%w: byte %d of %d is %#02x, and %#02x was sent", ErrData, i, len(data), sink[i], data[i])
	}
	return nil
}

// closed is the error of a client whose peer may have disconnected.
func closed(err error) error {
	if errors.Is(err, io.EOF) {
		return rdma.ErrPeerClosed
	}
	return err
}

// Server answers round trips.
type Server struct{ end }

// NewServer makes the server of a connection that was accepted. Its Close closes the connection;
// after an error the connection is the caller's.
func NewServer(c *rdma.Conn) (*Server, error) {
	e, err := newEnd(c, verbs.AccessLocalWrite)
	if err != nil {
		return nil, err
	}
	return &Server{e}, nil
}

// Answer answers one round trip and returns its data, which is valid until the next call. After the
// client has disconnected between two of them, the error is io.EOF.
func (s *Server) Answer(ctx context.Context) ([]byte, error) {
	p, err := s.recv(ctx)
	if err != nil {
		return nil, err
	}
	n, err := s.move(ctx, verbs.OpRead, p)
	if err != nil {
		return nil, err
	}
	if p, err = s.recv(ctx); err != nil {
		return nil, closed(err)
	}
	if p.Len > uint64(n) {
		return nil, fmt.Errorf("the peer wants %d bytes back and gave %d", p.Len, n)
	}
	if _, err := s.move(ctx, verbs.OpWrite, p); err != nil {
		return nil, err
	}
	return s.mem[:n], nil
}

// move reads or writes memory of the client, and tells that it has.
func (s *Server) move(ctx context.Context, op verbs.Op, p rdma.Remote) (int, error) {
	if p.Len > MaxSize {
		return 0, fmt.Errorf("the peer wants %d bytes moved: at most %d", p.Len, MaxSize)
	}
	n := int(p.Len)
	_, err := s.conn.Do(ctx, &verbs.SendWR{Op: op, SGL: []verbs.SGE{s.reg.SGE(0, n)}, RemoteAddr: p.Addr, RKey: p.RKey})
	if err != nil {
		return 0, closed(err)
	}
	return n, closed(s.send(ctx, 0, 0))
}
