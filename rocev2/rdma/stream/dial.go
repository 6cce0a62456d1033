// SPDX-License-Identifier: Apache-2.0

package stream

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"

	"github.com/softroce/softroce-xdp/rocev2/rdma"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Option changes a stream.
type Option func(*config)

type config struct {
	buffers, size int
	sends         int
	options       []rdma.Option
}

// The defaults of WithWindow: 32 buffers of 16 KB.
const (
	DefaultBuffers    = 32
	DefaultBufferSize = 16 << 10
)

// WithWindow sets the number of receive buffers and their length in bytes. The peer can send as
// much before a Read; each Write uses at least one buffer. As many send buffers of the length are
// used, up to 16.
func WithWindow(buffers, size int) Option {
	return func(c *config) { c.buffers, c.size = buffers, size }
}

// WithConn passes options to rdma.Dial or rdma.Listen. Private data, numbers and lengths of buffers
// are the stream's own.
func WithConn(list ...rdma.Option) Option {
	return func(c *config) { c.options = append(c.options, list...) }
}

const (
	// reserve is how many messages without data can arrive before a Read: two returns of credits,
	// and the last message.
	reserve = 3
	// maxBuffers fit the field for credits.
	maxBuffers = 1 << 12
	maxSends   = 16
)

func complete(list []Option) (config, error) {
	c := config{buffers: DefaultBuffers, size: DefaultBufferSize}
	for _, set := range list {
		set(&c)
	}
	if c.buffers < 1 || c.buffers > maxBuffers || c.size < 1 || c.size > 1<<24 {
		return c, fmt.Errorf("stream: %d buffers of %d bytes: choose 1 to %d buffers of 1 byte to 16 MB", c.buffers, c.size, maxBuffers)
	}
	c.sends = min(c.buffers, maxSends)
	c.options = append(c.options,
		rdma.WithRecvBuffers(c.buffers+reserve), rdma.WithMaxMessage(c.size), rdma.WithSendDepth(c.sends+reserve),
		rdma.WithPrivate(c.hello()))
	return c, nil
}

// The private data of request and acceptance.
const (
	magic    = "SRS1"
	helloLen = 10
)

func (c config) hello() []byte {
	b := binary.BigEndian.AppendUint16([]byte(magic), uint16(c.buffers))
	return binary.BigEndian.AppendUint32(b, uint32(c.size))
}

var errNoStream = errors.New("stream: the peer is no stream: it uses rdma.Dial or rdma.Listen, or another program has the port")

// parseHello returns the buffers of the peer.
func parseHello(b []byte) (buffers, size int, err error) {
	if len(b) < helloLen || string(b[:4]) != magic {
		return 0, 0, errNoStream
	}
	buffers, size = int(binary.BigEndian.Uint16(b[4:])), int(binary.BigEndian.Uint32(b[6:]))
	if buffers < 1 || size < 1 {
		return 0, 0, fmt.Errorf("stream: the peer offers %d buffers of %d bytes", buffers, size)
	}
	return buffers, size, nil
}

// Dial connects to a listener of this package, as rdma.Dial does.
func Dial(ctx context.Context, dev verbs.Device, address string, list ...Option) (*Conn, error) {
	cfg, err := complete(list)
	if err != nil {
		return nil, err
	}
	c, err := rdma.Dial(ctx, dev, address, cfg.options...)
	if err != nil {
		return nil, err
	}
	s, err := newConn(c, cfg)
	if err != nil {
		_ = c.Close()
		return nil, err
	}
	return s, nil
}

// Listener is a net.Listener.
type Listener struct {
	l   *rdma.Listener
	cfg config
}

var _ net.Listener = (*Listener)(nil)

// Listen accepts streams at a port, as rdma.Listen does.
func Listen(ctx context.Context, dev verbs.Device, address string, list ...Option) (*Listener, error) {
	cfg, err := complete(list)
	if err != nil {
		return nil, err
	}
	l, err := rdma.Listen(ctx, dev, address, cfg.options...)
	if err != nil {
		return nil, err
	}
	return &Listener{l, cfg}, nil
}

// Addr returns the address of the listener.
func (l *Listener) Addr() net.Addr { return l.l.Addr() }

// Close ends the listener, and Accept. Accepted connections stay.
func (l *Listener) Close() error { return l.l.Close() }

// Accept waits for the next connection. Requests that are no streams are rejected.
func (l *Listener) Accept() (net.Conn, error) {
	ctx := context.Background()
	for {
		r, err := l.l.Next(ctx)
		if err != nil {
			return nil, err
		}
		if _, _, err := parseHello(r.Private()); err != nil {
			_ = r.Reject([]byte("this port has streams: use stream.Dial"))
			continue
		}
		c, err := r.Accept(ctx)
		if err != nil {
			continue // the peer has given up, or was rejected
		}
		s, err := newConn(c, l.cfg)
		if err != nil {
			_ = c.Close()
			continue
		}
		return s, nil
	}
}
