// SPDX-License-Identifier: Apache-2.0

// Package fourcase is the four-case congestion control policy of S1.6: it turns
// what one evaluation window measured towards one destination into a rate for
// that destination.
//
// The policy is a pure step on a register struct. It does no I/O, reads no
// clock, allocates nothing and computes in integers only, so that the agent, a
// simulator and a card give the same bits. docs/four-case.md says why each rule
// is there.
package fourcase

// State bits of Regs.State.
const (
	StateBase  = 1 << 0 // the baselines hold a sample
	StateNext  = 1 << 1 // the window being collected holds a sample
	StateTrend = 1 << 2 // there was a decision to compare with
	StateRTT   = 1 << 3 // the baselines are round trips: the peer echoes nothing
)

// NoRow in Regs.Row says that no row of the completed table was used.
const NoRow = 255

// Regs are the policy's registers for one destination: struct policy_regs of
// bpf/lib/policy.h, field by field, 192 bytes. Times are nanoseconds. One-way
// times contain the unknown offset between two clocks, so they may be negative
// and of any size; they are compared by wrapping differences only.
//
// The zero value is a new destination: the first Step gives it
// Params.InitialRateBps.
type Regs struct {
	RateBps       uint64 // bits per second that the policy asks for
	DecidedNs     uint64 // when it last decided
	CutNs         uint64 // when it last cut
	BaseSinceNs   uint64 // start of the window being collected
	BaseTxNs      int64  // the original transmit time (windowed minimum)
	BaseRxNs      int64  // the original receive time
	BaseRttNs     int64  // the original round trip; no clock offset in it
	NextBaseTxNs  int64  // the same three, of the window being collected
	NextBaseRxNs  int64
	NextBaseRttNs int64
	QTxNs         int64  // excess over the baseline at the last decision
	QRxNs         int64  //
	DTxNs         int64  // trend: change since the decision before
	DRxNs         int64  //
	FromBps       uint64 // rate before the last cut, until it is reached again; 0 = none
	SentPackets   uint64 // to the destination, as of the last step
	PeriodNs      uint64 // time between decisions, smoothed
	JitterNs      uint32 // by how much delays fall faster than cuts explain, smoothed
	SwingNs       uint32 // by how much the transmit time goes up and back with no cut of ours, smoothed
	WindowBytes   uint64 // what may be under way, by whoever enforces it; 0 = no limit
	Decisions     uint32 // since the entry was created
	Cuts          uint32 // those that cut the rate
	Raises        uint32 // raises in a row
	LossQ20       uint32 // share of packets lost, smoothed
	BaseLossQ20   uint32 // of it what rate cuts do not change
	CutQ10        uint32 // what the last decision cut of the rate
	CommonNs      uint32 // excess that both directions have while it swings, smoothed
	AtMin         uint16 // decisions in a row that MinRateBps kept from cutting
	Blind         uint16 // windows in a row with loss and no feedback
	OpenLost      uint16 // reported lost since the last decision of the open-loop law
	Restores      uint16 // cuts taken back
	CaseNo        uint8  // S1.6 case of the last decision: 1-4, 0 = none
	Row           uint8  // row of the completed table 0-7, 8 = open-loop law, NoRow = none
	Action        Action // what the last decision did
	State         uint8  // State bits
}

// Action is what a decision does to the rate.
type Action uint8

// The actions. ActionNone is not a decision: the registers keep the last one.
const (
	ActionNone    Action = iota // no decision
	ActionHold                  // keep the rate
	ActionRaise                 // raise a little
	ActionCut                   // cut in proportion to the excess (literal: a little)
	ActionBigCut                // cut a lot
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

// Cuts says whether the action lowers the rate.
func (a Action) Cuts() bool { return a >= ActionCut }
