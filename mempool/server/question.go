// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/softroce/softroce-xdp/mempool/internal/proto"
	"github.com/softroce/softroce-xdp/rocev2/rdma"
)

var errBusy = errors.New("the server answers as many questions of your network as it can: ask again")

// serveQuestion answers a request that does not lease memory. The answer is a text, after which the peer
// closes the connection.
func (s *Server) serveQuestion(ctx context.Context, r *rdma.Request, request proto.Request) {
	c, begin, err := s.open(ctx, r)
	if err != nil {
		return
	}
	defer c.Close()
	release, ok := s.questions.take(r.RemoteAddr(), nil)
	if !ok {
		refuse(ctx, c, errBusy)
		return
	}
	defer release()
	ctx, cancel := context.WithTimeout(ctx, sendTime)
	defer cancel()
	if request.Kind == proto.KindRemove {
		if err := s.remove(ctx, request.Name, begin.Token); err != nil {
			refuse(ctx, c, err)
			return
		}
	}
	text, err := json.Marshal(s.Status())
	if err != nil {
		refuse(ctx, c, err)
		return
	}
	for _, m := range proto.SplitText(text) {
		if c.Send(ctx, proto.Append(nil, m)) != nil {
			return
		}
	}
	_, _ = c.Recv(ctx, nil) // until the peer closes
}

// remove ends what a node leases. The token proves that the request comes from the node: names are no secret. The
// connection of the node ends first, so that the node is told before its keys end.
func (s *Server) remove(ctx context.Context, name string, token uint64) error {
	x, err := s.beginRemove(name, token)
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
func (s *Server) beginRemove(name string, token uint64) (*session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id, err := s.table.Find(name, token)
	if err != nil {
		return nil, err
	}
	if p := s.peers[id]; p != nil && p.session != nil {
		p.session.remove()
		return p.session, nil
	}
	list, err := s.table.Leave(id)
	s.run(list)
	return nil, err
}
