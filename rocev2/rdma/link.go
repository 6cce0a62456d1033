// SPDX-License-Identifier: Apache-2.0

package rdma

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/softroce/softroce-xdp/rocev2/cm"
	"github.com/softroce/softroce-xdp/rocev2/seal"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Link is a connection of a queue pair that the application has made. Work is posted to that queue
// pair, and its completions are polled, by the application alone. Any goroutine may call the methods.
//
// When the connection ends, for whatever reason, the queue pair goes to ERR, so all its work requests
// complete. The application destroys it after Close.
type Link struct {
	host          *host
	qp            verbs.QP
	id            cm.ID
	local, remote Addr
	private       []byte // private data of the peer

	established chan struct{} // closed: both ends are connected, or never will be
	reply       chan cm.Event // Connect: Reply or Failed
	done        chan struct{} // closed: err is set
	released    chan struct{} // closed: the communication manager has reported the end

	up, over, free sync.Once
	err            error
	wasConnected   bool // both ends were connected; set before established is closed
}

func newLink(h *host, qp verbs.QP) *Link {
	return &Link{
		host: h, qp: qp, established: make(chan struct{}), reply: make(chan cm.Event, 4),
		done: make(chan struct{}), released: make(chan struct{}),
	}
}

// Connect connects a queue pair of the application, of type RC and in RESET or INIT, to a listener at
// "host:port", and brings it to RTS. Of a host name, the first address is taken. Of the options,
// WithLocal, WithPrivate and WithAttr matter. After an error the queue pair is of no further use.
func Connect(ctx context.Context, dev verbs.Device, address string, qp verbs.QP, list ...Option) (*Link, error) {
	peers, err := lookup(ctx, address)
	if err != nil {
		return nil, &Error{Op: "connect " + address, Err: err}
	}
	l, err := within(ctx, func() (*Link, error) { return connect(ctx, dev, peers[0], qp, list) }, closeLate[*Link])
	if err != nil {
		return nil, wrap("connect", Addr{peers[0]}, err)
	}
	return l, nil
}

func connect(ctx context.Context, dev verbs.Device, peer netip.AddrPort, qp verbs.QP, list []Option) (*Link, error) {
	if err := connectable(qp); err != nil {
		return nil, err
	}
	a, err := newAttempt(ctx, dev, peer, list)
	if err != nil {
		return nil, err
	}
	l := newLink(a.host, qp)
	l.local, l.remote = a.local, a.remote
	if l.id, err = a.request(qp); err != nil {
		return nil, err
	}
	a.host.handle(l.id, l)
	if l.private, err = a.handshake(ctx, l.id, qp, l); err != nil {
		_ = l.Close()
		return nil, err
	}
	return l, nil
}

func (l *Link) replies() <-chan cm.Event   { return l.reply }
func (l *Link) connected() <-chan struct{} { return l.established }
func (l *Link) reached() bool              { return l.wasConnected }
func (l *Link) ended() <-chan struct{}     { return l.done }

// connectable refuses a queue pair that cannot be connected, before the peer gets a message.
func connectable(qp verbs.QP) error {
	if qp.Type() != verbs.RC {
		return errors.New("a queue pair of " + qp.Type().String() + ": only RC queue pairs are connected")
	}
	if s := qp.State(); s != verbs.StateReset && s != verbs.StateInit {
		return fmt.Errorf("the queue pair is in %s, and is connected from RESET or INIT: Modify it to RESET, or make another", s)
	}
	return nil
}

// AcceptQP accepts the request with a queue pair of the application, of type RC and in RESET or INIT.
// Of the options, WithPrivate and WithAttr matter. After an error the queue pair is of no further use.
func (r *Request) AcceptQP(ctx context.Context, qp verbs.QP, list ...Option) (*Link, error) {
	l, err := within(ctx, func() (*Link, error) { return r.acceptQP(ctx, qp, list) }, closeLate[*Link])
	if err != nil {
		return nil, wrap("accept", r.remote(), err)
	}
	return l, nil
}

func (r *Request) acceptQP(ctx context.Context, qp verbs.QP, list []Option) (*Link, error) {
	l, a, err := r.newLink(qp, list)
	if err != nil {
		return nil, r.refuse(err)
	}
	return l, r.connect(ctx, l, a)
}

// newLink returns a connection of the queue pair for the request. It has the events of the request from then on.
func (r *Request) newLink(qp verbs.QP, list []Option) (*Link, *acceptance, error) {
	o, err := complete(r.l.o, list)
	if err != nil {
		return nil, nil, err
	}
	if err := connectable(qp); err != nil {
		return nil, nil, err
	}
	h := r.l.host
	path := r.path(o, qp)
	l := newLink(h, qp)
	l.id, l.private = r.e.ID, o.applicationPart(r.e.Private, seal.OfferLen)
	l.local, l.remote = Addr{netip.AddrPortFrom(path.Local.Addr, r.l.addr.Port())}, r.remote()
	private, err := r.answer(o, qp, path.Remote.PSN)
	if err != nil {
		return nil, nil, err
	}
	if err := h.takeOver(l.id, l); err != nil {
		return nil, nil, err
	}
	return l, &acceptance{qp, path, private}, nil
}

// LocalAddr returns the address of this end.
func (l *Link) LocalAddr() net.Addr { return l.local }

// RemoteAddr returns the address of the peer.
func (l *Link) RemoteAddr() net.Addr { return l.remote }

// PeerPrivate returns the private data that the peer sent with its request or acceptance, padded
// with zeros.
func (l *Link) PeerPrivate() []byte { return l.private }

// Done is closed when the connection has ended.
func (l *Link) Done() <-chan struct{} { return l.done }

// Err returns why the connection has ended, or nil.
func (l *Link) Err() error {
	select {
	case <-l.done:
		return l.err
	default:
		return nil
	}
}

// Close disconnects. It takes a round trip; one second if the peer does not answer. The error wraps ErrNoAnswer if
// the device does not.
func (l *Link) Close() error {
	l.end(net.ErrClosed)
	return Bounded(l.disconnect)
}

func (l *Link) disconnect() error {
	if l.host.session.Disconnect(l.id, nil) != nil {
		return nil // it has ended already
	}
	t := time.NewTimer(closeTime)
	defer t.Stop()
	select {
	case <-l.released:
	case <-t.C:
	}
	return nil
}

// event implements handler.
func (l *Link) event(e cm.Event) {
	switch e.Kind {
	case cm.Reply:
		l.reply <- e
	case cm.Established:
		l.up.Do(func() {
			l.wasConnected = true
			close(l.established)
		})
	case cm.Failed:
		select {
		case l.reply <- e:
		default: // Connect has returned
		}
		l.end(e.Err)
		l.release()
	case cm.Disconnected:
		err := e.Err
		if err == nil {
			err = ErrPeerClosed
		}
		l.end(err)
		l.release()
	case cm.Gone:
		l.end(errGivenUp) // unless a request that was taken over has missed why
		l.release()
	}
}

func (l *Link) release() { l.free.Do(func() { close(l.released) }) }

// end ends the connection for a reason, of which the first one counts. It does not block.
func (l *Link) end(err error) {
	l.over.Do(func() {
		l.err = err
		close(l.done)
		l.up.Do(func() { close(l.established) })
		go func() { _ = l.qp.Modify(verbs.Attr{State: verbs.StateErr}, verbs.MaskState) }() // fails if it is destroyed
	})
}
