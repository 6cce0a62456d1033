// SPDX-License-Identifier: Apache-2.0

package card

import (
	"net"
	"sync"
)

// Cable returns the two ends of a cable between ports of running models. A sender waits while
// frames is the number of frames in flight in its direction.
func Cable(frames int) (a, b Wire) {
	ab, ba := newLane(frames), newLane(frames)
	return &cableEnd{out: ab, in: ba}, &cableEnd{out: ba, in: ab}
}

// lane is one direction of a cable.
type lane struct {
	frames chan []byte
	free   chan []byte
	closed chan struct{}
	once   sync.Once
}

func newLane(frames int) *lane {
	return &lane{frames: make(chan []byte, frames), free: make(chan []byte, frames+1), closed: make(chan struct{})}
}

func (l *lane) close() { l.once.Do(func() { close(l.closed) }) }

type cableEnd struct{ out, in *lane }

// Send implements Wire.
func (c *cableEnd) Send(frame []byte) error {
	var b []byte
	select {
	case b = <-c.out.free:
	default:
	}
	select {
	case c.out.frames <- append(b[:0], frame...):
		return nil
	case <-c.out.closed:
		return net.ErrClosed
	}
}

// Receive implements Wire.
func (c *cableEnd) Receive(buf []byte) (int, error) {
	select {
	case f := <-c.in.frames:
		n := copy(buf, f)
		select {
		case c.in.free <- f:
		default:
		}
		return n, nil
	case <-c.in.closed:
		return 0, net.ErrClosed
	}
}

// Close implements Wire. It ends both directions.
func (c *cableEnd) Close() error {
	c.out.close()
	c.in.close()
	return nil
}
