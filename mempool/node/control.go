// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/softroce/softroce-xdp/internal/texts"
	"github.com/softroce/softroce-xdp/mempool/internal/proto"
	"github.com/softroce/softroce-xdp/rocev2/rdma"
)

// receive takes the messages of the server until the connection ends.
func (n *Node) receive(ctx context.Context) {
	buf := make([]byte, proto.MaxMessage)
	var joiner proto.Joiner
	var err error
	for err == nil {
		var length int
		if length, err = n.conn.Recv(ctx, buf); err == nil {
			err = n.take(ctx, &joiner, buf[:length])
		}
	}
	n.mu.Lock()
	switch {
	case n.reason != "":
		err = fmt.Errorf("%w: %s", ErrRemoved, n.reason)
	case errors.Is(err, io.EOF):
		err = rdma.ErrPeerClosed
	case n.closed:
		err = net.ErrClosed
	}
	n.err = fmt.Errorf("pool: the connection to %s has ended: %w", n.conn.RemoteAddr(), err)
	clear(n.slabs)
	close(n.done) // who finds no slab finds the reason
	n.mu.Unlock()
}

func (n *Node) take(ctx context.Context, joiner *proto.Joiner, b []byte) error {
	m, err := proto.Parse(b)
	if err != nil {
		return err
	}
	switch m := m.(type) {
	case *proto.Lease:
		if list, whole := joiner.Add(m); whole {
			n.setLease(m.Period, m.Returns, list, time.Now())
		}
		return nil
	case *proto.Ask:
		demand, used := n.endPeriod()
		// It fails if the server has ended the connection. Recv returns what the server has sent before, such as its reason.
		_ = n.conn.Send(ctx, proto.Append(nil, &proto.Report{Token: n.welcome.Token, Period: m.Period, Demand: demand, Used: used}))
		return nil
	case *proto.Text:
		n.mu.Lock()
		if len(n.reason) < maxReason {
			n.reason += texts.Printable(string(m.Text[:min(len(m.Text), maxReason)]))
		}
		n.mu.Unlock()
		return nil
	}
	return fmt.Errorf("%w: %T from the server", proto.ErrFormat, m)
}

// setLease takes a lease of the server, which had received a number of Return messages before. It may name
// slabs of later ones: those were returned in the meantime.
func (n *Node) setLease(period, returns uint32, list []proto.Entry, now time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	old := n.slabs
	n.period, n.slabs, n.order = period, map[uint32]*slab{}, n.order[:0]
	first := time.Time{}
	for number, at := range n.returned {
		if at <= returns {
			delete(n.returned, number)
		}
	}
	for _, e := range list {
		if n.returned[e.Slab] != 0 {
			continue
		}
		remote := rdma.Remote{Addr: e.VA, Len: n.welcome.SlabBytes, RKey: e.RKey}
		s := old[e.Slab]
		if s == nil || s.Remote != remote {
			s = &slab{}
		}
		asked := s.Return
		s.Slab = Slab{Number: e.Slab, Remote: remote}
		if e.Return > 0 {
			// A quarter of the time is left for the Return. A deadline of an earlier lease stays.
			s.Return = now.Add(time.Duration(e.Return) * time.Microsecond * 3 / 4)
			if !asked.IsZero() && asked.Before(s.Return) {
				s.Return = asked
			}
			if first.IsZero() || s.Return.Before(first) {
				first = s.Return
			}
		}
		n.slabs[e.Slab], n.order = s, append(n.order, e.Slab)
	}
	if !first.IsZero() {
		time.AfterFunc(first.Sub(now), n.returnOverdue)
	}
	n.signal()
}

// signal signals Changed.
func (n *Node) signal() {
	select {
	case n.changed <- struct{}{}:
	default:
	}
}

// returnOverdue returns the slabs that must be returned and were not.
func (n *Node) returnOverdue() {
	n.mu.Lock()
	var list []uint32
	next, now := time.Time{}, time.Now()
	for number, s := range n.slabs {
		switch {
		case s.Return.IsZero():
		case !s.Return.After(now):
			list = append(list, number)
		case next.IsZero() || s.Return.Before(next):
			next = s.Return
		}
	}
	if !next.IsZero() {
		time.AfterFunc(next.Sub(now), n.returnOverdue)
	}
	n.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	_ = n.Return(ctx, list...) // the connection has ended otherwise
}

// Return gives slabs back to the server. Accesses to them are refused from now on, and it waits for those
// that are outstanding: a READ that was repeated later would meet a key that is no longer valid. Slabs that
// are not in the lease are ignored.
func (n *Node) Return(ctx context.Context, slabs ...uint32) error {
	n.returning.Lock() // Return messages are sent in the order of their numbers
	defer n.returning.Unlock()
	for len(slabs) > 0 {
		part := slabs[:min(len(slabs), proto.MaxReturn)]
		slabs = slabs[len(part):]
		list := n.remove(part)
		if len(list) == 0 {
			continue
		}
		for _, s := range list {
			s.inUse.Wait()
		}
		if err := n.conn.Send(ctx, proto.Append(nil, &proto.Return{Token: n.welcome.Token, Slabs: numbers(list)})); err != nil {
			return err
		}
	}
	return nil
}

// remove takes slabs out of the lease, for one Return message, and returns those that were in it.
func (n *Node) remove(slabs []uint32) (list []*slab) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, number := range slabs {
		if s := n.slabs[number]; s != nil {
			delete(n.slabs, number)
			n.returned[number] = n.returns + 1
			list = append(list, s)
		}
	}
	if len(list) > 0 {
		n.returns++
	}
	return list
}

func numbers(list []*slab) (out []uint32) {
	for _, s := range list {
		out = append(out, s.Number)
	}
	return out
}
