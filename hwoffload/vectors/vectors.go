// SPDX-License-Identifier: Apache-2.0

// Package vectors has streams of events for one entry of the destination table: packets that arrive
// and evaluations of the policy. Internal to this project. Each implementation of the table replays
// them, and has the same registers after every event. The implementations are the model of the card
// (package card) and the programs of the data plane (a test of package bpf). Path is traffic for the policy of such a
// table: through a bottleneck, with the feedback of a receiver.
package vectors

import (
	"math/rand/v2"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/cc/fourcase"
	"github.com/softroce/softroce-xdp/cc/loop"
	"github.com/softroce/softroce-xdp/hwoffload/card"
	"github.com/softroce/softroce-xdp/hwoffload/regs"
	"github.com/softroce/softroce-xdp/rocev2"
)

// Lengths of the two packets of the streams: IPv4, without the option.
const (
	AckBytes  = 48  // an acknowledgement
	DataBytes = 124 // a WRITE of PayloadBytes
	// PayloadBytes is the payload of the WRITE.
	PayloadBytes = 64
)

// Token is the token of the peer in the streams.
const Token = 41

// Event is one step of a stream.
type Event struct {
	At       uint64 // time on this host's clock, ns; 0 cannot be told from "never" in some registers
	Evaluate bool   // evaluate the policy; else a packet arrives
	Packet   card.Packet
}

// Vector is a stream of events for an entry that starts as First says.
type Vector struct {
	Name   string
	Params fourcase.Params
	Token  uint64 // token required in stamps of the peer; 0 = every stamp is refused
	Events []Event
	Start  *bpf.DestRegs // the entry before the first event; nil = that of a new destination
}

// First is the entry before the first event.
func (v *Vector) First() bpf.DestRegs {
	if v.Start != nil {
		return *v.Start
	}
	p := &v.Params
	d := bpf.DestRegs{
		RxToken: v.Token, Node: 1, TxPackets: 1, // data was sent: its echoes are no idle measurement
		Caps: bpf.CapStamp, RateBps: p.MaxRateBps, StackRateBps: p.MaxRateBps, EngineRateBps: p.MaxRateBps,
		WinTxNs: bpf.NoSample, WinRxNs: bpf.NoSample, WinRttNs: bpf.NoSample,
	}
	d.Policy.RateBps = p.MaxRateBps
	return d
}

// Decide makes one step of the policy at now with the registers of the window that has ended,
// and stores the decision in them. The sample is that of the agent, for a host that always has
// data to send; shares of the link and priorities are left out.
func Decide(d *bpf.DestRegs, p *fourcase.Params, now uint64) {
	r := bpf.PolicyAs[fourcase.Regs](&d.Policy)
	bounds := loop.Bounds{loop.BoundPolicy: fourcase.Step(r, p, loop.SampleOf(d, true), now).RateBps}
	rate, bound := bounds.Rate()
	d.RateBps, d.StackRateBps, d.EngineRateBps, d.Bound = rate, rate, rate, uint8(bound)
}

// Card replays events on a model of the card. The entry is that of node 1.
type Card struct {
	model  *card.Model
	params fourcase.Params
	now    uint64
}

// NewCard returns a card with the entry before the first event.
func NewCard(v *Vector) *Card {
	c := &Card{params: v.Params}
	c.model = card.NewAt(func() uint64 { return c.now })
	d := v.First()
	for i, w := range bpf.WordsOf(&d) {
		c.model.W64(regs.DestBase+uint64(i)*8, w)
	}
	return c
}

// Regs reads the entry.
func (c *Card) Regs() (d bpf.DestRegs) {
	words := bpf.WordsOf(&d)
	for i := range words {
		words[i] = c.model.R64(regs.DestBase + uint64(i)*8)
	}
	return d
}

// Do executes one event. It evaluates by the calls of the card, as the policy loop does.
func (c *Card) Do(e *Event) {
	c.now = e.At
	if !e.Evaluate {
		c.model.Receive(1, &e.Packet, e.At)
		return
	}
	calls := regs.CallsOf(c.model)
	calls.SetCollect(regs.CallsCollect(0).WithCollectStart(true))
	if !calls.Result().Done() {
		return
	}
	var d bpf.DestRegs
	words := bpf.WordsOf(&d)
	for i := range words {
		words[i] = calls.Buffer(i)
	}
	Decide(&d, &c.params, e.At)
	for i, w := range words {
		calls.SetBuffer(i, w)
	}
	calls.SetApply(regs.CallsApply(0).WithApplySet(bpf.SetPolicy).WithApplyStart(true))
}

// ack is feedback to data that left at t1 and arrived at t2.
func ack(at, t1, t2 uint64) Event {
	return Event{At: at, Packet: card.Packet{Bytes: AckBytes, Feedback: true,
		Stamp: rocev2.Stamp{Flags: rocev2.StampT1 | rocev2.StampEcho, Token: Token, T1: t2, EchoT1: t1, EchoT2: t2}}}
}

// data is a packet of the peer without an echo.
func data(at, t1 uint64) Event {
	return Event{At: at, Packet: card.Packet{Bytes: DataBytes, Stamp: rocev2.Stamp{Flags: rocev2.StampT1, Token: Token, T1: t1}}}
}

func evaluate(at uint64) Event { return Event{At: at, Evaluate: true} }

// Params are the parameters of a vector: a link of 100 Gbit/s with a base RTT of 10 us.
func Params(mode fourcase.Mode) fourcase.Params {
	p := fourcase.ParamsFor(100e9, 10_000, false)
	p.Mode = mode
	return p
}

