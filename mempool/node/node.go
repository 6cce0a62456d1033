// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/softroce/softroce-xdp/mempool/internal/proto"
	"github.com/softroce/softroce-xdp/rocev2/rdma"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Config are the properties of a Node.
type Config struct {
	Name   string        // unique at the server: 1 to 20 printable bytes without spaces
	Period time.Duration // time from one lease to the next
	Demand uint64        // bytes for the first period; SetDemand changes it
	Ticket Ticket        // ticket of an earlier connection, to have its lease again
	Depth  int           // READs and WRITEs outstanding; 0 for DefaultDepth

	Options []rdma.Option // options of the connection
}

// DefaultDepth is the Depth of a Config without one.
const DefaultDepth = 64

// Ticket is what the node proves its identity with when it joins again, and what Remove needs. The server makes it
// when the node joins. The zero value is none. It must stay secret.
type Ticket struct {
	Token      uint64
	Generation uint64
}

// Slab is a part of a lease.
type Slab struct {
	Number uint32
	Remote rdma.Remote // address, length and key
	Return time.Time   // time at which the slab must be returned; zero: it is leased for the period
}

// Lease is what a node has in a period.
type Lease struct {
	Period uint32
	Slabs  []Slab
}

// Bytes returns the length of the slabs that need not be returned.
func (l Lease) Bytes() (sum uint64) {
	for _, s := range l.Slabs {
		if s.Return.IsZero() {
			sum += s.Remote.Len
		}
	}
	return sum
}

// Errors of Join, of accesses, and of the end of a connection.
var (
	ErrRefused   = errors.New("the server refuses")
	ErrNotLeased = errors.New("the slab is not in the lease of this node")
	ErrRange     = errors.New("beyond the end of the slab")
	ErrRemoved   = errors.New("the server has ended the lease")
)

// Node is a connection to a server. Any goroutine may call its methods.
type Node struct {
	conn    *rdma.Conn
	welcome proto.Welcome
	resumed bool
	cancel  context.CancelFunc
	started chan pending // operations that were posted, in order
	changed chan struct{}
	done    chan struct{} // closed: err is set, nothing runs any more
	all     sync.WaitGroup

	returning sync.Mutex // lock held while a Return is sent

	mu       sync.Mutex // guards the fields below
	period   uint32
	slabs    map[uint32]*slab
	order    []uint32          // the lease as the server has sent it
	returns  uint32            // Return messages sent
	returned map[uint32]uint32 // slabs that were returned, and the number of the Return
	demand   uint64
	err      error
	reason   string // reason that the server gave for the end
	closed   bool
	memory   []*rdma.Region // regions of Alloc
	shared   []*rdma.Region // regions of Share
}

// Join connects to a server at "host:port", and waits for the first lease. It may be empty, if the pool is
// full. A server that refuses is a *rdma.RejectedError with the reason as its private data, or ErrRefused.
func Join(ctx context.Context, dev verbs.Device, address string, c Config) (*Node, error) {
	if c.Depth == 0 {
		c.Depth = DefaultDepth
	}
	private, err := proto.Request{
		Kind: proto.KindJoin, Name: c.Name, Token: c.Ticket.Token, Period: c.Period, Demand: c.Demand,
	}.AppendBinary(nil)
	if err != nil {
		return nil, fmt.Errorf("pool: %w", err)
	}
	conn, err := open(ctx, dev, address, c.Ticket.Token, private, append([]rdma.Option{rdma.WithSendDepth(c.Depth)}, c.Options...))
	if err != nil {
		return nil, err
	}
	welcome, err := receiveWelcome(ctx, conn)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("pool: %s: %w", address, err), conn.Close())
	}
	n := &Node{
		conn: conn, started: make(chan pending, c.Depth), changed: make(chan struct{}, 1), done: make(chan struct{}),
		slabs: map[uint32]*slab{}, returned: map[uint32]uint32{}, demand: c.Demand, welcome: *welcome,
	}
	n.resumed = n.welcome.Resumed && n.welcome.Generation == c.Ticket.Generation
	running, cancel := context.WithCancel(context.Background())
	n.cancel = cancel
	n.all.Go(func() { n.receive(running) })
	n.all.Go(n.complete)
	select {
	case <-n.changed:
		n.signal()
		return n, nil
	case <-n.done:
		return nil, errors.Join(n.Err(), n.Close())
	case <-ctx.Done():
		return nil, errors.Join(fmt.Errorf("pool: no lease from %s: %w", address, ctx.Err()), n.Close())
	}
}

