// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/softroce/softroce-xdp/mempool/lease"
	"github.com/softroce/softroce-xdp/mempool/proto"
	"github.com/softroce/softroce-xdp/rocev2/rdma"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Status returns the state of the pool of a server at "host:port".
func Status(ctx context.Context, dev verbs.Device, address string, options ...rdma.Option) (lease.Status, error) {
	return question(ctx, dev, address, proto.Request{Kind: proto.KindStatus}, options)
}

// Remove ends what a node leases, and its connection. The server accepts that from the host of the node
// only. The state of the pool is that afterwards.
func Remove(ctx context.Context, dev verbs.Device, address, name string, options ...rdma.Option) (lease.Status, error) {
	return question(ctx, dev, address, proto.Request{Kind: proto.KindRemove, Name: name}, options)
}

func question(ctx context.Context, dev verbs.Device, address string, r proto.Request, options []rdma.Option) (s lease.Status, err error) {
	private, err := r.AppendBinary(nil)
	if err != nil {
		return s, err
	}
	c, err := dial(ctx, dev, address, private, options)
	if err != nil {
		return s, err
	}
	defer c.Close()
	var text []byte
	buf := make([]byte, proto.MaxMessage)
	for {
		length, err := c.Recv(ctx, buf)
		if err != nil {
			return s, fmt.Errorf("pool: no answer from %s: %w", address, err)
		}
		m, err := proto.Parse(buf[:length])
		if err != nil {
			return s, err
		}
		part, ok := m.(*proto.Text)
		if !ok {
			return s, fmt.Errorf("%w: %T instead of a text", proto.ErrFormat, m)
		}
		if text = append(text, part.Text...); part.Part+1 == part.Parts {
			return s, json.Unmarshal(text, &s)
		}
	}
}
