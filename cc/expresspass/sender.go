// SPDX-License-Identifier: Apache-2.0

package expresspass

import "math"

// Never is a timer that is not set.
const Never = math.MaxInt64

// Ask is what a sender wants sent to the receiver.
type Ask uint8

// What a sender asks.
const (
	AskNothing Ask = iota
	AskRequest     // credit for what is left
	AskStop        // no more credit
)

type senderState uint8

const (
	closed    senderState = iota
	requested             // no credit yet
	receiving
	stopping // stop sent; credits in flight still arrive
)

// Sender is the sender's side of a flow: when to ask for credit, and when enough credit is in
// flight.
type Sender struct {
	p       *Params
	state   senderState
	asked   int64 // when the request went
	rtt     int64 // from request to first credit
	round   int64 // start of the round in which credits are counted
	credits int   // in this round
	timer   int64
	Wasted  int // credits that found nothing to send
}

// NewSender makes a sender. p is shared and must not change.
func NewSender(p *Params) *Sender { return &Sender{p: p, timer: Never} }

// Timer is when Expire must be called, Never if it need not be.
func (s *Sender) Timer() int64 { return s.timer }

// Waiting says that a request went and no credit has come.
func (s *Sender) Waiting() bool { return s.state == requested }

// Start takes new data, or data that must go again.
func (s *Sender) Start(now int64) Ask {
	if s.state == requested || s.state == receiving {
		return AskNothing
	}
	return s.request(now)
}

func (s *Sender) request(now int64) Ask {
	s.state = requested
	s.asked = now
	s.timer = now + s.p.RetryNs
	return AskRequest
}

// Credit takes a credit when left packets wait to be sent. use says whether one of
// them goes for it.
func (s *Sender) Credit(now int64, left int) (use bool, ask Ask) {
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
		return use, AskNothing
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
	return use, AskNothing
}

func (s *Sender) stop(now int64) Ask {
	s.state = stopping
	s.timer = now + 2*max(s.rtt, 1)
	return AskStop
}

// Expire takes the timer: a request without answer, or the end of the wait for the
// credits in flight, with left packets still waiting.
func (s *Sender) Expire(now int64, left int) Ask {
	if now < s.timer {
		return AskNothing
	}
	s.timer = Never
	switch {
	case left > 0:
		return s.request(now)
	case s.state == stopping:
		s.state = closed
	}
	return AskNothing
}
