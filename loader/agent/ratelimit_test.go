// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"strings"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/loader/nodefile"
	"github.com/softroce/softroce-xdp/rocev2"
)

// receiver is the receiving side of an agent on virtual time. Its link is 64 Mbit/s, and two
// senders send as much as they may.
type receiver struct {
	x      receiving
	now    uint64
	active bool
	isOn   bool
	regs   map[bpf.DestKey]*bpf.DestRegs
	sent   []sentLimit
	police map[bpf.DestKey]bpf.ArrivalLimit
	writes int // number of writes of police
}

type sentLimit struct {
	to bpf.DestKey
	at uint64
	rocev2.RateLimitFields
}

func (r *receiver) set(key bpf.DestKey, l bpf.ArrivalLimit) {
	r.writes++
	r.police[key] = l
}
func (r *receiver) remove(key bpf.DestKey) { delete(r.police, key) }
func (r *receiver) forget(key bpf.DestKey) { delete(r.police, key) }

var peer1, peer2 = bpf.DestKey{Addr: [16]byte{10: 0xff, 0xff, 10, 0, 0, 1}}, bpf.DestKey{Addr: [16]byte{10: 0xff, 0xff, 10, 0, 0, 2}}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	file, err := nodefile.Parse(strings.NewReader("nodes: [{number: 1, addresses: [10.0.0.1], level: 1, max: 40M}, {number: 2, addresses: [10.0.0.2]}]"), "nodes.yaml")
	if err != nil {
		t.Fatal(err)
	}
	r := &receiver{now: uint64(time.Hour), active: true, isOn: true, regs: map[bpf.DestKey]*bpf.DestRegs{peer1: {}, peer2: {}}, police: map[bpf.DestKey]bpf.ArrivalLimit{}}
	r.x = receiving{
		on: func() bool { return r.isOn }, link: func() uint64 { return 64e6 }, floor: func() uint64 { return 1e6 }, maps: r,
		send:  func(to bpf.DestKey, f rocev2.RateLimitFields) { r.sent = append(r.sent, sentLimit{to, r.now, f}) },
		state: &bpf.PriorityState{}, divider: newDivider(&file), advertised: map[bpf.DestKey]*advertised{},
	}
	return r
}

// pass lets time pass, in steps of an evaluation.
func (r *receiver) pass(d time.Duration) {
	const step = 10 * time.Millisecond
	for end := r.now + uint64(d); r.now < end; {
		r.now += uint64(step)
		for key, regs := range r.regs {
			if !r.active {
				continue
			}
			rate := uint64(32e6)
			if t := r.x.advertised[key]; t != nil && t.bps != 0 {
				rate = t.bps
			}
			bytes := rate / 8 / 100
			regs.RxPackets += bytes / 1000
			regs.RxUnstamped = regs.RxPackets
			regs.RxBytes += bytes - bytes/1000*etherLen
			r.x.note(key, regs, r.now)
		}
		r.x.step(r.now)
	}
}

func (r *receiver) last(key bpf.DestKey) (l sentLimit) {
	for _, s := range r.sent {
		if s.to == key {
			l = s
		}
	}
	return l
}

