// SPDX-License-Identifier: Apache-2.0

package nic

import (
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/engine"
	"github.com/softroce/softroce-xdp/rocev2/mr"
	"github.com/softroce/softroce-xdp/rocev2/nic/internal/route"
	"github.com/softroce/softroce-xdp/rocev2/qp"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/rocev2/xsk"
)

// The objects that applications hold, as package verbs describes them.

// Device is a RoCEv2 NIC in this process, on one interface, or on several (the rails of Open). Its methods and those of
// what it makes may be called by any goroutine.
type Device struct {
	opts       Options
	dataplane  Dataplane
	routes     *route.Table // nil: a loopback device
	socks      xsk.Set
	otherRails []*iface // the further interfaces
	mem        *mr.Table
	eng        *runner
	allow      engine.AllowList
	mtu        int // MTU of the interface when the device was opened: the size that its frames have room for

	cm cmState

	gone     atomic.Bool            // the interface is gone
	started  atomic.Pointer[runner] // eng, for the goroutine that follows the interface
	linkLost bool                   // routeEvent's: the interface has had no carrier

	err       atomic.Pointer[error] // reason why the device is of no use
	done      chan struct{}         // closed when it ended
	ownerless sync.Mutex            // lock of InLoop after the end
	once      sync.Once

	eventMu      sync.Mutex
	events       chan verbs.Event
	eventsClosed bool
	eventsLost   atomic.Uint64
}

// PD is a protection domain: what may be used together (IBTA 10.2.3).
type PD struct {
	dev    *Device
	num    uint32
	counts *Counts // nil: those of the device
}

// CQ is a completion queue (IBTA 10.8). The engine fills it, any goroutine may empty
// it.
type CQ struct {
	dev   *Device
	ring  []verbs.Completion
	mask  uint32
	depth uint32
	tail  atomic.Uint32 // applications see what is before

	// The runner's.
	next    uint32 // position of the next entry to be written
	overrun bool   // a completion was lost
	updated bool   // there are completions that were not shown
	alert   bool   // one of them is solicited or an error

	polling sync.Mutex
	head    atomic.Uint32 // next to be read

	armed  atomic.Uint32
	notify chan struct{}
	fdMu   sync.Mutex
	fd     int // eventfd to write to, or -1
	users  users
	gone   chan struct{} // closed by Destroy
	sink   CQSink        // receiver of the completions in place of ring, nil without one
}

// SRQ is a shared receive queue (IBTA 10.2.9).
type SRQ struct {
	dev    *Device
	pd     *PD
	conf   qp.SRQConfig
	core   engine.SRQ // the runner's
	posted uint32     // receives that were posted; guarded by posts.mu
	users  users
}

// AH is an address handle: the route to a destination of datagrams (IBTA 10.2.2).
type AH struct {
	dev     *Device
	pd      *PD
	address engine.Address // the runner's, but for its Path
	gone    atomic.Bool
}

var _ engine.AddressHandle = (*AH)(nil)

// Address implements engine.AddressHandle.
func (a *AH) Address() *engine.Address { return &a.address }

// QP is a queue pair of a device. PostSend needs the fields before core and the first line of core (engine.QP), which
// are in the first two cache lines.
type QP struct {
	pd                     *PD
	sendPosted, recvPosted uint32      // numbers of posted work requests; guarded by posts.mu
	destroyed              atomic.Bool // Destroy was called
	pmtu                   rocev2.PMTU // PMTU set by Modify; guarded by posts.mu
	rdAtomic               uint8       // limit set by Modify; guarded by posts.mu
	outOfOrder             bool        // the queue pair is in out-of-order mode

	core engine.QP // the runner's

	srq     *SRQ     // nil: it has a receive queue of its own
	steered *steered // further interfaces; nil unless it is in out-of-order mode
}

// dev returns the device of the queue pair.
func (x *QP) dev() *Device { return x.pd.dev }

// Limits of a queue pair.
const (
	MaxWR     = 1 << 15 // work requests of a queue
	MaxSGE    = 32      // elements of one
	MaxInline = 1024    // bytes of inline data
)

// MaxCQ is the largest completion queue.
const MaxCQ = 1 << 22

// Options of a device. Zero values mean the defaults.
type Options struct {
	Interface string // name in the network namespace of the calling thread

	// Spin is how long the engine looks for work before it sleeps: latency against
	// CPU time. Default 20 us; negative means never.
	Spin time.Duration

	// ResolveTimeout is how long Modify and CreateAH wait for a neighbour; default 4 s,
	// as the kernel gives up after 3.
	ResolveTimeout time.Duration

	Mode     xsk.Mode      // copy or zero-copy; default: what the driver can
	RxFrames int           // frames per receive queue; default 4096
	TxFrames int           // frames per transmit queue; default 512
	BusyPoll time.Duration // time of xsk.Config.BusyPoll
	// PreCredit has the engine grant pre-credit to peers, and send the first round trip
	// of large messages on theirs (S5). Peers without it get plain RoCEv2.
	PreCredit bool
	// CreditEpoch is the number of the next pre-credit account, in memory that outlives the device; 0 = none
	// was made. The device writes it. Without it, accounts are numbered from the Unix time on, and a clock that
	// is set back has peers ignore the grants.
	CreditEpoch *atomic.Uint32
	// LargeDSCP is for large flows' data to other engines, 1 to 63: switches that have two
	// queues can serve all other packets first. 0: it is that of the queue pair. Needs PreCredit.
	LargeDSCP uint8

	Keys int // memory regions and windows at once, see mr.Config

	// Allow are the addresses of the hosts that the device exchanges packets with. Empty: all.
	Allow []netip.Prefix

	// Feeder brings work requests of other processes. nil: there are none.
	Feeder Feeder
}
