// SPDX-License-Identifier: Apache-2.0

package fourcase

// Sample holds the measurements of one evaluation window towards one destination.
type Sample struct {
	// Tx and Rx are the window minima of the transmit and receive time of
	// S1.4, nanoseconds. They count if Samples > 0.
	Tx, Rx  int64
	Samples uint32 // echoes in the window
	// RTT is the window minimum of T3-T1, nanoseconds of one clock; 0 = unknown.
	// Towards a peer that echoes nothing there are no one-way times: Tx and Rx
	// are 0 then, for any value of Samples. Together with Tx and Rx it is better
	// than their sum, as these may come from different packets, before and after
	// a clock was set.
	RTT int64
	// Turn is the receiver turnaround, the time between reception and the answer
	// in nanoseconds of the receiver's clock; 0 = unknown. It is part of Rx, and
	// not of the network's delay.
	Turn int64
	// Sent is how many packets have been sent to the destination so far, 0 =
	// unknown. Decisions depend on the lost share of them.
	Sent uint64
	CE   uint32 // echoes that report CE, and CNPs
	Loss uint32 // NAKs and retransmissions
	// AppLimited: the sender did not use its rate, so that a low delay proves
	// nothing. The rate does not rise above ShareBps.
	AppLimited bool
	// OpenLoop: no packet of the window can cause an ACK or an echo, so that
	// missing feedback means nothing.
	OpenLoop bool
	// ShareBps is the destination's even share of the link, bits per second. Up to it
	// an increase needs no proof that the rate is used, since a new destination starts
	// there (S1.2). 0 = unknown.
	ShareBps uint64
	// Idle: no data of this sender was in flight (HELLO exchange). The sample
	// updates base delays, and causes no decision.
	Idle bool
}

// OneWay gives the transmit time T2-T1 and the receive time T3-T2 of S1.4 from
// the three clock readings. The differences wrap, as clocks may be set anywhere.
func OneWay(t1, t2, t3 uint64) (tx, rx int64) {
	return int64(t2 - t1), int64(t3 - t2)
}

// times are the delays of one sample, in nanoseconds.
type times struct {
	tx, rx, rtt int64
	rttOnly     bool // tx is the RTT, which cannot be split
}

// times returns the delays of the sample; ok is false if it has none.
func (s *Sample) times() (m times, ok bool) {
	switch {
	case s.Samples == 0, s.RTT > 0 && s.Tx == 0 && s.Rx == 0:
		// Real one-way times add up to the RTT: both 0 means none.
		return times{tx: s.RTT, rtt: s.RTT, rttOnly: true}, s.RTT > 0
	case s.RTT > 0:
		return times{tx: s.Tx, rx: s.Rx, rtt: s.RTT}, true
	default:
		return times{tx: s.Tx, rx: s.Rx, rtt: s.Tx + s.Rx}, true
	}
}

// Decision is the outcome of one Step.
type Decision struct {
	RateBps uint64 // the rate from now on, bits per second
	Verdict
}

// Verdict is a decision without the rate. It is a type of its own because the compiler
// keeps structures of four fields in registers, and not those of five.
type Verdict struct {
	Action Action // ActionNone: there was nothing to decide
	Case   uint8  // S1.6 case 1-4, 0 = none
	Row    uint8  // row of the completed table 0-7, 8 = open-loop law, NoRow = none
	Why    Why
}

// Reason is the reason of the decision as text.
func (v Verdict) Reason() string { return v.Why.String() }

// Why is the reason of a decision.
type Why uint8

// The reasons.
const (
	WhyFixed Why = iota
	WhyNoFeedback
	WhyFirstSample
	WhyIdleSample
	WhyClockStep
	WhyInterval
	WhyLoss
	WhyCE
	WhyLossRecent
	WhyFarAbove
	WhyReceiver
	WhyImproving
	WhyDraining
	WhyAboveTarget
	WhyBaseDelay
	WhyUndone
	WhyLossUsual
	WhyAppLimited
	WhyAtMax
	WhyAtMin
	WhyBelowTarget
	WhyOpenWait
	WhyOpenRaise
	WhyOpenLoss
	WhyLiteral1
	WhyLiteral2
	WhyLiteral3
	WhyLiteral4
	WhyLiteralBack
	WhyLiteralNone
)

var whyText = [...]string{
	WhyFixed:       "fixed rate",
	WhyNoFeedback:  "no feedback in this window",
	WhyFirstSample: "first sample: it sets the base delays",
	WhyIdleSample:  "idle sample: it sets the base delays",
	WhyClockStep:   "a clock was set within this window",
	WhyInterval:    "decided less than an interval ago",
	WhyLoss:        "packets were lost",
	WhyCE:          "congestion was marked (CE or CNP)",
	WhyLossRecent:  "loss or CE, already answered by a recent decrease: no increase",
	WhyFarAbove:    "queueing delay above four times the target",
	WhyReceiver:    "both directions grow and the receiver is the slower one",
	WhyImproving:   "above target, transmit grows but receive shrinks",
	WhyDraining:    "above target, but the queue drains",
	WhyAboveTarget: "queueing delay above the target",
	WhyBaseDelay:   "transmit time is back at its base delay",
	WhyUndone:      "the queue drained faster than the decreases explain: they are undone",
	WhyLossUsual:   "loss without delay, as much as usual",
	WhyAppLimited:  "at the base delay, but the sender did not use its rate",
	WhyAtMax:       "at the base delay, already at the highest rate",
	WhyAtMin:       "congested, already at the lowest rate",
	WhyBelowTarget: "some queueing, below the target",
	WhyOpenWait:    "nothing can answer: the open-loop law decides ten times a second",
	WhyOpenRaise:   "nothing can answer, and no more than usual is lost",
	WhyOpenLoss:    "nothing can answer, and more than usual is lost",
	WhyLiteral1:    "both grew, receive > transmit",
	WhyLiteral2:    "both grew, receive < transmit",
	WhyLiteral3:    "transmit grew, receive shrank, both above their original values",
	WhyLiteral4:    "both shrank, both above their original values",
	WhyLiteralBack: "both are at their original values",
	WhyLiteralNone: "none of the four cases",
}

func (w Why) String() string {
	if int(w) < len(whyText) {
		return whyText[w]
	}
	return "unknown"
}
