// SPDX-License-Identifier: Apache-2.0

package spread

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/softroce/softroce-xdp/mempool/directory"
	"github.com/softroce/softroce-xdp/mempool/node"
	"github.com/softroce/softroce-xdp/mempool/pages"
	"github.com/softroce/softroce-xdp/mempool/vmm"
)

// link is a connection to a server. Its goroutine joins again when the connection has ended, while the
// directory lists the server.
type link struct {
	s       *Store
	name    string
	address string
	node    *node.Node
	pages   place
	stop    context.CancelCauseFunc // nothing uses the connection any more
	stopped context.Context
	first   int  // room of the first lease
	ready   bool // the table has the server; Store.mu
}

// place has the pages of one server: a pages.Store.
type place interface {
	ReadPages(list []vmm.Request)
	WritePages(list []vmm.Request)
	Forget(list ...int64)
	Placed(number int64) bool
	SetDemand(bytes uint64)
	Close()
}

// begin joins a server, if no goroutine is responsible for it yet. result gets what has come of the first
// attempt; nil for nobody.
func (s *Store) begin(ctx context.Context, server directory.Server, result chan<- error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.served[server.Name] {
		return
	}
	s.served[server.Name] = true
	s.all.Go(func() { s.serve(ctx, server, result) })
}

// serve keeps a connection to a server.
func (s *Store) serve(ctx context.Context, server directory.Server, result chan<- error) {
	defer func() {
		s.mu.Lock()
		delete(s.served, server.Name)
		s.mu.Unlock()
	}()
	reported := ""
	for ctx.Err() == nil {
		l, err := s.join(ctx, server, result != nil)
		if err != nil {
			err = fmt.Errorf("server %s: %w", server.Name, err)
		}
		if result != nil {
			result <- err
			result = nil
		}
		if ctx.Err() != nil && l == nil {
			return
		}
		if err == nil || err.Error() != reported {
			s.c.Report(server.Name, err)
		}
		reported = ""
		if err != nil {
			reported = err.Error()
		} else {
			if err := l.use(ctx); ctx.Err() == nil {
				s.c.Report(server.Name, err)
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(retryTime):
		}
		next, listed := s.lookUp(server.Name)
		if !listed {
			return
		}
		server = next
	}
}

// lookUp returns the entry of a server in the directory.
func (s *Store) lookUp(name string) (directory.Server, bool) {
	for _, x := range s.known() {
		if x.Name == name {
			return x, true
		}
	}
	return directory.Server{}, false
}

// join connects to a server. The ticket of the connection before makes the server give the same slabs; what was in
// them is not used. Without it, the server refuses the node for as long as it holds the lease.
func (s *Store) join(ctx context.Context, server directory.Server, first bool) (*link, error) {
	joining, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	want := s.shares(server.Name, first)[server.Name]
	s.mu.Lock()
	ticket := s.tickets[server.Name]
	s.mu.Unlock()
	n, err := node.Join(joining, s.dev, server.Address, node.Config{
		Name: s.c.Name, Period: s.c.Period, Demand: want, Ticket: ticket, Options: s.c.Options,
	})
	if err != nil {
		return nil, err
	}
	s.c.Joined(n)
	s.mu.Lock()
	s.tickets[server.Name] = n.Ticket()
	s.mu.Unlock()
	stopped, stop := context.WithCancelCause(ctx)
	l := &link{s: s, name: server.Name, address: server.Address, node: n, stop: stop, stopped: stopped}
	store, err := pages.New(n, pages.Config{PageBytes: s.c.PageBytes, Demand: want, Watcher: l})
	if err != nil {
		stop(err)
		return nil, errors.Join(err, n.Close())
	}
	l.pages = store
	s.mu.Lock()
	if err = s.share(n); err != nil {
		s.mu.Unlock()
		stop(err)
		l.pages.Close()
		return nil, errors.Join(err, n.Close())
	}
	s.links[l.name], l.ready = l, true
	actions := append(s.table.up(s.now(), l.name), s.table.room(s.now(), l.name, l.first)...)
	s.mu.Unlock()
	s.execute(actions)
	return l, nil
}

// use waits until the connection ends, and returns why.
func (l *link) use(ctx context.Context) error {
	select {
	case <-l.node.Done():
	case <-l.stopped.Done():
	}
	s := l.s
	s.mu.Lock()
	delete(s.links, l.name)
	actions := s.table.down(s.now(), l.name)
	s.mu.Unlock()
	s.execute(actions)
	err := l.node.Err()
	if err == nil {
		err = context.Cause(l.stopped)
	}
	if ctx.Err() != nil && s.leave {
		leaving, cancel := context.WithTimeout(context.Background(), answerTime)
		defer cancel()
		_ = l.node.Leave(leaving) // the server drops the lease later otherwise
	} else {
		_ = l.node.Close() // it has ended
	}
	l.pages.Close()
	l.stop(nil)
	return fmt.Errorf("server %s: %w", l.name, err)
}

// Room is pages.Watcher's.
func (l *link) Room(room int) {
	l.s.mu.Lock()
	if !l.ready {
		l.first = room
		l.s.mu.Unlock()
		return
	}
	l.s.mu.Unlock()
	l.s.change(func(t *table, now time.Duration) []action { return t.room(now, l.name, room) })
}

// Lost is pages.Watcher's. It may come late: a page that was written again since has a place, and is not lost.
func (l *link) Lost(list []int64) {
	l.s.change(func(t *table, now time.Duration) []action {
		if !l.ready {
			return nil // the table knows no page of this connection
		}
		return t.lost(now, l.name, slices.DeleteFunc(slices.Clone(list), l.pages.Placed))
	})
}

// Squeezed is pages.Watcher's.
func (l *link) Squeezed(list []int64) {
	l.s.change(func(t *table, now time.Duration) []action { return t.squeezed(now, l.name, list) })
}
