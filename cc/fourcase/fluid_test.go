// SPDX-License-Identifier: Apache-2.0

package fourcase

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// A fluid model in virtual time: N senders into one bottleneck queue, an
// optional queue on the reverse path, and per sender a clock of its own. Delays are
// those a packet would meet that enters the queue now. It shows stability,
// sharing and failure modes; it has no packets, so no completion times.
type fluid struct {
	capacity uint64        // capacity of the bottleneck, bit/s
	buffer   time.Duration // buffer of the bottleneck, as time at its capacity
	backlog  time.Duration // queue of the bottleneck at the start
	rtt      time.Duration // RTT without queues
	senders  int
	link     uint64        // each sender's own link; 0 = capacity
	start    uint64        // rate a sender starts with; 0 = link
	tick     time.Duration // the agent's evaluation period; 0 = 10 ms
	run      time.Duration
	warm     time.Duration // time at the start that is not measured
	jitter   time.Duration // mean of each direction's exponential jitter

	tail       float64       // share of packets that are late, each way: by 50 us to 10 ms
	stallEvery time.Duration // mean time between stalls of a host; packets wait until it goes on
	stallMax   time.Duration // a stall is 50 us to this long
	lossy      float64       // share of packets lost without congestion

	offset    time.Duration // the receivers' clocks are ahead by this
	driftPPM  int           // drift of the receivers' clocks, which run faster by this
	alternate bool          // every other one behind and slower instead
	stepAt    time.Duration // time at which every receiver's clock is set ...
	step      time.Duration // ... forward by this

	starts func(i int) uint64        // rates of the senders where they differ
	joins  func(i int) time.Duration // time at which sender i comes in; its idle sample is of then

	noIdle  bool // no sample before data
	drain   bool // the first sample from under data makes a pause and an idle sample
	rttOnly bool // the peers echo nothing
	noRTT   bool // the round trip is not measured next to the one-way times
	coarse  bool // one echo per tick: acknowledgements coalesce

	params   func(*Params)
	traffic  func(t time.Duration) uint64        // bit/s of others through the bottleneck
	appLimit uint64                              // a sender offers no more than this
	slowFrom time.Duration                       // the bottleneck runs at a tenth from here ...
	slowTo   time.Duration                       // ... to here
	reverse  func(t time.Duration) time.Duration // queue on the reverse path
	onStep   func(t time.Duration, before, after uint64, s Sample, d Decision)
	onTick   func(t time.Duration, deliveredBps float64) // every 10 ms
}

type result struct {
	util, loss, jain float64
	q50, q99         time.Duration
	rates            []uint64
	decisions, cuts  uint32
}

func (r result) String() string {
	return fmt.Sprintf("util %.3f  loss %.4f  Jain %.3f  queue p50 %.2f ms  p99 %.2f ms",
		r.util, r.loss, r.jain, float64(r.q50)/1e6, float64(r.q99)/1e6)
}

type echo struct {
	left, back time.Duration
	tx, rx     int64
}

type sender struct {
	stalls    [2][]stall // stalls of the receiver and of the sender
	sent      uint64     // packets
	regs      Regs
	params    Params
	rng       *rand.Rand
	offset    int64
	drift     float64 // ns per ns
	inFlight  []echo
	losses    []time.Duration // times at which the sender learns of losses
	join      time.Duration
	settle    time.Duration
	nextTick  time.Duration
	drained   time.Duration // end of its pause
	credit    float64       // bits towards the next sampled packet
	delivered float64
}

// stall is a time in which a host does not run.
type stall struct{ from, to time.Duration }

const (
	fluidStep   = 250 * time.Microsecond
	fluidPacket = 1500 * 8
)

