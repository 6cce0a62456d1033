// SPDX-License-Identifier: Apache-2.0

package rdma

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"

	"github.com/softroce/softroce-xdp/rocev2/cm"
	"github.com/softroce/softroce-xdp/rocev2/mad"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Service is a UD queue pair that Resolve has found.
type Service struct {
	verbs.Endpoint        // Addr, QPN and QKey of the peer, for an address handle and work requests
	Private        []byte // private data of the peer, padded with zeros
}

// Resolve asks the peer at "host:port" for the UD queue pair that it announces there (SIDR). If
// nobody answers, it fails as Dial does. A peer that has no queue pair
// there is an *UnresolvedError. Of the options, WithLocal and WithPrivate (up to 180 bytes) matter.
func Resolve(ctx context.Context, dev verbs.Device, address string, list ...Option) (*Service, error) {
	peers, err := lookup(ctx, address)
	if err != nil {
		return nil, &Error{Op: "resolve " + address, Err: err}
	}
	var errs []error
	for _, peer := range peers {
		s, err := within(ctx, func() (*Service, error) { return resolve(ctx, dev, peer, list) }, nil)
		if err == nil {
			return s, nil
		}
		errs = append(errs, wrap("resolve", Addr{peer}, err))
		if ctx.Err() != nil {
			break
		}
	}
	return nil, errors.Join(errs...)
}

func resolve(ctx context.Context, dev verbs.Device, peer netip.AddrPort, list []Option) (*Service, error) {
	o, err := complete(options{}, list)
	if err != nil {
		return nil, err
	}
	h, err := hostOf(dev)
	if err != nil {
		return nil, err
	}
	port, err := dev.Port()
	if err != nil {
		return nil, err
	}
	e, err := h.findEnds(ctx, port, o.local, peer.Addr())
	if err != nil {
		return nil, err
	}
	id, err := h.session.Resolve(cm.ResolveParams{
		Local: e.local, Peer: e.peer, Service: mad.IPServiceID(mad.PortUDP, peer.Port()), SrcPort: ephemeralPort(), Private: o.private,
	})
	if err != nil {
		return nil, err
	}
	answer := make(resolution, 1)
	h.handle(id, answer)
	select {
	case e := <-answer:
		if e.Kind != cm.Resolved {
			return nil, e.Err
		}
		return &Service{e.Path.Remote, e.Private}, nil
	case <-ctx.Done():
		_ = h.session.Disconnect(id, nil) // it may have ended by now
		return nil, ctx.Err()
	}
}

// resolution implements handler: it gets the first event.
type resolution chan cm.Event

func (r resolution) event(e cm.Event) {
	select {
	case r <- e:
	default: // Gone
	}
}

// Announcement is a UD queue pair that peers find with Resolve.
type Announcement struct {
	host    *host
	service mad.ServiceID
	addr    Addr
	place   place
	q       verbs.QP
	qkey    uint32
	private []byte
	once    sync.Once
}

// Announce answers Resolve at "host:port" or ":port" with a UD queue pair and its Q_Key until Close.
// WithPrivate adds up to 136 bytes. Close leaves the queue pair as it is.
func Announce(ctx context.Context, dev verbs.Device, address string, q verbs.QP, qkey uint32, list ...Option) (*Announcement, error) {
	a, err := within(ctx, func() (*Announcement, error) { return announce(ctx, dev, address, q, qkey, list) }, closeLate[*Announcement])
	if err != nil {
		return nil, &Error{Op: "announce " + address, Err: err}
	}
	return a, nil
}

func announce(ctx context.Context, dev verbs.Device, address string, q verbs.QP, qkey uint32, list []Option) (*Announcement, error) {
	o, err := complete(options{}, list)
	if err != nil {
		return nil, err
	}
	at, err := listenAddr(ctx, address)
	switch {
	case err != nil:
		return nil, err
	case q.Type() != verbs.UD:
		return nil, errors.New("a queue pair of " + q.Type().String() + ": only UD queue pairs are announced")
	case at[0].Port() == 0:
		return nil, errors.New("port 0: give the port that peers ask for")
	}
	where, err := findPlace(dev, at)
	if err != nil {
		return nil, err
	}
	h, err := hostOf(dev)
	if err != nil {
		return nil, err
	}
	addr := Addr{netip.AddrPortFrom(where.addr, where.port)}
	a := &Announcement{host: h, service: mad.IPServiceID(mad.PortUDP, where.port), addr: addr, place: where, q: q, qkey: qkey, private: o.private}
	if err := h.listen(a.service, o.backlog, a); err != nil {
		return nil, err
	}
	return a, nil
}

// request implements requestQueue.
func (a *Announcement) request(e cm.Event) handler {
	if e.Kind != cm.ResolveRequest || !a.place.takes(&e) {
		return nil
	}
	go func() { _ = a.host.session.Answer(e.ID, a.q.QPN(), a.qkey, a.private) }() // the peer asks again
	return noHandler{}
}

func (a *Announcement) deviceEnded(error) {}

// Addr returns the address of the announcement.
func (a *Announcement) Addr() net.Addr { return a.addr }

// Close ends the announcement.
func (a *Announcement) Close() (err error) {
	a.once.Do(func() {
		a.host.unlisten(a.service)
		err = wrap("close", a.addr, Bounded(func() error { return a.host.session.Unlisten(a.service) }))
	})
	return err
}
