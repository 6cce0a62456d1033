// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"net/netip"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/qp"
)

// rail is one interface with the destinations that it leads to.
type rail struct {
	name      string
	mtu       int // bytes of IP
	ports     []Port
	config    RuntimeConfig
	dests     map[netip.Addr]*dest
	syncQueue []*dest // destinations to be reported

	// The latest reports, and the time of the next ones (dataplane_sync.go).
	due     qp.Time
	batch   []*dest
	reports []DestSync
}

// dest is one destination: its rate, its stamps, and which queue pairs have data for
// it. The queue pairs and address handles that lead there share it (dest.go).
type dest struct {
	addr netip.Addr
	rail uint8 // 0: that of the device's own interface
	port Port  // one port a destination: its packets keep their order
	refs int

	entry  Entry   // nil: the destination is reported
	waited qp.Time // time that the next packet of data has waited for the entry

	drr    drrQueue[*egress] // egresses of queue pairs that may have data
	queued bool              // the destination is in transmitter.ready or socketFull, or being served
	link   fifoLink[*dest]
	idle   uint32 // QPN of the last queue pair that left drr with work requests in its queue, or 0

	// Flight of all queue pairs together, and the queue of those that are blocked on it.
	flight  qp.Flight
	resumes bool // queue pairs of the destination are to continue, see outages
	windows windows
	reorder *qp.ReorderPool // share of the engine's pool, nil until a queue pair needs it

	// The pacer, and the wait for it.
	pacer       bucket
	paceBlocked qp.Time // beginning of the time that data waits for the pacer, 0 = none does
	timer       timer[*dest]

	largeAt qp.Time // send time of the last packet with PreCredit.LargeDSCP

	// Capabilities of the peer, and its latest stamp: T1 and when that arrived.
	stamps, sack   bool
	ooo            bool // out-of-order mode
	offersCredit   bool // pre-credit
	tokens         tokens
	peerT1, peerT2 uint64
	ce             bool // the latest packet had CE, and no echo of it was sent

	credit *creditPeer // pre-credit's, nil unless queue pairs use that

	guard      guard
	waitsUntil qp.Time // packets wait for the first token until then (guard.go)

	probe        probe
	report       DestSync
	answers      bool // nothing was sent but answers of the communication manager (answers.go)
	syncQueued   bool // the destination is in rail.syncQueue
	initialSyncs int8 // reports still to be made although nothing was sent
}

// windows limit what queue pairs have in flight to a destination, in bytes of frames (qp.Flight);
// 0 = no limit. The least that is set holds. The rate says how fast what
// fits may leave (tx_window.go).
type windows struct {
	policy uint64 // window of the policy at its rate, from the destination table
	ramp   uint64 // window of a start, until the policy has measured the path
}

// probe measures the round trip to peers that do not stamp, on one packet at a time
// (rtt_probe.go).
type probe struct {
	qp   *QP
	psn  rocev2.PSN
	sent qp.Time // 0 = none outstanding
}

// Counters are what a core counts in addition to the queue pairs' own (counters.go).
type Counters struct {
	rxPackets, rxMalformed, rxTooLong, rxBadICRC uint64
	rxUnknownQPN, rxBadPKey, rxWrongPeer         uint64
	rxNotAllowed                                 uint64
	txPackets, txStamped, txTooBig, txNoPath     uint64
	txNoRoom, syncErrors, rxOtherAddress         uint64
	rxMADs, txMADs, rxBadMAD, madsDropped        uint64
	unproven                                     [unprovenKinds]uint64
	questions, silent                            uint64
	crypt                                        CryptCounters
}