func (f fluid) simulate(seed uint64) result {
	if f.link == 0 {
		f.link = f.capacity
	}
	if f.start == 0 {
		f.start = f.link
	}
	if f.tick == 0 {
		f.tick = 10 * time.Millisecond
	}
	flows := make([]*sender, f.senders)
	for i := range flows {
		flows[i] = f.newSender(i, seed)
	}
	var queue, sent, dropped, delivered, possible, sinceTick float64 // bits
	var delays []time.Duration
	queue = float64(f.capacity) * f.backlog.Seconds()
	for t := time.Duration(0); t < f.run; t += fluidStep {
		dt := fluidStep.Seconds()
		capacity := float64(f.capacity)
		if t >= f.slowFrom && t < f.slowTo {
			capacity /= 10
		}
		var offered float64
		if f.traffic != nil {
			offered = float64(f.traffic(t)) * dt
		}
		for _, s := range flows {
			offered += f.offer(s, t) * dt
		}
		limit := float64(f.capacity) * f.buffer.Seconds()
		before := time.Duration(queue / capacity * 1e9)
		out := min(queue+offered, capacity*dt)
		queue = queue + offered - out
		lost := max(queue-limit, 0)
		queue -= lost
		share := 0.0
		if offered > 0 {
			share = lost / offered
		}
		wait := time.Duration(queue / capacity * 1e9)
		if t >= f.warm {
			sent += offered
			dropped += lost
			delivered += out
			possible += capacity * dt
			delays = append(delays, wait)
		}
		for _, s := range flows {
			if t == s.join && !f.noIdle {
				f.hello(s, t, before)
			}
			if s.drained > 0 && t >= s.drained && t < s.drained+fluidStep {
				f.hello(s, t, before) // ahead of the data
			}
			rate := f.offer(s, t)
			if t >= f.warm {
				// what leaves is shared as what arrives: first come, first served
				s.delivered += out * rate * dt / max(offered, 1)
			}
			f.carry(s, t, wait, rate*dt, share)
			if t >= s.nextTick {
				s.nextTick += f.tick
				f.evaluate(s, t)
			}
		}
		sinceTick += out
		if f.onTick != nil && t%(10*time.Millisecond) == 0 {
			f.onTick(t, sinceTick/0.01)
			sinceTick = 0
		}
	}
	r := result{util: delivered / possible, loss: dropped / max(sent, 1), jain: jain(flows)}
	slices.Sort(delays)
	r.q50, r.q99 = delays[len(delays)/2], delays[len(delays)*99/100]
	for _, s := range flows {
		r.rates = append(r.rates, s.regs.RateBps)
		r.decisions += s.regs.Decisions
		r.cuts += s.regs.Decreases
	}
	return r
}

func (f fluid) newSender(i int, seed uint64) *sender {
	s := &sender{
		params: DefaultParams(f.link), rng: rand.New(rand.NewPCG(seed, uint64(i))),
		offset: int64(f.offset), drift: float64(f.driftPPM) / 1e6,
		nextTick: time.Duration(i) * f.tick / time.Duration(f.senders),
	}
	for end := range s.stalls {
		for t := time.Duration(0); f.stallEvery > 0 && t < f.run; {
			t += time.Duration(s.rng.ExpFloat64() * float64(f.stallEvery))
			still := logUniform(s.rng, 50*time.Microsecond, f.stallMax)
			s.stalls[end] = append(s.stalls[end], stall{t, t + still})
			t += still
		}
	}
	if i%2 == 1 && f.alternate {
		s.offset, s.drift = -s.offset, -s.drift
	}
	if f.params != nil {
		f.params(&s.params)
	}
	if err := s.params.Validate(); err != nil {
		panic(err)
	}
	s.regs.RateBps = f.start
	if f.starts != nil {
		s.regs.RateBps = f.starts(i)
	}
	if f.joins != nil {
		s.join = f.joins(i)
		s.nextTick += s.join
	}
	return s
}

// hello is a sample without data of our own.
func (f fluid) hello(s *sender, t, wait time.Duration) {
	Step(&s.regs, &s.params, f.sample(f.measure(s, t, wait), 1, true), uint64(t)+1)
}

func (f fluid) offer(s *sender, t time.Duration) float64 {
	if t < s.join || t < s.drained {
		return 0
	}
	rate := min(s.regs.RateBps, f.link)
	if f.appLimit > 0 {
		rate = min(rate, f.appLimit)
	}
	return float64(rate)
}