// All are the vectors that were written by hand.
func All() []Vector {
	return append([]Vector{
		{Name: "S1.5: 0, 5, 8", Params: Params(fourcase.ModeLiteral), Token: Token, Events: []Event{data(5, 0), ack(8, 0, 5), evaluate(9)}},
		{Name: "S1.6: four cases", Params: Params(fourcase.ModeLiteral), Token: Token, Events: fourCases()},
		{Name: "clocks far apart", Params: Params(fourcase.ModeRobust), Token: Token, Events: []Event{
			ack(1_000_000, 990_000, 1<<47+990_005), ack(1_020_000, 1_000_000, 1<<47+1_000_010), evaluate(1_030_000),
		}},
		{Name: "a time passes 2^48", Params: Params(fourcase.ModeRobust), Token: Token, Events: []Event{
			data(1<<48+10, 1<<48-5), ack(1<<48+20, 1<<48-10, 1<<48+3), evaluate(1<<48 + 30),
		}},
		{Name: "limits", Params: Params(fourcase.ModeRobust), Token: Token, Events: limits()},
		{Name: "no token", Params: Params(fourcase.ModeRobust), Token: 0, Events: []Event{noToken(ack(30, 10, 20)), ack(50, 40, 45), evaluate(60)}},
	}, ranges()...)
}

// limits has echoes at both sides of each limit of their age and of the RTT.
func limits() (events []Event) {
	const second, start = 1_000_000_000, 100_000_000_000
	for i, e := range []struct{ t1, rtt uint64 }{
		{start, 0},
		{start, 100}, // the same stamp again
		{start + 1, 10 * second},
		{start + 2, 10*second + 1},
		{start + 1 - second + 1, 12 * second}, // old
		{start + 1 - second + 1, 9 * second},  // not a second older than the latest: a late echo
		{start + 1 - second, 9 * second},      // a second older: a clock was set
		{start + 5*second, 1 << 46},
		{start + 60*second, 50},
	} {
		t3 := e.t1 + e.rtt
		events = append(events, ack(t3, e.t1, e.t1+e.rtt/2))
		if i%3 == 2 {
			events = append(events, evaluate(t3+1))
		}
	}
	return events
}

// noToken removes the token.
func noToken(e Event) Event {
	e.Packet.Stamp.Token = 0
	return e
}

// fourCases has times that grow and shrink as S1.6 says, one evaluation each.
func fourCases() (events []Event) {
	for i, times := range [][2]uint64{
		{1000, 1500}, // original values
		{1100, 1800}, // case 1
		{2900, 2000}, // case 2
		{3000, 1900}, // case 3
		{2000, 1700}, // case 4
		{1000, 1500}, // case 4, back at the original values
	} {
		t1 := uint64(i+1) * 1_000_000
		t3 := t1 + times[0] + times[1]
		events = append(events, ack(t3, t1, t1+times[0]), evaluate(t3+1))
	}
	return events
}

// Random returns a stream of n events: delays that change, clocks that are set, CE, repeated,
// old and absurd echoes, wrong tokens. The same seed gives the same stream.
func Random(seed uint64, n int) Vector {
	r := rand.New(rand.NewPCG(seed, 1))
	v := Vector{Name: "random", Params: Params(fourcase.Mode(r.IntN(2))), Token: Token}
	now := r.Uint64N(1<<49) + 1
	offset := r.Uint64() // of the peer's clock
	tx, rx := uint64(1+r.IntN(20_000)), uint64(1+r.IntN(20_000))
	for range n {
		now += r.Uint64N(20_000)
		switch r.IntN(100) {
		case 0:
			offset = r.Uint64()
		case 1:
			now += r.Uint64N(20_000_000_000)
		}
		tx, rx = walk(r, tx), walk(r, rx)
		if r.IntN(5) == 0 {
			v.Events = append(v.Events, evaluate(now))
			continue
		}
		t1 := now - tx - rx
		e := ack(now, t1, t1+tx+offset)
		disturb(r, &e)
		v.Events = append(v.Events, e)
	}
	return v
}

// walk changes a delay by up to an eighth.
func walk(r *rand.Rand, ns uint64) uint64 { return max(ns-ns/8+r.Uint64N(ns/4+2), 1) % 1_000_000_000 }

// disturb changes a packet in one of the ways that occur or that a peer could try.
func disturb(r *rand.Rand, e *Event) {
	s := &e.Packet.Stamp
	switch r.IntN(16) {
	case 0:
		s.Token = r.Uint64N(2) * 7 // none, or a wrong one
	case 1:
		e.Packet.CE = true
	case 2:
		s.Flags |= rocev2.StampCE
	case 3:
		s.Flags = uint8(r.IntN(16))
	case 4:
		s.EchoT1 = r.Uint64()
	case 5:
		s.EchoT1 -= 1_000_000_000 + r.Uint64N(20_000_000_000)
	case 6:
		s.EchoT2 = r.Uint64()
	case 7:
		s.Flags |= rocev2.StampCredit
		s.Credit, s.CreditSeq = r.Uint32(), uint16(r.Uint32())
	case 8, 9:
		e.Packet.Bytes, e.Packet.Feedback = DataBytes, false
		s.T1 += r.Uint64N(5000)
	case 10:
		s.T1 += r.Uint64N(5000) // turnaround
	case 11, 12:
		e.Packet.Syndrome = []uint8{nakSequence, nakSequence, rnrNAK, nakSequence + 2, 0x80, 0xff}[r.IntN(6)]
	}
	if e.Packet.CE && r.IntN(2) == 0 {
		s.Flags |= rocev2.StampCE
	}
}
