// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"net"
	"sync"

	"github.com/softroce/softroce-xdp/rocev2/rdma"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// PageBytes is the unit in which accesses are counted.
const PageBytes = 4096

// slab is a slab of the lease.
type slab struct {
	Slab
	touched []uint64       // bit map of the pages that were accessed in this period
	inUse   sync.WaitGroup // operations outstanding
}

// Write copies p to a slab, from a byte offset on, and waits until it is there.
func (n *Node) Write(ctx context.Context, slab uint32, offset uint64, p []byte) error {
	s, r, err := n.locate(slab, 0, offset, len(p))
	if err != nil {
		return err
	}
	defer s.inUse.Done()
	return n.ended(n.conn.Write(ctx, p, r))
}

// Read copies bytes of a slab, from a byte offset on, to p.
func (n *Node) Read(ctx context.Context, slab uint32, offset uint64, p []byte) error {
	s, r, err := n.locate(slab, 0, offset, len(p))
	if err != nil {
		return err
	}
	defer s.inUse.Done()
	return n.ended(n.conn.Read(ctx, p, r))
}

// ended adds the reason of the server to an error of its connection.
func (n *Node) ended(err error) error {
	if err == nil {
		return nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.reason != "" {
		return fmt.Errorf("%w: %s", ErrRemoved, n.reason)
	}
	return err
}

// Op is a READ or WRITE of Start.
type Op struct {
	Write  bool
	Slab   uint32
	Key    uint32      // key of the slab: with another one, the result is ErrNotLeased; 0 for the present key
	Offset uint64      // offset in the slab
	Data   []byte      // data in memory of Alloc or Share
	More   [][]byte    // further parts, which follow Data in the slab; at most MaxParts-1
	Done   func(error) // called once, by any goroutine
}

// pending is an operation that was posted.
type pending struct {
	op   *rdma.Op
	slab *slab
	done func(error)
}

// Start begins operations without a copy, in their order. It waits while Config.Depth operations are
// outstanding. Data is in use until Done was called, also after ctx has ended. Done does not call Start.
func (n *Node) Start(ctx context.Context, list ...Op) {
	for _, o := range list {
		if err := n.start(ctx, o); err != nil {
			o.Done(err)
		}
	}
}

func (n *Node) start(ctx context.Context, o Op) error {
	list, length, err := n.sgl(&o)
	if err != nil {
		return err
	}
	s, r, err := n.locate(o.Slab, o.Key, o.Offset, length)
	if err != nil {
		return err
	}
	wr := verbs.SendWR{Op: verbs.OpRead, SGL: list, RemoteAddr: r.Addr, RKey: r.RKey}
	if o.Write {
		wr.Op = verbs.OpWrite
	}
	op, err := n.conn.Start(ctx, &wr)
	if err != nil {
		s.inUse.Done()
		return n.ended(err)
	}
	n.posted(pending{op, s, o.Done})
	return nil
}

// posted gives an operation to complete. After the end of the connection, when complete may have ended, it finishes the
// operation itself.
func (n *Node) posted(p pending) {
	select {
	case n.started <- p:
	case <-n.done:
		n.finish(p)
	}
	select {
	case <-n.done:
		n.finishAll()
	default:
	}
}

// complete calls Done of operations, in the order of Start.
func (n *Node) complete() {
	for {
		select {
		case p := <-n.started:
			n.finish(p)
		case <-n.done:
			n.finishAll()
			return
		}
	}
}

// finishAll finishes what the channel has.
func (n *Node) finishAll() {
	for {
		select {
		case p := <-n.started:
			n.finish(p)
		default:
			return
		}
	}
}

// finish waits for the completion: the end of the connection is one, too.
func (n *Node) finish(p pending) {
	_, err := p.op.Wait(context.Background())
	p.slab.inUse.Done()
	p.done(n.ended(err))
}

// Alloc returns memory for Start, that Close frees. It begins at a multiple of PageBytes.
func (n *Node) Alloc(bytes int) ([]byte, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return nil, net.ErrClosed
	}
	b, err := rdma.Alloc(n.conn.Device(), bytes+PageBytes)
	if err != nil {
		return nil, err
	}
	r, err := n.conn.Register(b, verbs.AccessLocalWrite)
	if err != nil {
		return nil, errors.Join(err, rdma.Free(n.conn.Device(), b))
	}
	n.memory = append(n.memory, r)
	skip := -address(b) & (PageBytes - 1)
	return b[skip : skip+uintptr(bytes) : skip+uintptr(bytes)], nil
}