// measure is what a packet that enters the queue at t would come back with.
func (f fluid) measure(s *sender, t, wait time.Duration) echo {
	out, home := f.rtt/2+wait, f.rtt/2
	if f.jitter > 0 {
		out += time.Duration(s.rng.ExpFloat64() * float64(f.jitter))
		home += time.Duration(s.rng.ExpFloat64() * float64(f.jitter))
	}
	if f.tail > 0 && s.rng.Float64() < f.tail {
		out += logUniform(s.rng, 50*time.Microsecond, 10*time.Millisecond)
	}
	if f.tail > 0 && s.rng.Float64() < f.tail {
		home += logUniform(s.rng, 50*time.Microsecond, 10*time.Millisecond)
	}
	out += s.stalled(0, t+out)
	home += s.stalled(1, t+out+home)
	if f.reverse != nil {
		home += f.reverse(t + out)
	}
	clock := s.offset + int64(s.drift*float64(t))
	if f.step != 0 && t >= f.stepAt {
		clock += int64(f.step)
	}
	return echo{left: t, back: t + out + home, tx: int64(out) + clock, rx: int64(home) - clock}
}

// logUniform has as many values in each decade.
func logUniform(rng *rand.Rand, from, to time.Duration) time.Duration {
	return time.Duration(float64(from) * math.Pow(float64(to)/float64(from), rng.Float64()))
}

// stalled is how long what comes at a time has to wait for the host.
func (s *sender) stalled(end int, at time.Duration) time.Duration {
	i, _ := slices.BinarySearchFunc(s.stalls[end], at, func(x stall, at time.Duration) int { return cmp.Compare(x.to, at) })
	if i < len(s.stalls[end]) && s.stalls[end][i].from < at {
		return s.stalls[end][i].to - at
	}
	return 0
}

func (f fluid) sample(e echo, n uint32, idle bool) Sample {
	if f.rttOnly {
		return Sample{RTT: int64(e.back - e.left), Idle: idle}
	}
	sample := Sample{Tx: e.tx, Rx: e.rx, Samples: n, Idle: idle}
	if !f.noRTT {
		sample.RTT = int64(e.back - e.left)
	}
	return sample
}

// carry sends bits of a step: at most one of its packets is sampled.
func (f fluid) carry(s *sender, t, wait time.Duration, bits, lossShare float64) {
	s.credit += bits
	if s.credit < fluidPacket {
		return
	}
	packets := int(s.credit / fluidPacket)
	s.credit -= float64(packets) * fluidPacket
	e := f.measure(s, t, wait)
	s.sent += uint64(packets)
	if lossShare = max(lossShare, f.lossy); lossShare > 0 {
		for range packets {
			if s.rng.Float64() < lossShare {
				s.losses = append(s.losses, e.back)
			}
		}
	}
	if f.coarse && t < s.nextTick-fluidStep*3 {
		return
	}
	if s.rng.Float64() >= lossShare {
		s.inFlight = append(s.inFlight, e)
	}
}

// evaluate is one tick of the agent, with the data plane's window: echoes of
// packets that left before the last rate change do not count.
func (f fluid) evaluate(s *sender, t time.Duration) {
	var n, losses uint32
	var least echo
	rest := s.inFlight[:0]
	for _, e := range s.inFlight {
		switch {
		case e.back > t:
			rest = append(rest, e)
		case e.left >= s.settle:
			if n == 0 {
				least = e
			}
			least.tx, least.rx = min(least.tx, e.tx), min(least.rx, e.rx)
			if e.back-e.left < least.back-least.left {
				least.left, least.back = e.left, e.back
			}
			n++
		}
	}
	s.inFlight = rest
	s.losses = slices.DeleteFunc(s.losses, func(known time.Duration) bool {
		if known <= t {
			losses++
		}
		return known <= t
	})
	var sample Sample
	if n > 0 {
		sample = f.sample(least, n, false)
	}
	sample.Loss, sample.Sent = losses, s.sent
	sample.AppLimited = f.appLimit > 0 && s.regs.RateBps > f.appLimit
	before := s.regs.RateBps
	known := s.regs.State&StateBase != 0
	d := Step(&s.regs, &s.params, sample, uint64(t)+1)
	if d.RateBps != before {
		s.settle = t
	}
	if f.drain && !known && s.regs.State&StateBase != 0 {
		// As the agent does: for as long as a packet was in flight.
		s.drained = t + (least.back - least.left).Truncate(fluidStep) + fluidStep
		s.settle = s.drained
	}
	if f.onStep != nil {
		f.onStep(t, before, d.RateBps, sample, d)
	}
}

func jain(flows []*sender) float64 {
	var sum, squares float64
	for _, s := range flows {
		sum += s.delivered
		squares += s.delivered * s.delivered
	}
	if squares == 0 {
		return 0
	}
	return sum * sum / (float64(len(flows)) * squares)
}
