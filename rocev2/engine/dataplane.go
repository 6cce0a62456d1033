// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"net/netip"

	"github.com/softroce/softroce-xdp/rocev2/qp"
)

// RuntimeConfig is the part of the interface's configuration that may change while the engine
// runs.
type RuntimeConfig struct {
	Paced       bool    // destinations have rates, and an agent maintains them
	InitialRate uint64  // bit/s of a destination that nothing is known of, 0 = unpaced
	Burst       qp.Time // data that an idle destination may send at once, as time at its rate
	LinkRate    uint64  // bit/s of the interface, 0 = unknown
	ClockOffset int64   // clock of the stamps less CLOCK_MONOTONIC, ns
}

// DestSync is the engine's report of one destination, and the reply.
type DestSync struct {
	Addr netip.Addr
	Src  netip.Addr // address of this host that Token is asked for

	// Packets sent since the last report, and those of them without a stamp.
	Packets, Unstamped uint32
	Bytes              uint64       // IP lengths without the stamp option
	Repeated           uint32       // packets retransmitted for a loss that the peer reported
	Lost               uint16       // signs of loss on the forward path
	Due                bool         // an ACK or an echo is expected
	Waited             uint32       // times that the pacer kept it waiting
	WaitedTime         qp.Time      // time for which the pacer kept it waiting in all
	RTT                qp.Time      // the shortest from data to ACK, 0 = none measured
	RTTSent            uint64       // send time of the data of RTT, clock of the stamps
	CEEchoed           bool         // an echo of the peer's CE marks was sent
	Waits              bool         // data waits for the pacer now
	CMAnswers          bool         // nothing but answers of the communication manager was sent: without an entry, none is made
	Limit              qp.SendLimit // limit of the queue pair that is or was last in service
	Ask                bool         // the peer is to be asked whether it stamps (question.go)

	Rate   uint64 // bit/s. In: rate in use. Out: rate to be used, 0 = unpaced
	Window uint64 // bytes of frames that may be in flight, 0 = no limit. Out

	// Capabilities of the peer; Known is false if the table was full.
	Known, Stamps, SACK, Credit, OOO bool

	// State of the peer's stamps in the table, out.
	Proven  bool  // one with the right token has arrived
	Bare    bool  // the peer has answered that it stamps nothing
	Room    int   // longest packet that it stamps, bytes of IP without the option, 0 = unknown
	Answers uint8 // changes with each answer to a question

	Token   uint64 // token required in stamps from Src to the peer. Out
	NoToken bool   // the peer has given no token for Src yet, so packets from there leave without a stamp. Out
}
