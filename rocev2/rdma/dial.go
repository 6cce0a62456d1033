// SPDX-License-Identifier: Apache-2.0

package rdma

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/netip"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/cm"
	"github.com/softroce/softroce-xdp/rocev2/mad"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Dial connects to a listener at "host:port". The addresses of a host name are tried one after the
// other. If nobody answers, it fails after some ten seconds, or when ctx ends. A peer that rejects
// the connection is a *RejectedError, which has its reason and private data.
func Dial(ctx context.Context, dev verbs.Device, address string, list ...Option) (*Conn, error) {
	peers, err := lookup(ctx, address)
	if err != nil {
		return nil, &Error{Op: "dial " + address, Err: err}
	}
	var errs []error
	for _, peer := range peers {
		c, err := DialAddrPort(ctx, dev, peer, list...)
		if err == nil {
			return c, nil
		}
		errs = append(errs, err)
		if ctx.Err() != nil {
			break
		}
	}
	return nil, errors.Join(errs...)
}

// DialAddrPort is Dial for an address.
func DialAddrPort(ctx context.Context, dev verbs.Device, peer netip.AddrPort, list ...Option) (*Conn, error) {
	peer = netip.AddrPortFrom(peer.Addr().Unmap(), peer.Port())
	c, err := dial(ctx, dev, peer, list)
	if err != nil {
		return nil, wrap("dial", Addr{peer}, err)
	}
	return c, nil
}

func dial(ctx context.Context, dev verbs.Device, peer netip.AddrPort, list []Option) (*Conn, error) {
	o, err := complete(options{}, list)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	h, err := hostOf(dev)
	if err != nil {
		return nil, err
	}
	attr, err := o.attributes(dev)
	if err != nil {
		return nil, err
	}
	if !o.local.IsValid() {
		if o.local, err = source(dev, peer.Addr()); err != nil {
			return nil, err
		}
	}
	c, err := newConn(h, o)
	if err != nil {
		return nil, err
	}
	c.local, c.remote = Addr{netip.AddrPortFrom(o.local, ephemeralPort())}, Addr{peer}
	c.id, err = h.session.Connect(cm.ConnectParams{
		Local: o.local, Peer: peer.Addr(), Service: mad.IPServiceID(mad.PortTCP, peer.Port()), SrcPort: c.local.Port(),
		Type: verbs.RC, QPN: c.qp.QPN(), PSN: randomPSN(), Attr: attr, Private: o.private,
	})
	if err != nil {
		return nil, errors.Join(err, c.destroy())
	}
	h.handle(c.id, c)
	if err := c.handshake(ctx); err != nil {
		_ = c.Close()
		return nil, err
	}
	return c, nil
}

// handshake waits for the peer's answer and brings the queue pair to RTS.
func (c *Conn) handshake(ctx context.Context) error {
	var e cm.Event
	select {
	case e = <-c.reply:
	case <-c.dead:
		return c.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
	if e.Kind == cm.Failed {
		return e.Err
	}
	c.private = e.Private
	if err := c.toRTS(ctx, e.Path); err != nil {
		_ = c.host.session.Reject(c.id, []byte("the queue pair cannot be connected"))
		return err
	}
	if err := c.host.session.Ready(c.id, nil); err != nil {
		return err
	}
	select {
	case <-c.established:
		return c.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// toRTS brings the queue pair to RTS, which may wait for the peer's neighbour.
func (c *Conn) toRTS(ctx context.Context, p cm.Path) error {
	done := make(chan error, 1)
	go func() { done <- p.Connect(c.qp) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// ephemeralPort returns a port for the end that dials. Two connections may have the same one: they
// differ by their communication IDs.
func ephemeralPort() uint16 { return uint16(49152 + rand.N(65536-49152)) }

func randomPSN() rocev2.PSN { return rocev2.PSN(rand.Uint32() & rocev2.PSNMask) }
