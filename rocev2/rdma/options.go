// SPDX-License-Identifier: Apache-2.0

package rdma

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Option changes a connection (Dial, Request.Accept) or a listener and its connections (Listen).
type Option func(*options)

type options struct {
	local      netip.Addr
	pd         verbs.PD
	private    []byte
	backlog    int
	recvs      int
	maxMessage int
	sends      int
	keepAlive  time.Duration
	attr       func(*verbs.Attr)
	encryption *Encryption // nil: plain
}

// The defaults of options.
const (
	DefaultRecvBuffers = 32
	DefaultMaxMessage  = 16 << 10
	DefaultSendDepth   = 32
	DefaultKeepAlive   = 15 * time.Second
)

// WithLocal chooses the address of this end, one of the GIDs of the device. Default for Dial: the
// source address of the route to the peer, if it is a GID, otherwise the first GID of the peer's
// IP version.
func WithLocal(a netip.Addr) Option { return func(o *options) { o.local = a } }

// WithPD chooses the protection domain of queue pair and buffers, for regions that the application
// registers itself. Default: one for all connections of the device, see Conn.Register.
func WithPD(pd verbs.PD) Option { return func(o *options) { o.pd = pd } }

// WithPrivate sends private data with the connection request (up to 56 bytes) or with its
// acceptance (up to 196 bytes). The peer gets it padded with zeros.
func WithPrivate(b []byte) Option { return func(o *options) { o.private = bytes.Clone(b) } }

// WithBacklog sets how many requests of a listener wait for Accept. More are dropped, and their
// senders repeat them after a second. Default: cm.DefaultBacklog.
func WithBacklog(n int) Option { return func(o *options) { o.backlog = n } }

// WithRecvBuffers sets how many messages can arrive before a Recv. More wait at the peer, which
// gets RNR NAKs. Default: DefaultRecvBuffers.
func WithRecvBuffers(n int) Option { return func(o *options) { o.recvs = n } }

// WithMaxMessage sets the longest message in bytes that this end receives or copies. A longer one
// ends the connection at both ends, so both ends choose the same. Default: DefaultMaxMessage.
func WithMaxMessage(n int) Option { return func(o *options) { o.maxMessage = n } }

// WithSendDepth sets how many operations may be outstanding. Default: DefaultSendDepth.
func WithSendDepth(n int) Option { return func(o *options) { o.sends = n } }

// WithKeepAlive sets after which time without traffic an empty WRITE asks whether the peer is
// alive, so that a Recv does not wait for ever for a peer that has crashed. A negative time
// disables it. Default: DefaultKeepAlive.
func WithKeepAlive(d time.Duration) Option { return func(o *options) { o.keepAlive = d } }

// WithAttr changes the attributes of the queue pair: Timeout and RetryCnt, for example, which
// determine after which time an operation fails if the peer does not answer. Those of the end that dials are
// the peer's too, unless that has WithAttr, and none is changed. The attributes given to
// change are verbs.DefaultAttr with the largest PMTU of the interface; for an accepted connection,
// what both ends have agreed on.
func WithAttr(change func(*verbs.Attr)) Option { return func(o *options) { o.attr = change } }

// complete fills in the defaults and applies options.
func complete(base options, list []Option) (options, error) {
	def := func(v *int, d int) {
		if *v == 0 {
			*v = d
		}
	}
	def(&base.recvs, DefaultRecvBuffers)
	def(&base.maxMessage, DefaultMaxMessage)
	def(&base.sends, DefaultSendDepth)
	for _, set := range list {
		set(&base) // a 0 is refused then
	}
	if base.keepAlive == 0 {
		base.keepAlive = DefaultKeepAlive
	}
	var errs []error
	within := func(what string, v, limit int) {
		if v < 1 || v > limit {
			errs = append(errs, fmt.Errorf("%s is %d: choose 1 to %d", what, v, limit))
		}
	}
	if base.encryption != nil {
		errs = append(errs, base.encryption.check())
	}
	within("WithRecvBuffers", base.recvs, 1<<14)
	within("WithSendDepth", base.sends, 1<<14)
	within("WithMaxMessage", base.maxMessage, 1<<30)
	if errors.Join(errs...) == nil && base.maxMessage > maxBufferBytes/base.recvs {
		errs = append(errs, fmt.Errorf("%d buffers of %d bytes: choose at most %d bytes together", base.recvs, base.maxMessage, maxBufferBytes))
	}
	return base, errors.Join(errs...)
}

// maxBufferBytes bounds the memory of the receive buffers of a connection.
const maxBufferBytes = 1 << 30

// attributes returns the attributes that Dial asks for.
func (o *options) attributes(dev verbs.Device, port verbs.Port) verbs.Attr {
	a := verbs.DefaultAttr()
	if m, ok := rocev2.PMTUForMTU(port.MTU - o.sealRoom()); ok {
		a.PMTU = m
	}
	limit := uint8(min(dev.Limits().MaxRdAtomic, 255))
	a.MaxRdAtomic, a.MaxDestRdAtomic = min(a.MaxRdAtomic, limit), min(a.MaxDestRdAtomic, limit)
	if o.attr != nil {
		o.attr(&a)
	}
	return a
}
