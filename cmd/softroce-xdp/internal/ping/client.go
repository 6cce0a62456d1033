// SPDX-License-Identifier: Apache-2.0

// Package ping is the client and the server of the command ping: round trips of package rping, their
// times, and what the user is told.
package ping

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/softroce/softroce-xdp/rocev2/cm"
	"github.com/softroce/softroce-xdp/rocev2/mad"
	"github.com/softroce/softroce-xdp/rocev2/rdma"
	"github.com/softroce/softroce-xdp/rocev2/rdma/rping"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Plan is what a Client does.
type Plan struct {
	Server   string        // HOST:PORT
	Count    uint64        // round trips, 0: until the context ends
	Size     int           // bytes of a round trip, 1 to rping.MaxSize
	Interval time.Duration // time from the start of a round trip to the start of the next one
	Timeout  time.Duration // longest wait for a connection, and for a round trip
	Verify   bool          // compare what came back
}

// Client pings a server.
type Client struct {
	Device  verbs.Device // present device: another one after its end; the caller closes it after Run
	Reopen  Reopen       // nil: all round trips after the end of the device are lost
	Plan    Plan
	Options []rdma.Option // options of the connection, in addition to those of rping
	Report  func(Trip)    // callback after each round trip
	Start   func(peer net.Addr)

	conn *rping.Client
	peer netip.AddrPort
	gone bool // the device has ended
}

// Trip is a round trip.
type Trip struct {
	Seq  uint64 // number from 1
	Time time.Duration
	Err  error // errors.Is rping.ErrData: it was answered; another one: it was lost
}

// Run pings until the plan is done or ctx ends, and returns the sum of it. An error says that there was
// no first connection. After a round trip that was lost it connects again.
func (c *Client) Run(ctx context.Context) (*Summary, error) {
	s := newSummary(c.Plan)
	if err := c.connect(ctx); err != nil {
		return nil, err
	}
	defer c.hangUp()
	c.Start(net.TCPAddrFromAddrPort(c.peer))
	s.Peer = c.peer.String()
	tick := time.NewTicker(max(c.Plan.Interval, 1))
	defer tick.Stop()
	for seq := uint64(1); ; seq++ {
		t := c.trip(ctx, seq)
		if t.Err != nil && ctx.Err() != nil {
			return s, nil // interrupted: this one is neither lost nor answered
		}
		s.add(t)
		c.Report(t)
		if seq == c.Plan.Count {
			return s, nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return s, nil
		}
	}
}

// connect connects unless there is a connection.
func (c *Client) connect(ctx context.Context) error {
	if c.conn != nil {
		return nil
	}
	bounded, cancel := context.WithTimeout(ctx, c.Plan.Timeout)
	defer cancel()
	if err := c.reopen(bounded); err != nil {
		return err
	}
	conn, err := rdma.Dial(bounded, c.Device, c.Plan.Server, append(rping.Options(), c.Options...)...)
	c.gone = ended(err)
	if err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("interrupted before there was a connection to %s", c.Plan.Server)
		}
		return c.explain(err)
	}
	if c.conn, err = rping.NewClient(conn); err != nil {
		return errors.Join(err, conn.Close())
	}
	c.peer = conn.RemoteAddr().(rdma.Addr).AddrPort
	return nil
}

// reopen opens the device again if it has ended.
func (c *Client) reopen(ctx context.Context) error {
	if !c.gone || c.Reopen == nil {
		return nil
	}
	dev, err := again(ctx, c.Reopen)
	if err != nil {
		return err
	}
	_ = c.Device.Close() // it has ended
	c.Device, c.gone = dev, false
	return nil
}

func (c *Client) hangUp() {
	if c.conn != nil {
		_ = c.conn.Close() // what is to be said about the peer was said
		c.conn = nil
	}
}

// trip makes one round trip.
func (c *Client) trip(ctx context.Context, seq uint64) Trip {
	if err := c.connect(ctx); err != nil {
		return Trip{Seq: seq, Err: err}
	}
	bounded, cancel := context.WithTimeout(ctx, c.Plan.Timeout)
	defer cancel()
	text := Text(seq, c.Plan.Size)
	start := time.Now()
	err := c.conn.Ping(bounded, text, c.Plan.Verify)
	t := Trip{Seq: seq, Time: time.Since(start), Err: err}
	if err != nil && !errors.Is(err, rping.ErrData) {
		t.Err = c.explain(err)
		c.gone = ended(err)
		c.hangUp()
	}
	return t
}

// explain says what to do about an error of a connection.
func (c *Client) explain(err error) error {
	to := c.Plan.Server
	var r *rdma.RejectedError
	switch {
	case errors.As(err, &r) && r.Reason == mad.ReasonInvalidServiceID:
		return fmt.Errorf("%s refuses the connection, because nobody listens at this port: "+
			"run `softroce-xdp ping --listen` or `rping -s` there (%w)", to, err)
	case errors.As(err, &r) && r.Text() != "":
		return fmt.Errorf("%s refuses the connection (%w)", to, err)
	case errors.As(err, &r):
		return fmt.Errorf("%s refuses the connection: its log says more (%w)", to, err)
	case errors.Is(err, cm.ErrTimeout), errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("no answer from %s: does `softroce-xdp ping --listen` or `rping -s` run there, "+
			"and does the firewall admit UDP port 4791? (%w)", to, err)
	case errors.Is(err, rdma.ErrPeerClosed), errors.Is(err, cm.ErrHungUp):
		return fmt.Errorf("%s has ended the connection: is it a server of rping, and still running? (%w)", to, err)
	}
	var e *rdma.Error
	if errors.As(err, &e) && e.Status == verbs.StatusRetryExceeded {
		return fmt.Errorf("%s has become silent: is the host up, and the server running? (%w)", to, err)
	}
	return err
}

// Text is the data of a round trip, like that of rping: a number, then letters that depend on it, then
// a zero, with which servers in C print it.
func Text(seq uint64, size int) []byte {
	b := fmt.Appendf(make([]byte, 0, size+32), "softroce-ping-%d: ", seq)
	for i := len(b); i < size; i++ {
		b = append(b, 'A'+byte((uint64(i)+seq)%26))
	}
	b = b[:size]
	b[size-1] = 0
	return b
}
