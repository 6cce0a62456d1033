// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/softroce/softroce-xdp/internal/texts"
	"github.com/softroce/softroce-xdp/mempool/internal/proto"
	"github.com/softroce/softroce-xdp/rocev2/cm"
	"github.com/softroce/softroce-xdp/rocev2/mad"
	"github.com/softroce/softroce-xdp/rocev2/rdma"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// dial connects to a server. Nothing has changed there until begin.
func dial(ctx context.Context, dev verbs.Device, address string, private []byte, options []rdma.Option) (*rdma.Conn, error) {
	options = append([]rdma.Option{rdma.WithMaxMessage(proto.MaxMessage), rdma.WithAttr(failOver)}, options...)
	c, err := rdma.Dial(ctx, dev, address, append(options, rdma.WithPrivate(private))...)
	return c, explain(address, err)
}

// failOver has a silent server be given up after 1.8 s (qp.RetryBound), so that work goes on with the copies of others.
// The default of verbs.DefaultAttr is longer.
func failOver(a *verbs.Attr) { a.Timeout = 14 }

// begin sends the first message, after which the server does what the request asks for.
func begin(ctx context.Context, c *rdma.Conn, token uint64) error {
	offer, err := proto.ParseOffer(c.PeerPrivate())
	if err != nil {
		return err
	}
	err = c.Send(ctx, proto.Append(nil, &proto.Begin{Token: token, Challenge: offer.Challenge}))
	if errors.Is(err, rdma.ErrPeerClosed) {
		return nil // the message that the server has sent before says why
	}
	return err
}

// open is dial and begin.
func open(ctx context.Context, dev verbs.Device, address string, token uint64, private []byte, options []rdma.Option) (*rdma.Conn, error) {
	c, err := dial(ctx, dev, address, private, options)
	if err != nil {
		return nil, err
	}
	if err := begin(ctx, c, token); err != nil {
		return nil, errors.Join(fmt.Errorf("pool: %s: %w", address, err), c.Close())
	}
	return c, nil
}

// receiveMessage returns the next message of a server. A Refusal is ErrRefused.
func receiveMessage(ctx context.Context, c *rdma.Conn, buf []byte) (proto.Message, error) {
	n, err := c.Recv(ctx, buf)
	if err != nil {
		return nil, err
	}
	m, err := proto.Parse(buf[:n])
	if err != nil {
		return nil, err
	}
	if r, refused := m.(*proto.Refusal); refused {
		return nil, fmt.Errorf("%w: %s", ErrRefused, texts.Printable(string(r.Text[:min(len(r.Text), maxReason)])))
	}
	return m, nil
}

// maxReason is how many bytes of a text of the server are part of an error.
const maxReason = 1000

func receiveWelcome(ctx context.Context, c *rdma.Conn) (*proto.Welcome, error) {
	m, err := receiveMessage(ctx, c, make([]byte, proto.MaxMessage))
	if err != nil {
		return nil, err
	}
	w, ok := m.(*proto.Welcome)
	if !ok {
		return nil, fmt.Errorf("%w: %T instead of a welcome", proto.ErrFormat, m)
	}
	return w, nil
}

// explain adds to an error of a connection what it means for a pool.
func explain(address string, err error) error {
	var r *rdma.RejectedError
	switch {
	case errors.As(err, &r) && r.Reason == mad.ReasonInvalidServiceID:
		return fmt.Errorf("%s refuses the connection, because nobody listens at this port: run `softroce-pool serve` there (%w)", address, err)
	case errors.As(err, &r):
		return fmt.Errorf("%s refuses the connection: %s (%w)", address, texts.Printable(strings.TrimRight(string(r.Private), "\x00")), err)
	case errors.Is(err, cm.ErrTimeout), errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("no answer from %s: does `softroce-pool serve` run there, and does the firewall admit UDP port 4791? (%w)", address, err)
	}
	return err
}
