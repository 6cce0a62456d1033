// SPDX-License-Identifier: Apache-2.0

package rdma

import (
	"context"
	cryptorand "crypto/rand"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"net/netip"
	"time"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/cm"
	"github.com/softroce/softroce-xdp/rocev2/mad"
	"github.com/softroce/softroce-xdp/rocev2/seal"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Dial connects to a listener at "host:port". The addresses of a host name are tried one after the
// other. A loopback address, as of localhost, is the device itself: RemoteAddr is its first address of the
// IP version. Without a route to the peer it fails at once. If the neighbour of the path does not answer, it fails
// when the kernel gives up, by default after three seconds; if nobody answers, after some ten seconds, or when
// ctx ends. A peer that rejects the connection is a *RejectedError, which has its reason
// and private data.
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
	c, err := within(ctx, func() (*Conn, error) { return dial(ctx, dev, peer, list) }, closeLate[*Conn])
	if err != nil {
		return nil, wrap("dial", Addr{peer}, err)
	}
	return c, nil
}

func dial(ctx context.Context, dev verbs.Device, peer netip.AddrPort, list []Option) (*Conn, error) {
	a, err := newAttempt(ctx, dev, peer, list)
	if err != nil {
		return nil, err
	}
	c, err := newConn(a.host, a.o)
	if err != nil {
		return nil, err
	}
	if err = ctx.Err(); err == nil {
		c.id, err = a.request(c.qp)
	}
	if err != nil {
		return nil, errors.Join(err, c.destroy())
	}
	c.local, c.remote = a.local, a.remote
	a.host.handle(c.id, c)
	c.private, err = a.handshake(ctx, c.id, c.qp, c)
	if err != nil {
		_ = c.Close()
		return nil, err
	}
	return c, nil
}

// attempt is an attempt to connect to a peer.
type attempt struct {
	host          *host
	o             options
	attr          verbs.Attr
	local, remote Addr
	keys          *seal.Handshake // nil: plain
}

func newAttempt(ctx context.Context, dev verbs.Device, peer netip.AddrPort, list []Option) (a attempt, err error) {
	if a.o, err = complete(options{}, list); err != nil {
		return a, err
	}
	if err := ctx.Err(); err != nil {
		return a, err
	}
	if a.host, err = hostOf(dev); err != nil {
		return a, err
	}
	if err := a.o.checkDial(); err != nil {
		return a, err
	}
	port, err := dev.Port()
	if err != nil {
		return a, err
	}
	a.attr = a.o.attributes(dev, port)
	e, err := a.host.findEnds(ctx, port, a.o.local, peer.Addr())
	if err != nil {
		return a, err
	}
	a.local, a.remote = Addr{netip.AddrPortFrom(e.local, ephemeralPort())}, Addr{netip.AddrPortFrom(e.peer, peer.Port())}
	return a, ctx.Err() // the device may have answered late
}

// request sends the request to connect a queue pair.
func (a *attempt) request(qp verbs.QP) (cm.ID, error) {
	p := cm.ConnectParams{
		Local: a.local.Addr(), Peer: a.remote.Addr(), Service: mad.IPServiceID(mad.PortTCP, a.remote.Port()), SrcPort: a.local.Port(),
		Type: verbs.RC, QPN: qp.QPN(), PSN: randomPSN(), Attr: a.attr, Private: a.o.private,
	}
	if err := a.offer(&p); err != nil {
		return 0, err
	}
	return a.host.session.Connect(p)
}

// attempted is the Conn or Link of an attempt to connect, which gets the events.
type attempted interface {
	ended() <-chan struct{}
	Err() error // reason once ended is closed
	Close() error
}

// dialer is the attempted of the active end.
type dialer interface {
	attempted
	replies() <-chan cm.Event // Reply or Failed
	connected() <-chan struct{}
	reached() bool // once connected is closed: the connection was there, and may have ended since
}

// handshake waits for the peer's answer, brings the queue pair to RTS, and returns the private data of
// the peer.
func (a *attempt) handshake(ctx context.Context, id cm.ID, qp verbs.QP, d dialer) ([]byte, error) {
	var e cm.Event
	select {
	case e = <-d.replies():
	case <-d.ended():
		return nil, d.Err()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if e.Kind == cm.Failed {
		return nil, e.Err
	}
	if err := a.encrypt(qp, &e); err != nil {
		_ = a.host.session.Reject(id, []byte("no encryption"))
		return nil, err
	}
	if err := waitFor(ctx, func() error { return connectReady(a.host.session, id, qp, e.Path) }); err != nil {
		return nil, a.host.rejectAttempt(id, []byte("the queue pair cannot be connected"), d, err)
	}
	select {
	case <-d.connected():
		if !d.reached() {
			return nil, d.Err()
		}
		return e.Private, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// rejectAttempt rejects an attempt that this end cannot complete because of err, and returns the reason for the
// application. If there is nothing to reject, the attempt has ended before: the event that ended it, which may not have
// come yet, has the reason. err is a consequence then: of the queue pair, which the event brings to ERR, or of the call.
func (h *host) rejectAttempt(id cm.ID, private []byte, d attempted, err error) error {
	if h.session.Reject(id, private) == nil {
		return err
	}
	t := time.NewTimer(closeTime)
	defer t.Stop()
	select {
	case <-d.ended():
		return d.Err()
	case <-t.C:
		return err
	}
}

func (c *Conn) replies() <-chan cm.Event   { return c.reply }
func (c *Conn) connected() <-chan struct{} { return c.established }
func (c *Conn) reached() bool              { return c.wasConnected }
func (c *Conn) ended() <-chan struct{}     { return c.dead }

// waitFor returns what connect returns, which may wait for the peer's neighbour, or the error of ctx if it ends first.
func waitFor(ctx context.Context, connect func() error) error {
	done := make(chan error, 1)
	go func() { done <- connect() }()
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

// randomPSN is a first PSN that nobody can guess: packets with the address of the peer need it.
func randomPSN() rocev2.PSN {
	var b [4]byte
	_, _ = cryptorand.Read(b[:]) // it never fails
	return rocev2.PSN(binary.NativeEndian.Uint32(b[:]) & rocev2.PSNMask)
}
