// SPDX-License-Identifier: Apache-2.0

// Package fourcase is the four-case congestion control policy of S1.6: it turns
// the measurements of one evaluation window towards one destination into a rate
// for that destination.
//
// The policy is a pure step on a register struct. It does no I/O, reads no
// clock, allocates nothing and computes in integers only, so that the agent, a
// simulator and a card give the same bits. docs/study/four-case.md says why each rule
// is there.
package fourcase

// State bits of Regs.State.
const (
	StateBase  = 1 << 0 // the base delays hold a sample
	StateNext  = 1 << 1 // the window being collected holds a sample
	StateTrend = 1 << 2 // there is an earlier decision to compare with
	StateRTT   = 1 << 3 // the base delays are RTTs: the peer echoes nothing
)

// NoRow in Regs.Row means that no row of the completed table was used.
const NoRow = 255

// Regs are the policy's registers for one destination: struct policy_regs of
// bpf/lib/policy.h, field by field, 192 bytes. Times are nanoseconds. One-way
// times contain the unknown offset between two clocks, so they may be negative
// and of any size; they are compared by wrapping differences only.
//
// The zero value is a new destination: the first Step gives it
// Params.InitialRateBps.
type Regs struct {
	RateBps               uint64 // rate of the policy, bits per second
	DecidedNs             uint64 // time of the last decision
	DecreasedNs           uint64 // time of the last decrease
	BaseSinceNs           uint64 // start of the present period of Params.BaseWindowNs
	BaseTxNs              int64  // base delay of the transmit time: S1.6's original value, a windowed minimum
	BaseRxNs              int64  // base delay of the receive time
	BaseRttNs             int64  // base RTT; contains no clock offset
	NextBaseTxNs          int64  // the same minimums of the present period
	NextBaseRxNs          int64
	NextBaseRttNs         int64
	QueueingTxNs          int64  // queueing delay of the forward path at the last decision
	QueueingRxNs          int64  // queueing delay of the reverse path
	TrendTxNs             int64  // trend: change of the queueing delay since the decision before
	TrendRxNs             int64  // trend of the reverse path
	RateBeforeDecreaseBps uint64 // rate before the last decrease, until it is reached again; 0 = none
	SentPackets           uint64 // packets sent to the destination, as of the last step
	PeriodNs              uint64 // time between decisions, smoothed
	SpikeNs               uint32 // delay spikes: by how much delays fall faster than decreases explain, smoothed
	OscillationNs         uint32 // oscillation: growth of the transmit time that falls again without a decrease, smoothed
	WindowBytes           uint64 // bytes that the engine may have in flight, 0 = no limit
	Decisions             uint32 // decisions since the entry was created
	Decreases             uint32 // decisions that decreased the rate
	Increases             uint32 // increases in a row
	LossQ20               uint32 // loss ratio, smoothed, /2^20
	BaseLossQ20           uint32 // part of LossQ20 that decreases do not change
	DecreaseQ10           uint32 // size of the last decision's decrease, /1024 of the rate
	CommonModeNs          uint32 // common-mode jitter: delay of both directions during oscillation, smoothed
	FloorPatience         uint16 // decisions in a row that MinRateBps kept from decreasing
	NoFeedback            uint16 // evaluations in a row with loss and without feedback
	OpenLost              uint16 // packets reported lost since the last decision of the open-loop law
	Undos                 uint16 // spurious decreases that were undone
	CaseNo                uint8  // S1.6 case of the last decision: 1-4, 0 = none
	Row                   uint8  // row of the completed table 0-7, 8 = open-loop law, NoRow = none
	Action                Action // action of the last decision
	State                 uint8  // State bits
}

// Action is what a decision does to the rate.
type Action uint8

// The actions. ActionNone is not a decision: the registers keep the last one.
const (
	ActionNone    Action = iota // no decision
	ActionHold                  // keep the rate
	ActionRaise                 // increase the rate
	ActionCut                   // decrease in proportion to the queueing delay (literal: a little)
	ActionBigCut                // decrease a lot
	ActionLossCut               // loss or a retransmission
	ActionCECut                 // congestion was marked (CE, CNP)
)

var actionNames = [...]string{"none", "hold", "raise", "cut", "big cut", "loss cut", "ce cut"}

func (a Action) String() string {
	if int(a) < len(actionNames) {
		return actionNames[a]
	}
	return "unknown"
}

// Cuts reports whether the action decreases the rate.
func (a Action) Cuts() bool { return a >= ActionCut }