// Senders that congest the link are sent their rates, again and again, until the link is free.
func TestReceiverTellsSenders(t *testing.T) {
	r := newReceiver(t)
	r.pass(2 * time.Second)
	for key, want := range map[bpf.DestKey]uint64{peer1: 40e6, peer2: 23e6} {
		if l := r.last(key); l.RateBps != want || l.LifeNs != limitLife || r.now-l.at > limitRepeat {
			t.Errorf("%s: %+v at %d, want %d bit/s", bpf.AddrOf(key), l, r.now, want)
		}
		if p := r.police[key]; p.LimitBps != want || p.RateBps != want+want/8 || p.UntilNs < r.now || p.BurstNs < arrivalBurst {
			t.Errorf("%s: %+v", bpf.AddrOf(key), p)
		}
	}
	if s := r.x.state; s.Held != 2 || s.Level != 8 || s.Active != 2 {
		t.Errorf("state %+v", s)
	}
	epochs := map[bpf.DestKey]uint32{}
	for _, s := range r.sent {
		if s.Epoch <= epochs[s.to] {
			t.Errorf("epoch %d after %d", s.Epoch, epochs[s.to])
		}
		epochs[s.to] = s.Epoch
	}
	// A message each repetition, and some more while the rates change.
	if n := len(r.sent); n < 16 || n > 40 {
		t.Errorf("%d messages in 2 s", n)
	}

	r.active = false
	r.pass(time.Second)
	if len(r.police) != 0 || len(r.x.advertised) != 0 {
		t.Errorf("nobody sends any more: %v %v", r.police, r.x.advertised)
	}
	quiet := len(r.sent)
	r.pass(2 * time.Second)
	if len(r.sent) != quiet || r.x.state.Held != 0 {
		t.Errorf("%d messages to hosts that are idle, state %+v", len(r.sent)-quiet, r.x.state)
	}
}

// What ingress enforces is written when it changes, and before its life ends.
func TestReceiverWritesChanges(t *testing.T) {
	r := newReceiver(t)
	r.pass(2 * time.Second)
	before := r.writes
	for range 400 {
		r.pass(10 * time.Millisecond)
		for key, p := range r.police {
			if p.UntilNs < r.now+limitLife/4 {
				t.Fatalf("%s: %d ms are left", bpf.AddrOf(key), int64(p.UntilNs-r.now)/1e6)
			}
		}
	}
	if n := r.writes - before; n > 2*2*4 {
		t.Errorf("%d writes in 4 s, want one each half second for two senders", n)
	}
	r.x.link = func() uint64 { return 48e6 }
	r.pass(time.Second)
	if p := r.police[peer1]; p.LimitBps != 40e6 || r.police[peer2].LimitBps != 48e6-48e6>>6-40e6 {
		t.Errorf("the link is slower now: %+v and %+v", p, r.police[peer2])
	}
}

// An agent that follows another one has later epochs.
func TestReceiverEpochsOfTheNextAgent(t *testing.T) {
	r := newReceiver(t)
	r.pass(2 * time.Second)
	next := newReceiver(t)
	next.now = r.now + uint64(time.Second)
	next.pass(time.Second)
	if a, b := r.last(peer1).Epoch, next.sent[0].Epoch; b <= a {
		t.Errorf("epoch %d of the next agent, %d of the one before", b, a)
	}
}

// Without priority, limits that are in force end.
func TestReceiverTurnedOff(t *testing.T) {
	r := newReceiver(t)
	r.pass(time.Second)
	r.isOn = false
	r.pass(time.Second)
	if l := r.last(peer1); l.LifeNs != 0 || len(r.police) != 0 || *r.x.state != (bpf.PriorityState{}) {
		t.Errorf("%+v %v %+v", l, r.police, r.x.state)
	}
}

// Packets of a sender whose limit was not sent yet are not dropped.
func TestReceiverPolicesOnlyWhoWasTold(t *testing.T) {
	r := newReceiver(t)
	for i := range 1000 { // more than get a limit before the first of them is policed
		r.regs[bpf.DestKey{Addr: [16]byte{14: byte(i >> 8), 15: byte(i)}}] = &bpf.DestRegs{}
	}
	for range 30 {
		r.pass(100 * time.Millisecond)
		for key, p := range r.police {
			if advertised := r.x.advertised[key]; p.RateBps != 0 && advertised.bps == 0 {
				t.Fatalf("%+v, and nothing was sent", p)
			}
		}
	}
	for key := range r.regs {
		if r.last(key).RateBps == 0 {
			t.Errorf("%v was sent no rate in 3 s", key)
		}
	}
}
