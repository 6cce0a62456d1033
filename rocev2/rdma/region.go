// SPDX-License-Identifier: Apache-2.0

package rdma

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"

	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Remote is memory of a peer: what READ, WRITE and ATOMICs need to know of it. The owner makes it
// with Region.Remote and sends it to the peer, for example as private data.
type Remote struct {
	Addr uint64
	Len  uint64 // bytes
	RKey uint32
}

// RemoteLen is the length in bytes of a Remote that AppendBinary has written.
const RemoteLen = 20

// AppendBinary appends address (64 bits), length (64) and key (32), big-endian.
func (r Remote) AppendBinary(b []byte) ([]byte, error) {
	b = binary.BigEndian.AppendUint64(b, r.Addr)
	b = binary.BigEndian.AppendUint64(b, r.Len)
	return binary.BigEndian.AppendUint32(b, r.RKey), nil
}

// MarshalBinary implements encoding.BinaryMarshaler.
func (r Remote) MarshalBinary() ([]byte, error) { return r.AppendBinary(nil) }

// UnmarshalBinary reads what AppendBinary has written. Bytes behind it are ignored.
func (r *Remote) UnmarshalBinary(b []byte) error {
	if len(b) < RemoteLen {
		return fmt.Errorf("rdma: a memory descriptor of %d bytes, need %d", len(b), RemoteLen)
	}
	r.Addr, r.Len, r.RKey = binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:]), binary.BigEndian.Uint32(b[16:])
	return nil
}

// Slice returns n bytes of r from offset off. The error says if r is shorter.
func (r Remote) Slice(off, n uint64) (Remote, error) {
	if off > r.Len || n > r.Len-off {
		return Remote{}, fmt.Errorf("rdma: %d bytes at offset %d of remote memory of %d bytes", n, off, r.Len)
	}
	return Remote{r.Addr + off, n, r.RKey}, nil
}

// Region is registered memory: the NIC reads and writes it without a copy. The rights that it was
// registered with say what peers may do.
type Region struct {
	verbs.MR
	mem []byte
}

// RegisterMemory registers memory of the application in a protection domain. Peers that know the
// region's Remote may access it with the given rights, by connections of the same domain (WithPD). b
// must not be freed before Deregister; memory that Go allocated with make does not move, and that of
// Alloc is accessed in the fastest way.
func RegisterMemory(pd verbs.PD, b []byte, access verbs.Access) (*Region, error) {
	mr, err := pd.RegMR(b, access)
	if err != nil {
		return nil, wrap("register", nil, err)
	}
	return &Region{mr, b}, nil
}

// Register is RegisterMemory in the protection domain of the connection, which all connections of
// the device share unless WithPD was used.
func (c *Conn) Register(b []byte, access verbs.Access) (*Region, error) {
	return RegisterMemory(c.pd, b, access)
}

// Bytes returns the memory.
func (r *Region) Bytes() []byte { return r.mem }

// Remote returns the descriptor of the region for a peer.
func (r *Region) Remote() Remote { return Remote{r.VA(), uint64(len(r.mem)), r.RKey()} }

// SGE returns n bytes from off as the element of a list. It panics beyond the region, as a slice
// expression does.
func (r *Region) SGE(off, n int) verbs.SGE {
	_ = r.mem[off : off+n]
	return verbs.SGE{Addr: r.VA() + uint64(off), Len: uint32(n), LKey: r.LKey()}
}

// Send sends p as one message and waits until the peer's NIC has it in a receive buffer of the
// peer. p is copied before. The message is at most MaxMessage long.
func (c *Conn) Send(ctx context.Context, p []byte) error {
	if len(p) > c.o.maxMessage {
		return wrap("send", c.remote, fmt.Errorf("%w: %d bytes", ErrTooLong, len(p)))
	}
	x, err := c.takeSlot(ctx)
	if err == nil {
		err = c.fill(ctx, x, p, verbs.SendWR{Op: verbs.OpSend})
	}
	if err != nil {
		return wrap("send", c.remote, err)
	}
	o, err := c.start("send", x, nil)
	if err != nil {
		return wrap("send", c.remote, err)
	}
	_, err = o.Wait(ctx)
	return err
}

