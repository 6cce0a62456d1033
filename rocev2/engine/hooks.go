// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/qp"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// hooks is an optional feature of the engine. Pre-credit is one (precredit.go).
//
// Core.hooks is nil if the feature is off, QP.hooked false if the queue pair does not use it: each
// place that calls a hook does so behind one of these comparisons. The core calls all of them in its goroutine.
// A feature is made with what it needs of the core. One that has no use for some hooks embeds noHooks. Packets are passed by value:
// where one escaped through the interface, each received packet would be an allocation.
type hooks interface {
	// Of the engine: called if the feature is on.

	// onConnect is called when a queue pair got an address. If the queue pair uses the
	// feature, it sets QP.hooked.
	onConnect(x *QP, a *verbs.Attr)
	// onRenewed is called before onPeer when a peer has given another token: it was attached again.
	onRenewed(d *dest)
	// onPeer is called with the destination table's entry of a peer.
	onPeer(d *dest, reply *DestSync)
	// onControl is called with a packet to rocev2.ControlQPN.
	onControl(p rocev2.Packet, m Meta)
	// next sends up to n packets before the queues of destinations are served, and returns
	// how many, or 1 if it has not come to the end of what may be sent.
	next(n int) int
	// onSend is called with each packet before its headers are built. It may set the traffic
	// class and, if the packet has a timestamp option, the credit in it. ahead: next sends the
	// packet. x is nil for queue pair 1. omitT1: the option must not have T1. It sends nothing itself: the frame of the
	// packet is the next one of the port.
	onSend(x *QP, d *dest, o *qp.Outbound, ahead bool) (omitT1 bool)
	// onIteration is called once an iteration, after everything was sent.
	onIteration()
	// deadline is when onIteration has something to do by itself, 0 = never.
	deadline(now qp.Time) int64

	// Of a queue pair: called if it uses the feature.

	// onPosted is called when a work request was put on the send queue.
	onPosted(x *QP, wr *verbs.SendWR)
	// mayStart reports whether the queue pair in service may send. If not, it leaves the
	// queue of its destination, and the feature enqueues it again.
	mayStart(x *QP) bool
	// quantum is what it may send in a row while others wait; onCharged counts each n bytes that
	// it has sent from the queue of its destination.
	quantum(x *QP) int32
	onCharged(x *QP, n int)
	// onTimeout is called when a timer ran out. ack: the wait for an ACK was too long. before: bytes in flight to the
	// destination before: the queue pair may have found some lost.
	onTimeout(x *QP, ack bool, before uint64)
	// onReceived is called with a packet of the peer after the queue pair has processed it.
	// fresh: the queue pair has taken data, for the first time.
	onReceived(x *QP, p rocev2.Packet, m Meta, before inFlight, fresh bool)
	// onDisconnect is called before it loses its address. It clears QP.hooked.
	onDisconnect(x *QP)
}

// inFlight is what was in flight to a destination before a packet came from there, in bytes, and what part of it the
// packet has refused.
type inFlight struct{ bytes, lost uint64 }

// noHooks does nothing.
type noHooks struct{}

var _ hooks = noHooks{}

func (noHooks) onConnect(*QP, *verbs.Attr)                          {}
func (noHooks) onRenewed(*dest)                                     {}
func (noHooks) onPeer(*dest, *DestSync)                             {}
func (noHooks) onControl(rocev2.Packet, Meta)                       {}
func (noHooks) next(int) int                                        { return 0 }
func (noHooks) onSend(*QP, *dest, *qp.Outbound, bool) bool          { return false }
func (noHooks) onIteration()                                        {}
func (noHooks) deadline(qp.Time) int64                              { return 0 }
func (noHooks) onPosted(*QP, *verbs.SendWR)                         {}
func (noHooks) mayStart(*QP) bool                                   { return true }
func (noHooks) quantum(*QP) int32                                   { return quantum }
func (noHooks) onCharged(*QP, int)                                  {}
func (noHooks) onTimeout(*QP, bool, uint64)                         {}
func (noHooks) onReceived(*QP, rocev2.Packet, Meta, inFlight, bool) {}
func (noHooks) onDisconnect(*QP)                                    {}
