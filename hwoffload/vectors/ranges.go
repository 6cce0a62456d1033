// SPDX-License-Identifier: Apache-2.0

package vectors

import (
	"math"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/cc/fourcase"
	"github.com/softroce/softroce-xdp/rocev2"
)

// AETH syndromes.
const (
	nakSequence = 0x60 // PSN sequence error: a packet before this one is missing
	rnrNAK      = 0x2e // receiver not ready, timer 14
)

// ranges are the vectors of values at which an implementation may differ: sums that wrap, a
// rate of zero, several signs of congestion in one event.
func ranges() []Vector {
	robust, literal := Params(fourcase.ModeRobust), Params(fourcase.ModeLiteral)
	return []Vector{
		{Name: "sums wrap", Params: robust, Token: Token, Start: start(robust, full), Events: []Event{
			data(1000, 900), ack(2000, 1000, 1500), with(ack(3000, 2000, 2500), nakSequence, true), with(ack(3100, 2100, 2600), rnrNAK, false),
			noToken(ack(3200, 2200, 2700)), evaluate(4000), ack(5000, 4500, 4700), evaluate(10_000_000),
		}},
		{Name: "times wrap", Params: robust, Token: Token, Events: []Event{
			ack(math.MaxUint64-20_000, math.MaxUint64-30_000, math.MaxUint64-25_000), evaluate(math.MaxUint64 - 10_000),
			ack(5_000, math.MaxUint64-5_000, 100), data(6_000, math.MaxUint64-100), evaluate(7_000), ack(20_000, 8_000, 13_000), evaluate(30_000),
		}},
		{Name: "rate of zero", Params: robust, Token: Token, Start: start(robust, noRate), Events: trouble()},
		{Name: "rate of zero, literal", Params: literal, Token: Token, Start: start(literal, noRate), Events: trouble()},
		{Name: "largest rate", Params: robust, Token: Token, Start: start(robust, largestRate), Events: trouble()},
		{Name: "CE and loss in one event", Params: robust, Token: Token, Events: trouble()},
		{Name: "CE and loss in one event, literal", Params: literal, Token: Token, Events: trouble()},
		{Name: "NAKs", Params: robust, Token: Token, Events: naks()},
		{Name: "clock of the peer is set", Params: robust, Token: Token, Events: clockSet()},
	}
}

// start is the entry of a new destination after a change.
func start(p fourcase.Params, change func(d *bpf.DestRegs)) *bpf.DestRegs {
	v := Vector{Params: p, Token: Token}
	d := v.First()
	change(&d)
	return &d
}

// full has counters just below their limits.
func full(d *bpf.DestRegs) {
	d.RxPackets, d.RxBytes, d.RxUnstamped = math.MaxUint64-1, math.MaxUint64-100, math.MaxUint64
	d.Ces, d.Naks, d.Rnrs = math.MaxUint64, math.MaxUint64, math.MaxUint64
	d.WinSamples, d.WinCe, d.WinLoss = math.MaxUint32, math.MaxUint32, math.MaxUint32
}

func noRate(d *bpf.DestRegs) {
	d.RateBps, d.StackRateBps, d.EngineRateBps, d.Policy.RateBps = 0, 0, 0, 0
}

func largestRate(d *bpf.DestRegs) {
	d.RateBps, d.StackRateBps, d.EngineRateBps, d.Policy.RateBps = math.MaxUint64, math.MaxUint64, math.MaxUint64, math.MaxUint64
}

// with adds a NAK to feedback, and CE if marked: received by this packet, and reported by it.
func with(e Event, syndrome uint8, marked bool) Event {
	e.Packet.Syndrome = syndrome
	if marked {
		e.Packet.CE = true
		e.Packet.Stamp.Flags |= rocev2.StampCE
	}
	return e
}

// trouble has CE and loss in one packet, in each period of several, while delays grow.
func trouble() (events []Event) {
	for i := range uint64(6) {
		t1, tx := 10_000_000*(i+1), 5_000+400_000*i
		events = append(events,
			ack(t1+tx+5_000, t1, t1+tx),
			with(ack(t1+tx+6_000, t1+1_000, t1+tx+1_000), nakSequence, true),
			evaluate(t1+tx+7_000))
	}
	return events
}

// naks has each kind of NAK: before the first echo, after it, and after a rate was set that no
// echo has seen yet.
func naks() (events []Event) {
	noEcho := with(ack(1_000, 0, 0), nakSequence, false)
	noEcho.Packet.Stamp.Flags = rocev2.StampT1
	events = append(events, noEcho)
	for i, syndrome := range []uint8{0x00, 0x1f, 0x20, rnrNAK, 0x3f, 0x40, nakSequence, nakSequence + 1, nakSequence + 4, 0x7f, 0x80, 0xff} {
		t1 := 1_000_000 * uint64(i+1)
		events = append(events, with(ack(t1+10_000, t1, t1+5_000), syndrome, false))
	}
	events = append(events, evaluate(20_000_000), with(ack(20_010_000, 19_000_000, 19_005_000), nakSequence, false))
	wrong := noToken(with(ack(20_020_000, 19_000_001, 19_005_000), nakSequence, false))
	onData := data(20_030_000, 20_000_000) // a WRITE has no AETH
	onData.Packet.Syndrome = nakSequence
	return append(events, wrong, onData, evaluate(30_000_000))
}

// clockSet has a peer's clock that is set forward and back, by up to half of the range of a
// stamp.
func clockSet() (events []Event) {
	for i, offset := range []uint64{0, 1, 1 << 46, 1<<47 - 1, 1 << 47, 1<<48 - 1, 1 << 48, 1<<63 - 1, 1 << 63, 1<<64 - 1} {
		t1 := 10_000_000 * uint64(i+1)
		events = append(events, ack(t1+10_000, t1, t1+5_000+offset), data(t1+20_000, t1+15_000+offset), evaluate(t1+30_000))
	}
	return events
}
