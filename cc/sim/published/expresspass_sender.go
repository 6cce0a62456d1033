// SPDX-License-Identifier: Apache-2.0

package published

// This file and expresspass_receiver.go are ExpressPass (Cho et al., SIGCOMM 2017), data that waits
// for credit packets that switches rate-limit, as pure state
// machines for comparison with the product's own policies. CreditReceiver
// is the receiver's side of a flow, CreditSender the other. They use floats, keep no clock and
// draw no random numbers. Times are nanoseconds.
//
// Facts are from the paper and from its simulator, kaist-ina/ns2-xpass. As an
// option a sender fills the first round trip, in which ExpressPass waits, with
// packets that switches drop first (Aeolus, Hu et al., SIGCOMM 2020).

// CreditAsk is what a sender wants sent to the receiver.
type CreditAsk uint8

// What a sender asks.
const (
	AskNoCredit   CreditAsk = iota
	AskCredits              // credit for what is left
	AskCreditStop           // no more credit
)

type senderState uint8

const (
	closed    senderState = iota
	requested             // no credit yet
	receiving
	stopping // stop sent; credits in flight still arrive
)

// CreditSender is the sender's side of a flow: when to ask for credit, and when enough credit is in
// flight.
type CreditSender struct {
	p       *ExpressPassParams
	state   senderState
	asked   int64 // send time of the request
	rtt     int64 // time from request to first credit
	round   int64 // start of the round in which credits are counted
	credits int   // number of credits in this round
	timer   int64
	Wasted  int // credits that found nothing to send
}

// NewCreditSender makes a sender. p is shared and must not change.
func NewCreditSender(p *ExpressPassParams) *CreditSender {
	return &CreditSender{p: p, timer: Never}
}

// Timer is when Expire must be called, Never if it need not be.
func (s *CreditSender) Timer() int64 { return s.timer }

// Waiting says that a request went and no credit has come.
func (s *CreditSender) Waiting() bool { return s.state == requested }

// Start takes new data, or data that must go again.
func (s *CreditSender) Start(now int64) CreditAsk {
	if s.state == requested || s.state == receiving {
		return AskNoCredit
	}
	return s.request(now)
}

func (s *CreditSender) request(now int64) CreditAsk {
	s.state = requested
	s.asked = now
	s.timer = now + s.p.RetryNs
	return AskCredits
}

// Credit takes a credit when left packets wait to be sent. use says whether one of
// them goes for it.
func (s *CreditSender) Credit(now int64, left int) (use bool, ask CreditAsk) {
	if s.state == requested {
		s.state = receiving
		s.timer = Never
		s.rtt = now - s.asked
		s.round, s.credits = now, 0
	}
	s.credits++
	if left > 0 {
		use = true
		left--
	} else {
		s.Wasted++
	}
	if s.state != receiving {
		return use, AskNoCredit
	}
	switch {
	case left == 0:
		return use, s.stop(now)
	case now-s.round >= s.rtt:
		// The credits of one round trip are in flight: are they enough?
		if s.credits >= left {
			return use, s.stop(now)
		}
		s.round, s.credits = now, 0
	}
	return use, AskNoCredit
}

func (s *CreditSender) stop(now int64) CreditAsk {
	s.state = stopping
	s.timer = now + 2*max(s.rtt, 1)
	return AskCreditStop
}

// Expire takes the timer: a request without answer, or the end of the wait for the
// credits in flight, with left packets still waiting.
func (s *CreditSender) Expire(now int64, left int) CreditAsk {
	if now < s.timer {
		return AskNoCredit
	}
	s.timer = Never
	switch {
	case left > 0:
		return s.request(now)
	case s.state == stopping:
		s.state = closed
	}
	return AskNoCredit
}
