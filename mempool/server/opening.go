// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/softroce/softroce-xdp/mempool/internal/proto"
	"github.com/softroce/softroce-xdp/rocev2/rdma"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// openTime is how long a peer has to send Begin after its request was accepted.
const openTime = 10 * time.Second

var errChallenge = errors.New("the first message has another challenge than the offer of the server")

// serve answers the request for a connection.
func (s *Server) serve(ctx context.Context, r *rdma.Request) {
	request, err := proto.ParseRequest(r.Private())
	switch {
	case err != nil:
		_ = r.Reject([]byte(err.Error())) // the peer may have given up
	case request.Kind == proto.KindJoin:
		s.serveNode(ctx, r, request)
	default:
		s.serveQuestion(ctx, r, request)
	}
}

// open accepts a request, and waits until the peer has proved that it receives at its address: its first message
// has the challenge that was sent there. Until then, nothing but this connection has changed, since anybody can send
// a request with any address. The caller closes the connection.
func (s *Server) open(ctx context.Context, r *rdma.Request, options ...rdma.Option) (*rdma.Conn, *proto.Begin, error) {
	ctx, cancel := context.WithTimeout(ctx, openTime)
	defer cancel()
	release, _ := s.openings.take(r.RemoteAddr(), cancel) // there is always one: others yield
	defer release()
	offer := proto.Offer{Challenge: secret()}
	private, err := offer.AppendBinary(nil)
	if err != nil {
		return nil, nil, err
	}
	c, err := r.Accept(ctx, append(options, rdma.WithPrivate(private))...)
	if err != nil {
		return nil, nil, err
	}
	begin, err := receiveBegin(ctx, c, offer)
	if err != nil {
		return nil, nil, errors.Join(err, c.Close())
	}
	return c, begin, nil
}

func receiveBegin(ctx context.Context, c *rdma.Conn, offer proto.Offer) (*proto.Begin, error) {
	buf := make([]byte, proto.MaxMessage)
	n, err := c.Recv(ctx, buf)
	if err != nil {
		return nil, err
	}
	m, err := proto.Parse(buf[:n])
	if err != nil {
		return nil, err
	}
	switch begin, ok := m.(*proto.Begin); {
	case !ok:
		return nil, fmt.Errorf("%w: %T is the first message", proto.ErrFormat, m)
	case begin.Challenge != offer.Challenge:
		return nil, errChallenge
	default:
		return begin, nil
	}
}

// refusalTime is how long a peer has to receive a refusal.
const refusalTime = time.Second

// refuse tells a peer why the server does not do what it asks for, and waits until it has closed the connection.
func refuse(ctx context.Context, c *rdma.Conn, why error) {
	ctx, cancel := context.WithTimeout(ctx, refusalTime) // no place is counted for it
	defer cancel()
	if c.Send(ctx, proto.Append(nil, &proto.Refusal{Text: []byte(why.Error())})) == nil {
		_, _ = c.Recv(ctx, nil)
	}
}

// domain is the protection domain of a connection that is being opened.
type domain struct {
	pd   verbs.PD
	peer *peer // the node whose domain it is already; nil: it was made for this connection
}

// prepare returns the domain for a node that wants to join, or why it cannot. The table stays as it is.
func (s *Server) prepare(request proto.Request) (d domain, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.freeRetired(retiredTries)
	id, err := s.table.Check(s.now(), joinOf(request))
	if err != nil {
		return d, err
	}
	if p := s.peers[id]; p != nil {
		return domain{p.pd, p}, nil
	}
	if d.pd, err = s.dev.AllocPD(); err != nil {
		return d, fmt.Errorf("the server has no room for another node: %w", err)
	}
	return d, nil
}

// abandon frees a domain that no node has. Its connection has ended.
func (s *Server) abandon(d domain) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if d.peer == nil {
		s.retired = append(s.retired, d.pd)
	}
	s.freeRetired(retiredTries)
}
