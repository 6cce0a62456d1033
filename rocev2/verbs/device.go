// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"context"
	"net/netip"
)

// Device is a RoCEv2 NIC on one interface. Any goroutine may call its methods and those of
// the objects that it makes, also at the same time. Objects of one device work together only.
//
// An object that others use cannot be destroyed: the error wraps ErrBusy then.
type Device interface {
	Limits() Limits
	Port() (Port, error)

	AllocPD() (PD, error)

	// CreateCQ makes a completion queue for at least depth completions. One more, with none
	// polled, is an overrun: an EventCQError, and its queue pairs go to ERR (IBTA 10.8.4).
	CreateCQ(depth int) (CQ, error)

	// Events returns asynchronous events. The channel is closed after Close. If nobody
	// receives, the oldest events are lost.
	Events() <-chan Event

	// Close ends the device. Posted work requests are flushed, waiting goroutines return.
	Close() error
}

// Limits are the largest values that a device takes (IBTA 11.2.1.2).
type Limits struct {
	CQ          int // completions of a completion queue, if this process has no other one
	WR          int // work requests of a queue
	SGE         int // elements of a work request's list
	Inline      int // bytes of inline data
	MaxRdAtomic int // READs and ATOMICs outstanding in one direction of a queue pair

	// Numbers of objects that this process may have at the same time. 0: the device does not count them.
	QPs, CQs, SRQs, MRs, MWs, AHs int

	RegionBytes uint64 // bytes in all regions of this process; 0: the device does not count them
}

// Port is the state of the interface.
type Port struct {
	Active bool // the interface is up and has a carrier
	MTU    int  // MTU of IP packets, bytes; rocev2.PMTUOverhead of them are not payload

	RateBps uint64  // rate of the link in one direction, bits per second; 0: not known
	MAC     [6]byte // address of the interface, in the order of the wire; zeros: it has none

	// GIDs are the addresses by GID index. An invalid address is a free index. All are of type RoCE v2.
	GIDs []netip.Addr
}

// GUID is the identifier of the device: the EUI-64 of its address, in the order of the wire, as other RoCE devices have
// it (IBTA 4.1.1). It is all zeros without an address.
func (p *Port) GUID() (g [8]byte) {
	m := p.MAC
	if m == ([6]byte{}) {
		return g
	}
	return [8]byte{m[0] ^ 2, m[1], m[2], 0xff, 0xfe, m[3], m[4], m[5]}
}

// PD is a protection domain: the objects that may be used together (IBTA 10.2.3).
type PD interface {
	// RegMR registers memory of this process. It must not be freed until the region is
	// deregistered; memory that Go allocated with make does not move.
	RegMR(b []byte, access Access) (MR, error)

	// AllocMW makes a memory window of type 2B. OpBindWindow binds it.
	AllocMW() (MW, error)

	// CreateAH makes an address handle. It waits until the neighbour is known.
	CreateAH(av AddressVector) (AH, error)

	// CreateQP makes a queue pair in RESET.
	CreateQP(init QPInit) (QP, error)

	// CreateSRQ makes a shared receive queue for depth work requests of up to maxSGE
	// elements.
	CreateSRQ(depth, maxSGE int) (SRQ, error)

	Free() error
}

// QPInit are the properties of a queue pair that never change. A zero limit is the device's
// default.
type QPInit struct {
	Type           QPType
	SendCQ, RecvCQ CQ
	SRQ            SRQ // RC and UD; MaxRecv and MaxRecvSGE are its own then

	MaxSend, MaxRecv       int // work requests
	MaxSendSGE, MaxRecvSGE int
	MaxInline              int  // bytes
	SignalAll              bool // every work request has a completion, also without Signaled

	// OutOfOrder puts a queue pair of RC into out-of-order mode (docs/change/out-of-order.md), if that of the
	// peer is in it too. It has OpWrite, OpWriteNotify and OpRead only, with one element and without
	// inline data. Its messages are not ordered among each other, and so are its completions.
	OutOfOrder bool

	// Payload is the most data of a packet in out-of-order mode, in bytes, the same at both ends: a multiple
	// of 4 in 256..4096. 0 is that of the path MTU. An Ethernet MTU of 1500 has room for 1392 with IPv4 and
	// 1372 with IPv6.
	Payload int
}

// QP is a queue pair (IBTA 10.2.4).
type QP interface {
	QPN() uint32
	Type() QPType
	State() State

	// Modify sets the attributes of a that mask names, and goes to a.State if MaskState is
	// among them (IBTA 11.2.5.2). After an error nothing has changed. From INIT to RTR it
	// waits until the peer's neighbour is known.
	Modify(a Attr, mask AttrMask) error
	Query() (Attr, error)

	// PostSend and PostRecv put a copy of a work request on a queue. They do not block.
	PostSend(wr *SendWR) error
	PostRecv(wr *RecvWR) error

	// Destroy ends the queue pair in any state. Its work requests vanish without a
	// completion; completions that were not polled stay.
	Destroy() error
}

// CQ is a completion queue (IBTA 10.8).
type CQ interface {
	Depth() int

	// Poll moves up to len(out) completions to out and returns how many. It neither blocks
	// nor allocates.
	Poll(out []Completion) int

	// Wait returns nil when there is a completion to poll, at once if there is one already.
	// With solicitedOnly it waits for one that is solicited or an error. Otherwise it returns
	// the context's error, or one that wraps ErrDestroyed or ErrClosed.
	Wait(ctx context.Context, solicitedOnly bool) error

	// RequestNotify arms the queue: the next completion, or the next that is solicited or an
	// error, signals Notify and the eventfd, once (IBTA 11.4.2.2). Completions that are
	// there already do not: poll after arming.
	RequestNotify(solicitedOnly bool)
	Notify() <-chan struct{}

	// SetEventFD sets the eventfd that is written to when Notify is signalled; -1 for none.
	// The caller keeps it open until it has set another.
	SetEventFD(fd int)

	Destroy() error
}

// ResizableCQ is an optional interface of a CQ.
type ResizableCQ interface {
	CQ

	// Resize gives the queue another depth. Completions that were not polled stay, in their order. If there are more of
	// them than depth, the error says so, and nothing has changed (IBTA 11.2.8.3). Poll may find nothing until Resize
	// has returned.
	Resize(depth int) error
}

// SRQ is a shared receive queue (IBTA 10.2.9).
type SRQ interface {
	PostRecv(wr *RecvWR) error

	// SetLimit requests one EventSRQLimit, for when fewer than n work requests are left.
	SetLimit(n int) error

	Destroy() error
}

// AH is an address handle: the address of a destination of UD messages (IBTA 10.2.2).
type AH interface {
	// Destroy ends the handle. Messages to it that were posted and have not left are dropped.
	Destroy() error
}

// MR is a registered memory region (IBTA 10.6.2).
type MR interface {
	VA() uint64 // address of the first byte, for SGE.Addr and SendWR.RemoteAddr
	Len() uint64
	LKey() uint32
	RKey() uint32 // 0 if the region has no remote right

	// Deregister ends the region. When it has returned nil, nothing accesses the memory.
	Deregister() error
}

// MW is a memory window of type 2B: a key to a part of a region (IBTA 10.6.7.2).
type MW interface {
	RKey() uint32 // a bind changes its low 8 bits
	Free() error
}

// Event is an asynchronous event (IBTA 11.6.3).
type Event struct {
	Type EventType
	QP   QP
	SRQ  SRQ
	CQ   CQ
	Addr netip.Addr // EventGIDChange
	Err  error      // EventDeviceFatal; EventQPFatal: why, or nil
}
