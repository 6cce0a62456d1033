// SPDX-License-Identifier: Apache-2.0

package perf

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"time"

	"github.com/softroce/softroce-xdp/rocev2/rdma"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Client runs plans against servers. Progress, if not nil, is called about every Interval.
type Client struct {
	Device    verbs.Device
	Interface string
	Interval  time.Duration
	Progress  func(Moment)
	// Encryption encrypts the queue pairs; nil: they are plain.
	Encryption *rdma.Encryption
}

// ErrData is what a run with Check ends with if the data is wrong.
var ErrData = errors.New("the data is not what was sent")

// Run runs a plan against the server at host:port, and returns the result. After the end of ctx
// it returns within drainTime and figuresTime, with the result until then and the error of the context.
func (c *Client) Run(ctx context.Context, server string, p Plan) (*Result, error) {
	p.Encrypted = c.Encryption != nil
	if err := p.Validate(); err != nil {
		return nil, err
	}
	conn, err := dial(ctx, server)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	t := newControlConn(ctx, conn)
	release := t.guard()
	e, err := newEnd(ctx, c.Device, &p)
	if err != nil {
		return nil, err
	}
	defer e.close()
	peer, r, err := c.agree(t, e)
	if err != nil {
		return nil, err
	}
	if !release() {
		return nil, ctx.Err()
	}
	run := &run{end: e, peer: peer, client: c, answers: t.last()}
	stop := run.sampleLimits(ctx)
	err = run.drive(ctx, r)
	r.Limits = stop()
	if err != nil && (ctx.Err() == nil || r.Messages == 0) {
		return nil, err
	}
	return run.conclude(t, r)
}

// dial connects to the server's TCP port.
func dial(ctx context.Context, server string) (net.Conn, error) {
	var d net.Dialer
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	conn, err := d.DialContext(ctx, "tcp", server)
	if err != nil {
		return nil, dialError(server, err)
	}
	return conn, nil
}

// dialError returns why no server was reached, and what to do.
func dialError(server string, err error) error {
	var dns *net.DNSError
	var op *net.OpError
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case errors.As(err, &dns) && dns.IsNotFound:
		return fmt.Errorf("there is no host %q: write a name that resolves or an address", dns.Name)
	case errors.As(err, &dns):
		return fmt.Errorf("the name %q does not resolve now: %s; an address needs no name server", dns.Name, dns.Err)
	case errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%s does not answer: does `softroce-xdp perf server` run there, and may this host reach it?", server)
	case errors.As(err, &op):
		err = op.Err
	}
	return fmt.Errorf("%s: %w: does `softroce-xdp perf server` run there?", server, err)
}

// agree connects the queue pairs of both ends. It returns what the server has sent, and a result
// without figures.
func (c *Client) agree(t *controlConn, e *end) (*message, *Result, error) {
	p := e.plan
	if p.Op != "read" {
		e.fillAll()
	}
	remote, err := netip.ParseAddrPort(t.conn.RemoteAddr().String())
	if err != nil {
		return nil, nil, err
	}
	hello, err := e.describe(remote.Addr())
	if err != nil {
		return nil, nil, err
	}
	hello.Plan, hello.Pairs = p, e.pairs()
	if err := e.offers(t.conn, c.Encryption, hello.Pairs); err != nil {
		return nil, nil, err
	}
	peer, err := t.ask(hello)
	if err != nil {
		return nil, nil, err
	}
	pmtu, err := p.fit(min(hello.MTU, peer.MTU))
	if err != nil {
		return nil, nil, err
	}
	if err := e.finish(c.Encryption, peer.Pairs); err != nil {
		return nil, nil, err
	}
	if err := e.connect(t.ctx, &peer, len(hello.Rails), pmtu, false); err != nil {
		return nil, nil, err
	}
	if _, err := t.ask(message{}); err != nil {
		return nil, nil, err
	}
	return &peer, &Result{Plan: *p, Interface: c.Interface, Local: hello.Addr.String(), Peer: peer.Addr.String(), PMTU: pmtu.Bytes()}, nil
}

// answer is the last message of the server, or the error instead of it.
type answer struct {
	message
	err error
}

// last returns the channel of the server's last message. The server sends nothing before the client
// has finished, unless it has failed.
func (t *controlConn) last() <-chan answer {
	_ = t.conn.SetReadDeadline(time.Time{})
	answers := make(chan answer, 1)
	go func() {
		m, err := t.next()
		answers <- answer{m, err}
	}()
	return answers
}

// conclude compares the data, sends the server what was done, and adds the server's figures to the result.
func (r *run) conclude(t *controlConn, out *Result) (*Result, error) {
	p, idle := r.plan, r.idle()
	if p.Check && p.Op == "read" {
		if bad := r.compare(idle); bad != "" {
			return nil, fmt.Errorf("%w: what was read is not what the peer has: %s", ErrData, bad)
		}
	}
	out.Sent, out.Counters, out.GivenUp = r.done, r.counters(), r.outstanding
	_ = t.conn.SetReadDeadline(time.Now().Add(answerTime))
	// After an interrupt, the wait for the server's figures is short.
	defer context.AfterFunc(t.ctx, func() { _ = t.conn.SetDeadline(time.Now().Add(figuresTime)) })()
	if err := t.send(message{Messages: r.done, Idle: idle}); err != nil {
		return unanswered(t.ctx, out, err)
	}
	end := r.lastWord()
	if end.err != nil {
		return unanswered(t.ctx, out, end.err)
	}
	if end.Bad != "" {
		return nil, fmt.Errorf("%w: the peer compared: %s", ErrData, end.Bad)
	}
	out.Received, out.PeerCount, out.Answered, out.Checked = end.Messages, end.Counters, true, p.Check && len(idle) == 0
	return out, t.ctx.Err()
}

// lastWord returns the server's last message, which comes once: the run may have been ended by it.
func (r *run) lastWord() answer {
	if r.answered == nil {
		a := <-r.answers
		r.answered = &a
	}
	return *r.answered
}

// unanswered returns the result without the server's figures: an error, unless the run was
// interrupted.
func unanswered(ctx context.Context, r *Result, err error) (*Result, error) {
	if ctx.Err() != nil {
		return r, ctx.Err()
	}
	return nil, err
}