// Share lets Start use memory that was made by rdma.Alloc for the device of the connection. It stays the
// caller's, who frees it after Close.
func (n *Node) Share(b []byte) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return net.ErrClosed
	}
	r, err := n.conn.Register(b, verbs.AccessLocalWrite)
	if err == nil {
		n.shared = append(n.shared, r)
	}
	return err
}

// MaxParts returns how many parts an operation of Start has at most.
func (n *Node) MaxParts() int { return n.conn.MaxSGE() }

// sgl returns the parts of an operation as a list, and their length.
func (n *Node) sgl(o *Op) (list []verbs.SGE, length int, err error) {
	if parts := 1 + len(o.More); parts > n.MaxParts() {
		return nil, 0, fmt.Errorf("pool: %d parts; at most %d are possible", parts, n.MaxParts())
	}
	list = make([]verbs.SGE, 1+len(o.More))
	if list[0], err = n.sge(o.Data); err != nil {
		return nil, 0, err
	}
	length = len(o.Data)
	for i, b := range o.More {
		if list[1+i], err = n.sge(b); err != nil {
			return nil, 0, err
		}
		length += len(b)
	}
	return list, length, nil
}

// sge returns memory of Alloc or Share as the element of a list.
func (n *Node) sge(b []byte) (verbs.SGE, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, list := range [][]*rdma.Region{n.memory, n.shared} {
		for _, r := range list {
			whole := r.Bytes()
			if at := address(b) - address(whole); address(b) >= address(whole) && at+uintptr(len(b)) <= uintptr(len(whole)) {
				return r.SGE(int(at), len(b)), nil
			}
		}
	}
	return verbs.SGE{}, errors.New("pool: the data is not in memory of Alloc or Share")
}

// locate returns the address of a part of a slab, and counts its pages as accessed. The slab is in use
// until inUse.Done. A key that is not 0 must be that of the slab.
func (n *Node) locate(number, key uint32, offset uint64, length int) (*slab, rdma.Remote, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	s := n.slabs[number]
	if s == nil || key != 0 && key != s.Remote.RKey {
		select {
		case <-n.done:
			return nil, rdma.Remote{}, n.err
		default:
			return nil, rdma.Remote{}, fmt.Errorf("slab %d: %w", number, ErrNotLeased)
		}
	}
	if offset > s.Remote.Len || uint64(length) > s.Remote.Len-offset {
		return nil, rdma.Remote{}, fmt.Errorf("slab %d: %d bytes at %d: %w of %d bytes", number, length, offset, ErrRange, s.Remote.Len)
	}
	if s.touched == nil {
		s.touched = make([]uint64, (s.Remote.Len/PageBytes+63)/64)
	}
	for p := offset / PageBytes; p*PageBytes < offset+uint64(length); p++ {
		s.touched[p/64] |= 1 << (p % 64)
	}
	r, err := s.Remote.Slice(offset, uint64(length))
	if err == nil {
		s.inUse.Add(1)
	}
	return s, r, err
}

// endPeriod returns what the node needed in a period, and begins to count for the next one.
func (n *Node) endPeriod() (demand, used uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, s := range n.slabs {
		for _, w := range s.touched {
			used += uint64(bits.OnesCount64(w)) * PageBytes
		}
		clear(s.touched)
	}
	return n.demand, used
}