// Lease returns the lease of this period, without slabs that were returned.
func (n *Node) Lease() Lease {
	n.mu.Lock()
	defer n.mu.Unlock()
	l := Lease{Period: n.period}
	for _, number := range n.order {
		if s := n.slabs[number]; s != nil {
			l.Slabs = append(l.Slabs, s.Slab)
		}
	}
	return l
}

// Changed is signalled when a lease has come that Lease returns. Several may have come.
func (n *Node) Changed() <-chan struct{} { return n.changed }

// SetDemand sets how many bytes the node wants to keep in the pool. The server is told at the end of the
// period.
func (n *Node) SetDemand(bytes uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.demand = bytes
}

// SlabBytes returns the length of a slab.
func (n *Node) SlabBytes() uint64 { return n.welcome.SlabBytes }

// Resumed reports whether the slabs have the data that they had at the end of the connection of
// Config.Ticket.
func (n *Node) Resumed() bool { return n.resumed }

// Ticket returns what Config.Ticket takes.
func (n *Node) Ticket() Ticket {
	return Ticket{Token: n.welcome.Token, Generation: n.welcome.Generation}
}

// Hold returns how long the server keeps the lease after the connection has ended.
func (n *Node) Hold() time.Duration { return n.welcome.Hold }

// LocalAddr returns the address of this end.
func (n *Node) LocalAddr() net.Addr { return n.conn.LocalAddr() }

// RemoteAddr returns the address of the server.
func (n *Node) RemoteAddr() net.Addr { return n.conn.RemoteAddr() }

// Done is closed when the connection has ended.
func (n *Node) Done() <-chan struct{} { return n.done }

// Err returns why the connection has ended, or nil.
func (n *Node) Err() error {
	select {
	case <-n.done:
		return n.err
	default:
		return nil
	}
}

// Leave gives all slabs back and closes the connection.
func (n *Node) Leave(ctx context.Context) error {
	ended := n.Err()
	err := n.conn.Send(ctx, proto.Append(nil, &proto.Leave{Token: n.welcome.Token}))
	if ended == nil && errors.Is(err, rdma.ErrPeerClosed) {
		err = nil // the server closes when it has the message, which may be seen before the SEND completes
	}
	if err == nil {
		select { // the server closes
		case <-n.done:
		case <-ctx.Done():
		}
	}
	return errors.Join(err, n.Close())
}

// Close ends the connection. The server keeps the lease for a time: a Ticket resumes it. Operations that
// have not completed fail, and memory of Alloc is freed: later, if the error wraps rdma.ErrNoAnswer.
func (n *Node) Close() error {
	n.mu.Lock()
	if n.closed {
		n.mu.Unlock()
		return net.ErrClosed
	}
	n.closed = true
	memory, shared := n.memory, n.shared
	n.mu.Unlock()
	n.cancel()
	err := n.conn.Close()
	n.all.Wait()
	return errors.Join(err, rdma.Bounded(func() error { return n.free(memory, shared) }))
}

// free ends the regions of Alloc and of Share, and frees the memory of the first.
func (n *Node) free(memory, shared []*rdma.Region) error {
	var errs []error
	for _, r := range shared {
		errs = append(errs, r.Deregister())
	}
	for _, r := range memory {
		b := r.Bytes()
		errs = append(errs, r.Deregister(), rdma.Free(n.conn.Device(), b))
	}
	return errors.Join(errs...)
}
