// SPDX-License-Identifier: Apache-2.0

package published

import "fmt"

// ExpressPassParams are the parameters of one receiver's credit flows.
type ExpressPassParams struct {
	MaxPerSec    float64 // credits per second that fill the receiver's link with data
	InitialShare float64 // alpha: share of MaxPerSec that a flow starts with
	FullRequest  int     // packets; a flow with less to send starts lower, in proportion
	TargetLoss   float64 // share of credits lost that counts as none, at rate 0
	WInit, WMin  float64 // aggressiveness
	WMax, WStep  float64
	Jitter       float64 // share of the gap between credits
	RetryNs      int64   // sender: a request is repeated after this
}

// CreditPacketBytes is what a credit takes of the wire in the paper: a minimum
// Ethernet frame with preamble and gap.
const CreditPacketBytes = 84

// CreditShare is the share of a link that credits may take when each brings one packet
// of packetBytes of wire: 84/(84+1538) in the paper.
func CreditShare(creditBytes, packetBytes int) float64 {
	return float64(creditBytes) / float64(creditBytes+packetBytes)
}

// ExpressPassDefault are the values of the paper's large-scale runs for a receiver's link of
// linkBps and data packets of packetBytes of wire: alpha 0.5, w from 1/16, at
// least 0.01 and at most 0.5 in steps of 0.05, target loss 0.125, jitter 0.1.
func ExpressPassDefault(linkBps float64, creditBytes, packetBytes int) ExpressPassParams {
	return ExpressPassParams{
		MaxPerSec:    linkBps / 8 / float64(creditBytes+packetBytes),
		InitialShare: 0.5,
		FullRequest:  40,
		TargetLoss:   0.125,
		WInit:        1.0 / 16,
		WMin:         0.01,
		WMax:         0.5,
		WStep:        0.05,
		Jitter:       0.1,
		RetryNs:      100_000,
	}
}

// Validate tells what is wrong with p, if anything.
func (p *ExpressPassParams) Validate() error {
	switch {
	case p.MaxPerSec <= 0:
		return fmt.Errorf("expresspass: %g credits a second at most: must be positive", p.MaxPerSec)
	case p.InitialShare <= 0 || p.InitialShare > 1:
		return fmt.Errorf("expresspass: initial share %g: must be above 0 and at most 1", p.InitialShare)
	case p.TargetLoss < 0 || p.TargetLoss >= 1:
		return fmt.Errorf("expresspass: target loss %g: must be at least 0 and below 1", p.TargetLoss)
	case p.WMin <= 0 || p.WInit < p.WMin || p.WMax < p.WInit || p.WMax > 1:
		return fmt.Errorf("expresspass: w %g between %g and %g: must be in this order, above 0 and at most 1", p.WInit, p.WMin, p.WMax)
	case p.Jitter < 0 || p.Jitter >= 1:
		return fmt.Errorf("expresspass: jitter %g: must be at least 0 and below 1", p.Jitter)
	case p.RetryNs <= 0:
		return fmt.Errorf("expresspass: retry after %d ns: must be positive", p.RetryNs)
	}
	return nil
}

// CreditReceiver is the receiver's side of a flow: when credits go out, at a rate that
// aims at losing a few of them.
type CreditReceiver struct {
	p        *ExpressPassParams
	running  bool
	rate     float64 // credits per second
	w        float64
	mayRaise bool    // w grows from the second good round on
	rtt      float64 // time from a credit to its data, smoothed
	updated  int64
	next     float64 // send time of the next credit; fractions of ns add up

	seq       uint32 // number of the next credit
	expect    uint32 // the credit whose data is next
	got, lost int    // credits with and without data since the last update

	timing  bool // the round trip of credit timed is being measured
	timed   uint32
	timedAt int64
}

// NewCreditReceiver makes the receiver's side of a flow whose data comes rttNs after a
// credit if nothing is in the way. p is shared and must not change.
func NewCreditReceiver(p *ExpressPassParams, rttNs int64) *CreditReceiver {
	return &CreditReceiver{p: p, rtt: float64(rttNs)}
}

// Rate is the rate of credits per second.
func (c *CreditReceiver) Rate() float64 { return c.rate }

// W is the aggressiveness: the share of the way to full rate that one good round
// goes.
func (c *CreditReceiver) W() float64 { return c.w }

// Running says whether credits go out.
func (c *CreditReceiver) Running() bool { return c.running }

// Request takes a request with the packets that the sender has. The first credit
// goes at once. While credits go out it does nothing.
func (c *CreditReceiver) Request(now int64, packets int) {
	if c.running {
		return
	}
	share := c.p.InitialShare
	if packets < c.p.FullRequest {
		share *= float64(max(packets, 1)) / float64(c.p.FullRequest)
	}
	c.running = true
	c.rate = share * c.p.MaxPerSec
	c.w = c.p.WInit
	c.mayRaise = false
	c.updated = now
	c.next = float64(now)
	c.got, c.lost = 0, 0
	c.expect = c.seq
	c.timing = false
}

// Stop takes the sender's word that it has no more.
func (c *CreditReceiver) Stop() { c.running = false }

// Credit sends a credit: its number, and when to send the next. jitter is random
// in [-1, 1].
func (c *CreditReceiver) Credit(now int64, jitter float64) (seq uint32, next int64) {
	c.update(now)
	seq = c.seq
	c.seq++
	if !c.timing {
		c.timing, c.timed, c.timedAt = true, seq, now
	}
	gap := 1e9 / c.rate * (1 + jitter*c.p.Jitter)
	c.next = max(c.next, float64(now)-gap) + gap
	return seq, max(int64(c.next), now+1)
}

// Data takes the data that credit seq brought. Credits between the last and this
// one were lost, for credits and data keep their order.
func (c *CreditReceiver) Data(now int64, seq uint32) {
	if d := int32(seq - c.expect); d >= 0 {
		c.lost += int(d)
		c.got++
		c.expect = seq + 1
	}
	if c.timing && int32(seq-c.timed) >= 0 {
		if seq == c.timed {
			c.rtt = 0.8*c.rtt + 0.2*float64(now-c.timedAt)
		}
		c.timing = false
	}
}

// update is the credit feedback control (Algorithm 1), once per round trip in
// which data came.
func (c *CreditReceiver) update(now int64) {
	elapsed := float64(now - c.updated)
	total := c.got + c.lost
	if elapsed < c.rtt || total == 0 {
		return
	}
	p := c.p
	loss := float64(c.lost) / float64(total)
	target := (1 - c.rate/p.MaxPerSec) * p.TargetLoss
	if loss > target {
		c.rate = min(c.rate, float64(c.got)*1e9/elapsed*(1+target))
		c.w = max(c.w/2, p.WMin)
		c.mayRaise = false
	} else {
		if c.mayRaise {
			c.w = min(c.w+p.WStep, p.WMax)
		}
		c.mayRaise = true
		c.rate = c.w*p.MaxPerSec + (1-c.w)*c.rate
	}
	c.rate = min(max(c.rate, 1e9/c.rtt), p.MaxPerSec)
	c.got, c.lost = 0, 0
	c.updated = now
}
