// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"

	"github.com/softroce/softroce-xdp/internal/texts"
	"github.com/softroce/softroce-xdp/mempool/internal/proto"
	"github.com/softroce/softroce-xdp/rocev2/rdma"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Status returns the state of the pool of a server at "host:port".
func Status(ctx context.Context, dev verbs.Device, address string, options ...rdma.Option) (PoolStatus, error) {
	none := func(net.Addr) (Ticket, error) { return Ticket{}, nil }
	return question(ctx, dev, address, proto.Request{Kind: proto.KindStatus}, none, options)
}

// Remove ends what a node leases, and its connection. That needs the ticket of the node for the server, for whose
// address ticket is called. The state of the pool is that afterwards.
func Remove(ctx context.Context, dev verbs.Device, address, name string, ticket func(server net.Addr) (Ticket, error), options ...rdma.Option) (PoolStatus, error) {
	return question(ctx, dev, address, proto.Request{Kind: proto.KindRemove, Name: name}, ticket, options)
}

func question(ctx context.Context, dev verbs.Device, address string, r proto.Request, ticket func(net.Addr) (Ticket, error), options []rdma.Option) (s PoolStatus, err error) {
	private, err := r.AppendBinary(nil)
	if err != nil {
		return s, err
	}
	c, err := dial(ctx, dev, address, private, options)
	if err != nil {
		return s, err
	}
	defer c.Close()
	t, err := ticket(c.RemoteAddr())
	if err != nil {
		return s, err
	}
	if err := begin(ctx, c, t.Token); err != nil {
		return s, fmt.Errorf("pool: %s: %w", address, err)
	}
	var text []byte
	buf := make([]byte, proto.MaxMessage)
	for {
		m, err := receiveMessage(ctx, c, buf)
		if errors.Is(err, ErrRefused) {
			return s, fmt.Errorf("pool: %s: %w", address, err)
		}
		if err != nil {
			return s, fmt.Errorf("pool: no answer from %s: %w", address, err)
		}
		part, ok := m.(*proto.Text)
		if !ok {
			return s, fmt.Errorf("%w: %T instead of a text", proto.ErrFormat, m)
		}
		if len(text)+len(part.Text) > maxStatus {
			return s, fmt.Errorf("%w: the state of %s has more than %d bytes", proto.ErrFormat, address, maxStatus)
		}
		if text = append(text, part.Text...); part.Part+1 == part.Parts {
			err := json.Unmarshal(text, &s)
			for i := range s.Nodes {
				n := &s.Nodes[i]
				for _, t := range []*string{&n.Name, &n.Expected.By} {
					*t = texts.Printable(*t)
				}
			}
			return s, err
		}
	}
}

// maxStatus bounds what a server can send as its state, in bytes: 4096 nodes have about 500 each.
const maxStatus = 16 << 20
