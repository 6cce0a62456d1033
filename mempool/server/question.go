// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"encoding/json"
	"fmt"
	"net"

	"github.com/softroce/softroce-xdp/mempool/lease"
	"github.com/softroce/softroce-xdp/mempool/proto"
	"github.com/softroce/softroce-xdp/rocev2/rdma"
)

// serveQuestion answers a request that does not lease memory. The answer is a text, after which the peer
// closes the connection.
func (s *Server) serveQuestion(ctx context.Context, r *rdma.Request, request proto.Request) {
	ctx, cancel := context.WithTimeout(ctx, sendTime)
	defer cancel()
	if request.Kind == proto.KindRemove {
		if err := s.remove(ctx, request.Name, r.RemoteAddr()); err != nil {
			_ = r.Reject([]byte(err.Error())) // the peer may have given up
			return
		}
	}
	text, err := json.Marshal(s.Status())
	if err != nil {
		_ = r.Reject([]byte(err.Error()))
		return
	}
	c, err := r.Accept(ctx)
	if err != nil {
		return
	}
	defer c.Close()
	for _, m := range proto.SplitText(text) {
		if c.Send(ctx, proto.Append(nil, m)) != nil {
			return
		}
	}
	_, _ = c.Recv(ctx, nil) // until the peer closes
}

// remove ends what a node leases, if the request comes from the host of the node. The connection of the node
// ends first, so that the node is told before its keys end.
func (s *Server) remove(ctx context.Context, name string, from net.Addr) error {
	x, err := s.beginRemove(name, from)
	if x == nil {
		return err
	}
	select {
	case <-x.done:
		return nil
	case <-ctx.Done():
		x.stop(errRemoved) // it does not receive its messages
		return nil
	}
}

// beginRemove removes a node without a connection, and has that of another one end (session).
func (s *Server) beginRemove(name string, from net.Addr) (*session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, p := range s.peers {
		switch {
		case p.name != name:
			continue
		case !sameHost(p.from, from):
			return nil, fmt.Errorf("node %s is at another host: only that one can remove it", name)
		case p.session != nil:
			p.session.remove()
			return p.session, nil
		}
		list, err := s.table.Leave(id)
		s.run(list)
		return nil, err
	}
	return nil, fmt.Errorf("node %s: %w", name, lease.ErrUnknown)
}

func sameHost(a, b net.Addr) bool {
	x, ok := a.(rdma.Addr)
	y, alsoOK := b.(rdma.Addr)
	return ok && alsoOK && x.Addr().Unmap() == y.Addr().Unmap()
}
