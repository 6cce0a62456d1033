// SPDX-License-Identifier: Apache-2.0

package agent

import "github.com/softroce/softroce-xdp/bpf"

// senders are the destinations that have traffic: what the host's stack and the engine
// send there, and what they would send if they could. By that the rate of a destination
// is divided between the two (split.go), and the link among the destinations (even.go).
type senders struct {
	all  map[bpf.DestKey]*sender
	list []*sender
	turn uint64 // the number of this evaluation

	batch []*sender // those of the slots that are judged, nil = no entry

	wants []uint64
	level uint64 // the most that a destination gets of the link, 0 = no bound
}

// sender is one destination. Times are of the monotonic clock.
type sender struct {
	key           bpf.DestKey
	place         int    // in the list
	turn          uint64 // when it was last evaluated
	seen          uint64 // the same as a time
	stack, engine party
	policy        uint64 // the four-case policy's rate
	limit         uint64 // its share of the link when it was last evaluated, 0 = not yet
	free          uint64 // the policy's rate before the share held it, 0 = it does not
}

// party is one of the two that may send to a destination.
type party struct {
	bytes uint64    // of L2 frames, as of the last look
	at    uint64    // when that was, 0 = never
	used  [3]uint64 // bit/s in the last windows
	waits bool      // data waits for its pacer
	turn  uint64    // when it last told anything
}

const (
	// senderIdle is how long a destination without traffic is kept in mind. One that was
	// idle for longer has its even share back (wake.go).
	senderIdle = 2 * busySpan

	// staleTurns is for how many evaluations what waits still waits if nothing is heard
	// of it: a busy machine may be late by a turn.
	staleTurns = 3
)

// begin starts an evaluation.
func (s *senders) begin(now uint64) {
	s.turn++
	s.forget(now)
}

// note takes a snapshot that nothing has changed yet.
func (s *senders) note(slot *bpf.ExchangeSlot, cfg *bpf.Config, now uint64) *sender {
	x := s.all[slot.Key]
	if x == nil {
		x = &sender{key: slot.Key, place: len(s.list)}
		if s.all == nil {
			s.all = map[bpf.DestKey]*sender{}
		}
		s.all[slot.Key], s.list = x, append(s.list, x)
	}
	d := &slot.Regs
	x.turn, x.seen, x.policy = s.turn, now, d.Policy.RateBps
	engine := d.EngineBytes + etherLen*d.EnginePackets
	all := d.TxBytes + etherLen*d.TxPackets

	x.stack.take(all-min(engine, all), s.turn, now)
	// What the last packet has used up is no wait: of one that sends now and then nothing waits.
	x.stack.waits = d.StackRateBps != 0 && d.NextTxNs > now+uint64(2*frameTime(cfg, d.StackRateBps))
	if cfg.Pacer == bpf.PacerPolice { // nothing waits there
		x.stack.waits = d.WinPaced > d.WinEnginePaced
	}
	if d.WinEngine != bpf.EngineSilent {
		x.engine.take(engine, s.turn, now)
		x.engine.waits = d.WinEngine == bpf.EngineHeld
	} else if s.turn-x.engine.turn >= staleTurns {
		x.engine.take(engine, s.turn, now)
		x.engine.waits = false
	}
	return x
}

// take notes what was sent so far.
func (p *party) take(bytes, turn, now uint64) {
	if p.at != 0 && now > p.at && bytes >= p.bytes {
		p.used[2], p.used[1] = p.used[1], p.used[0]
		p.used[0] = uint64(float64(bytes-p.bytes) * 8e9 / float64(now-p.at))
		if turn-p.turn > staleTurns {
			p.used[1], p.used[2] = 0, 0 // it was idle in between
		}
	}
	p.bytes, p.at, p.turn = bytes, now, turn
}

// steady is what is sent in each of the last windows, bit/s. What was sent in one of them
// only says nothing of the next: a sender that turns to one destination after the other
// would be held to its share of all of them.
func (p *party) steady() uint64 { return min(p.used[0], p.used[1], p.used[2]) }

// forget removes those without traffic for long.
func (s *senders) forget(now uint64) {
	for i := 0; i < len(s.list); {
		x := s.list[i]
		if now-x.seen <= senderIdle {
			i++
			continue
		}
		s.remove(x)
	}
}

func (s *senders) remove(x *sender) {
	last := s.list[len(s.list)-1]
	s.list[x.place], last.place = last, x.place
	s.list[len(s.list)-1] = nil
	s.list = s.list[:len(s.list)-1]
	delete(s.all, x.key)
}
