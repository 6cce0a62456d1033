// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/cc/priority"
)

// senders has the destinations with traffic: the rates at which kernel stack and engine send
// to each, and whether more data waits. By these the rate of a destination is divided between
// the two (split.go), and the link among the destinations (even.go).
type senders struct {
	all  map[bpf.DestKey]*sender
	list []*sender
	tick uint64 // the number of this evaluation

	demands []uint64
	even    priority.Even
}

// sender is one destination. Times are of the monotonic clock.
type sender struct {
	key           bpf.DestKey
	place         int    // index in the list
	tick          uint64 // number of its last evaluation
	seen          uint64 // time of its last evaluation
	stack, engine party
	policy        uint64              // the four-case policy's rate
	limit         uint64              // limit that the destination has named, 0 = none
	share         priority.ShareBound // even share of the link
}

// party is one of the two senders to a destination: kernel stack or engine.
type party struct {
	bytes uint64    // bytes of L2 frames sent, at the last update
	at    uint64    // time of the last update, 0 = none
	used  [3]uint64 // bit/s in the last windows, the latest first
	waits bool      // data waits for its pacer
	tick  uint64    // number of the evaluation of the last update
}

// etherLen is the Ethernet header: rates count L2 frames, and tx_bytes does not.
const etherLen = 14

const (
	// senderIdle is the time for which a destination without traffic is kept. One that was
	// idle for longer starts with its even share again (restart_idle.go).
	senderIdle = 2 * activeSpan

	// staleTicks is the number of evaluations without an update after which data no longer
	// counts as waiting: on a busy machine an update may be late by a tick.
	staleTicks = 3
)

// begin starts an evaluation.
func (s *senders) begin(now uint64) {
	s.tick++
	s.forget(now)
}

// note records the snapshot of a destination. now is the time of the snapshot.
func (s *senders) note(key bpf.DestKey, d *bpf.DestRegs, cfg *bpf.Config, now uint64) *sender {
	x := s.all[key]
	if x == nil {
		x = &sender{key: key, place: len(s.list)}
		if s.all == nil {
			s.all = map[bpf.DestKey]*sender{}
		}
		s.all[key], s.list = x, append(s.list, x)
	}
	x.tick, x.seen, x.policy = s.tick, now, d.Policy.RateBps
	engine := d.EngineBytes + etherLen*d.EnginePackets
	all := d.TxBytes + etherLen*d.TxPackets

	x.stack.take(all-min(engine, all), s.tick, now)
	// The time that the last packet has used does not count as waiting: a sender of single
	// packets has none that wait.
	x.stack.waits = d.StackRateBps != 0 && d.NextTxNs > now+uint64(2*frameTime(cfg, d.StackRateBps))
	if cfg.Pacer == bpf.PacerPolice { // nothing waits there
		x.stack.waits = d.WinPaced > d.WinEnginePaced
	}
	if d.WinEngine != bpf.EngineSilent {
		x.engine.take(engine, s.tick, now)
		x.engine.waits = d.WinEngine == bpf.EnginePaceBlocked
	} else if s.tick-x.engine.tick >= staleTicks {
		x.engine.take(engine, s.tick, now)
		x.engine.waits = false
	}
	return x
}

// take records the bytes sent so far.
func (p *party) take(bytes, tick, now uint64) {
	if p.at != 0 && now > p.at && bytes >= p.bytes {
		p.used[2], p.used[1] = p.used[1], p.used[0]
		p.used[0] = uint64(float64(bytes-p.bytes) * 8e9 / float64(now-p.at))
		if tick-p.tick > staleTicks {
			p.used[1], p.used[2] = 0, 0 // it was idle in between
		}
	}
	p.bytes, p.at, p.tick = bytes, now, tick
}

// steady returns the rate that each of the last windows has reached, bit/s. One window alone
// does not predict the next: a sender that sends to one destination after the other would be
// limited to its share at all of them.
func (p *party) steady() uint64 { return min(p.used[0], p.used[1], p.used[2]) }

// forget removes destinations that were without traffic for senderIdle.
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
