// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/softroce/softroce-xdp/mempool/internal/proto"
	"github.com/softroce/softroce-xdp/mempool/lease"
	"github.com/softroce/softroce-xdp/rocev2/rdma"
)

// sendTime is how long a node has to receive a message.
const sendTime = 10 * time.Second

// queued is how many messages wait for a node. One that does not receive them is disconnected.
const queued = 256

// session is a connection of a node. Its methods do not block.
type session struct {
	number uint32
	node   lease.NodeID
	token  uint64      // token in each message of the node
	out    chan []byte // messages to be sent; nil is the end
	stop   context.CancelCauseFunc
	done   chan struct{} // closed: the connection has ended

	// The server is locked.
	returns uint32 // Return messages received
	removed bool   // the node leaves when the connection has ended
}

var (
	errSlow       = errors.New("the node does not receive its messages")
	errLeft       = errors.New("the node has left")
	errRemoved    = errors.New("the node was removed")
	errSuperseded = errors.New("the node has made another connection")
)

func (x *session) send(list []proto.Message) {
	for _, m := range list {
		x.put(proto.Append(nil, m))
	}
}

func (x *session) put(b []byte) {
	select {
	case x.out <- b:
	default:
		x.stop(errSlow)
	}
}

func (x *session) ask(period uint32) { x.send([]proto.Message{&proto.Ask{Period: period}}) }

func (x *session) lease(period uint32, list []proto.Entry) {
	x.send(proto.SplitLease(period, x.returns, list))
}

// remove has the connection end, after what is queued and the reason. The server is locked.
func (x *session) remove() {
	x.removed = true
	x.send(proto.SplitText([]byte(errRemoved.Error())))
	x.put(nil)
}

// write sends what is queued.
func (x *session) write(ctx context.Context, c *rdma.Conn) {
	for {
		select {
		case <-ctx.Done():
			return
		case b := <-x.out:
			if b == nil {
				x.stop(errRemoved)
				return
			}
			sending, cancel := context.WithTimeout(ctx, sendTime)
			err := c.Send(sending, b)
			cancel()
			if err != nil {
				x.stop(err)
				return
			}
		}
	}
}

// options are those of all connections.
func (s *Server) options() []rdma.Option {
	return append([]rdma.Option{rdma.WithMaxMessage(proto.MaxMessage)}, s.c.Options...)
}

// serveNode lets a node join, and serves its connection until it ends.
func (s *Server) serveNode(ctx context.Context, r *rdma.Request, request proto.Request) {
	d, err := s.prepare(request)
	if err != nil {
		_ = r.Reject([]byte(err.Error())) // the peer may have given up
		return
	}
	conn, _, err := s.open(ctx, r, rdma.WithPD(d.pd))
	if err != nil {
		s.abandon(d)
		return
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	x := &session{out: make(chan []byte, queued+s.c.Lease.Slabs/proto.MaxEntries), stop: stop, done: make(chan struct{})}
	p, err := s.join(x, request, d)
	if err != nil {
		refuse(ctx, conn, err)
		_ = conn.Close() // it was not used
		s.abandon(d)
		return
	}
	s.c.Report(p.name, r.RemoteAddr(), nil)
	err = s.converse(ctx, conn, x)
	defer close(x.done)
	s.mu.Lock()
	if x.removed && p.session == x {
		list, _ := s.table.Leave(x.node) // it may have left
		s.run(list)
	}
	s.table.Lost(s.now(), x.node, x.number) // no effect if the node has left
	if p.session == x {
		p.session = nil
	}
	s.freeRetired(retiredTries)
	s.mu.Unlock()
	s.kick()
	s.c.Report(p.name, r.RemoteAddr(), err)
}

// joinOf returns what a request asks the table for.
func joinOf(r proto.Request) lease.Request {
	return lease.Request{Name: r.Name, Token: r.Token, Period: r.Period, Demand: r.Demand}
}

// errRace: what prepare has found has changed until the peer sent Begin.
var errRace = errors.New("another connection of the node, or the end of its lease, was faster: join again")

// join brings a node into the table, whose connection is in a domain. The Welcome is queued before the first lease.
func (s *Server) join(x *session, request proto.Request, d domain) (*peer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id, err := s.table.Check(s.now(), joinOf(request))
	if err != nil {
		return nil, err
	}
	p := s.peers[id]
	switch {
	case p != d.peer:
		return nil, errRace
	case p != nil && p.session != nil && p.session.removed: // it leaves when its connection has ended
		return nil, errRemoved
	}
	w, actions, err := s.table.Join(s.now(), joinOf(request))
	if err != nil {
		return nil, err
	}
	if p == nil {
		p = &peer{name: request.Name, pd: d.pd}
		s.peers[w.Node] = p
	}
	if p.session != nil {
		p.session.stop(errSuperseded)
	}
	x.number, x.node, x.token, p.session = w.Session, w.Node, w.Token, x
	c := s.table.Config()
	x.send([]proto.Message{&proto.Welcome{
		Token: w.Token, Generation: s.generation, SlabBytes: s.c.SlabBytes, Slabs: uint32(c.Slabs), Resumed: w.Resumed,
		Grace: c.Grace, Hold: c.Hold,
	}})
	s.run(actions)
	return p, nil
}

// converse serves a connection, and returns why it has ended.
func (s *Server) converse(ctx context.Context, conn *rdma.Conn, x *session) error {
	defer conn.Close()
	s.all.Go(func() { x.write(ctx, conn) })
	buf := make([]byte, proto.MaxMessage)
	for {
		n, err := conn.Recv(ctx, buf)
		if cause := context.Cause(ctx); err != nil && cause != nil {
			return cause
		}
		if errors.Is(err, io.EOF) {
			return rdma.ErrPeerClosed
		}
		if err != nil {
			return err
		}
		if err := s.receive(x, buf[:n]); err != nil {
			return err
		}
	}
}

// receive takes a message of a node. After an error, the connection ends.
func (s *Server) receive(x *session, b []byte) error {
	m, err := proto.Parse(b)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.peers[x.node]; p == nil || p.session != x {
		return errSuperseded
	}
	switch m := m.(type) {
	case *proto.Report:
		if m.Token != x.token {
			return lease.ErrToken
		}
		s.run(s.table.Report(s.now(), x.node, m.Period, lease.Usage{Demand: m.Demand, Used: m.Used}))
	case *proto.Return:
		if m.Token != x.token {
			return lease.ErrToken
		}
		x.returns++
		list := make([]lease.Slab, len(m.Slabs))
		for i, n := range m.Slabs {
			list[i] = lease.Slab(n)
		}
		s.run(s.table.Return(x.node, list))
	case *proto.Leave:
		if m.Token != x.token {
			return lease.ErrToken
		}
		list, err := s.table.Leave(x.node)
		s.run(list)
		return errors.Join(errLeft, err)
	default:
		return fmt.Errorf("%w: %T from a node", proto.ErrFormat, m)
	}
	return nil
}

// entries returns the lease of a node with addresses and keys. The server is locked.
func (s *Server) entries(id lease.NodeID) []proto.Entry {
	grants := s.table.Lease(s.now(), id)
	list := make([]proto.Entry, 0, len(grants))
	for _, g := range grants {
		mr := s.memory.regions[g.Slab]
		e := proto.Entry{Slab: uint32(g.Slab), VA: mr.VA(), RKey: mr.RKey()}
		if g.Return > 0 {
			e.Return = uint32(max(g.Return.Microseconds(), 1))
		}
		list = append(list, e)
	}
	return list
}
