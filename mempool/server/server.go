// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/softroce/softroce-xdp/mempool/lease"
	"github.com/softroce/softroce-xdp/rocev2/rdma"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Server lends memory to nodes.
type Server struct {
	c          Config
	dev        verbs.Device
	listener   *rdma.Listener
	generation uint64
	began      time.Time
	all        sync.WaitGroup
	wake       chan struct{}   // the next deadline may have changed
	unclean    chan lease.Slab // closed, not zeroed
	saved      uint64          // Table.Changes of the state file; keepTime only
	warned     bool            // a warning was logged that the state file cannot be written; keepTime only
	openings   places          // connections whose peer has not sent Begin
	questions  places

	mu      sync.Mutex // guards the fields below
	table   *lease.Table
	memory  *memory
	peers   map[lease.NodeID]*peer
	retired []verbs.PD // protection domains of nodes that are gone; a queue pair may still be in them
}

// peer is what the server has of a node.
type peer struct {
	name    string
	pd      verbs.PD
	session *session // nil: the node is away
}

// Listen offers memory at "host:port" or ":port" of a device, when Serve runs.
func Listen(ctx context.Context, dev verbs.Device, address string, c Config) (s *Server, err error) {
	if err := c.complete(); err != nil {
		return nil, fmt.Errorf("pool: %w", err)
	}
	s = &Server{
		c: c, dev: dev, generation: secret(), began: time.Now(), wake: make(chan struct{}, 1),
		unclean: make(chan lease.Slab, c.Lease.Slabs), peers: map[lease.NodeID]*peer{},
		openings:  places{most: maxOpenings, mostOfPrefix: maxOpeningsOfPrefix},
		questions: places{most: maxQuestions, mostOfPrefix: maxQuestionsOfPrefix},
	}
	if s.table, err = lease.New(c.Lease); err != nil {
		return nil, err
	}
	if err := s.restore(); err != nil {
		return nil, fmt.Errorf("pool: %w", err)
	}
	if s.memory, err = newMemory(dev, c.Lease.Slabs, c.SlabBytes); err != nil {
		return nil, fmt.Errorf("pool: %w", err)
	}
	if s.listener, err = rdma.Listen(ctx, dev, address, s.options()...); err != nil {
		return nil, errors.Join(err, s.memory.free())
	}
	return s, nil
}

// Addr returns the address of the server.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// now is the time of the table.
func (s *Server) now() time.Duration { return time.Since(s.began) }

// Status returns the state of the pool.
func (s *Server) Status() lease.Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.table.Status(s.now())
}

// Serve accepts nodes until ctx or the device ends, and returns why. All connections have ended then. It is
// called once.
func (s *Server) Serve(ctx context.Context) error {
	serving, cancel := context.WithCancel(ctx)
	s.all.Go(func() { s.keepTime(serving) })
	s.all.Go(func() { s.cleanSlabs(serving) })
	err := s.accept(serving)
	cancel()
	_ = s.listener.Close()
	s.all.Wait()
	s.release()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

func (s *Server) accept(ctx context.Context) error {
	for {
		r, err := s.listener.Next(ctx)
		if err != nil {
			return err
		}
		s.all.Go(func() { s.serve(ctx, r) })
	}
}

// release frees what the server has. All goroutines have ended. The table stays as it is: the leases are
// those of the next server with the same state file.
func (s *Server) release() {
	s.store()
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.memory.regions {
		_ = s.memory.close(lease.Slab(i)) // without the device, nothing is registered
	}
	for _, p := range s.peers {
		s.retired = append(s.retired, p.pd)
	}
	s.freeRetired(len(s.retired))
	_ = s.memory.free() // it is freed with the device otherwise
}

// retiredTries is how many protection domains are tried in vain at a time: each try of a served device is a message.
const retiredTries = 8

// freeRetired frees protection domains in which there is no queue pair any more, the oldest first. It ends after
// so many tries in vain.
func (s *Server) freeRetired(tries int) {
	kept := s.retired[:0]
	for i, pd := range s.retired {
		if len(kept) == tries {
			kept = append(kept, s.retired[i:]...)
			break
		}
		if errors.Is(pd.Free(), verbs.ErrBusy) {
			kept = append(kept, pd)
		}
	}
	s.retired = kept
}

// keepTime does what is due, and stores the state when it has changed.
func (s *Server) keepTime(ctx context.Context) {
	t := time.NewTimer(0)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.wake:
		case <-t.C:
		}
		s.mu.Lock()
		s.run(s.table.Tick(s.now()))
		next, ok := s.table.Next()
		if !ok {
			next = s.now() + time.Hour
		}
		wait := next - s.now()
		s.mu.Unlock()
		s.store()
		t.Reset(max(wait, 0))
	}
}

// kick has keepTime look at the table.
func (s *Server) kick() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// cleanSlabs zeroes slabs whose key has ended.
func (s *Server) cleanSlabs(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case slab := <-s.unclean:
			clear(s.memory.slab(slab))
			s.mu.Lock()
			s.table.Closed(slab)
			s.mu.Unlock()
		}
	}
}

// run executes actions of the table. The server is locked.
func (s *Server) run(list []lease.Action) {
	for _, a := range list {
		p := s.peers[a.Node]
		switch a.Kind {
		case lease.ActionOpen:
			if err := s.memory.open(p.pd, a.Slab); err != nil {
				s.table.OpenFailed(a.Slab)
			}
		case lease.ActionClose:
			if err := s.memory.close(a.Slab); err != nil {
				s.table.CloseFailed(a.Slab)
				continue
			}
			s.unclean <- a.Slab // it has room for all slabs
		case lease.ActionAsk:
			p.session.ask(a.Period)
		case lease.ActionLease:
			p.session.lease(a.Period, s.entries(a.Node))
		case lease.ActionDrop:
			s.dropPeer(a.Node)
		}
	}
	if len(list) > 0 {
		s.kick()
	}
}

// dropPeer forgets a node that is no longer in the table. Its connection has ended or is ending. After a
// restart of the server, a node that has not come back has nothing here.
func (s *Server) dropPeer(id lease.NodeID) {
	p := s.peers[id]
	if p == nil {
		return
	}
	delete(s.peers, id)
	s.retired = append(s.retired, p.pd)
	s.freeRetired(retiredTries)
}