// fill makes the work request of a slot for data that is copied. After an error the slot is free.
func (c *Conn) fill(ctx context.Context, x *slot, p []byte, wr verbs.SendWR) error {
	x.wr = wr
	if len(p) <= c.sends.inline {
		x.wr.Flags, x.wr.Data = verbs.Inline, p
		return nil
	}
	return c.useBuffer(ctx, x, len(p), p)
}

// useBuffer has the work request of a slot use n bytes of its buffer, with a copy of p. After an
// error the slot is free.
func (c *Conn) useBuffer(ctx context.Context, x *slot, n int, p []byte) error {
	m := &c.sends.mem
	var err error
	if !m.made.Load() {
		_, err = within(ctx, func() (bool, error) { return true, m.make(c.host.dev, c.pd, len(c.sends.slots)*c.sends.size) }, nil)
	}
	if err == nil && !m.enter() {
		err = net.ErrClosed
	}
	if err != nil {
		c.unused(x)
		return err
	}
	copy(c.sends.buffer(x), p)
	c.sends.list(x, n)
	m.leave()
	return nil
}

// Write copies p to memory of the peer (RDMA WRITE) and waits until it is there. The peer's
// program is not told.
func (c *Conn) Write(ctx context.Context, p []byte, to Remote) error {
	return wrap("write", c.remote, c.transfer(ctx, p, to, verbs.OpWrite))
}

// Read copies memory of the peer to p (RDMA READ), len(p) bytes.
func (c *Conn) Read(ctx context.Context, p []byte, from Remote) error {
	return wrap("read", c.remote, c.transfer(ctx, p, from, verbs.OpRead))
}

// transfer moves p through the buffers, several of which are outstanding at a time.
func (c *Conn) transfer(ctx context.Context, p []byte, r Remote, op verbs.Op) error {
	if uint64(len(p)) > r.Len {
		return fmt.Errorf("%d bytes, and the remote memory has %d", len(p), r.Len)
	}
	var parts []*Op
	defer func() {
		for _, o := range parts {
			o.leave()
		}
	}()
	finish := func() error {
		_, err := parts[0].Wait(ctx)
		if err == nil {
			parts = parts[1:]
		}
		return err
	}
	for off := 0; off < len(p) || off == 0; {
		chunk := p[off:min(off+c.o.maxMessage, len(p))]
		x, err := c.slotFor(ctx, len(parts) > 0)
		if err != nil {
			return err
		}
		if x == nil { // all slots are in use, some of them by parts
			if err := finish(); err != nil {
				return err
			}
			continue
		}
		wr := verbs.SendWR{Op: op, RemoteAddr: r.Addr + uint64(off), RKey: r.RKey}
		o, err := c.startPart(ctx, x, chunk, wr)
		if err != nil {
			return err
		}
		parts = append(parts, o)
		if off += len(chunk); len(p) == 0 {
			break
		}
	}
	for len(parts) > 0 {
		if err := finish(); err != nil {
			return err
		}
	}
	return nil
}

// slotFor returns a slot, or nil without waiting if there is none and the caller has some to finish.
func (c *Conn) slotFor(ctx context.Context, hasSome bool) (*slot, error) {
	if hasSome {
		select {
		case x := <-c.sends.idle:
			return x, nil
		default:
			return nil, nil
		}
	}
	return c.takeSlot(ctx)
}

func (c *Conn) startPart(ctx context.Context, x *slot, p []byte, wr verbs.SendWR) (*Op, error) {
	if wr.Op == verbs.OpWrite {
		if err := c.fill(ctx, x, p, wr); err != nil {
			return nil, err
		}
		return c.start("write", x, nil)
	}
	x.wr = wr
	if err := c.useBuffer(ctx, x, len(p), nil); err != nil {
		return nil, err
	}
	return c.start("read", x, p)
}
