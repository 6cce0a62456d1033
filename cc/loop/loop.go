// SPDX-License-Identifier: Apache-2.0

// Package loop evaluates the four-case policy for the active destinations of a table, and
// writes the rates back. Internal to this project. The table is an interface, Table: the destination table of an attached
// interface (loader/agent), or that of a card (hwoffload/driver).
//
// The share of a destination in the link, and the parts of kernel stack and engine in its rate,
// are decided here as well (S1.2, S1.9, S4.5).
//
// The package does no I/O and reads no clock: Table, Pacer, Options.Clock and Options.Hello do
// that for it. Registers have the types of package bpf, so that a decision has the same bits
// over every table.
package loop

import (
	"sync/atomic"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/cc/fourcase"
	"github.com/softroce/softroce-xdp/cc/priority"
)

// Table is a live destination table. Slots carry registers between the loop and the table; the
// loop is their one user.
type Table interface {
	// Slots returns the slots, of which there are bpf.AgentSlots.
	Slots() []bpf.AgentSlot

	// Collect takes up to len(Slots()) destinations that had traffic since they were last
	// collected. It puts a snapshot of their registers into the slots, and starts a new
	// window of samples for each, in one step between two packets. It returns the number of
	// slots filled; fewer than len(Slots()) means that no active destination is left. A slot
	// whose Found is 0 has the key of an entry that was deleted.
	Collect() (int, error)

	// Read puts a snapshot of the entries of the first n slots' keys into the slots.
	Read(n int) error

	// Apply writes, for the first n slots, the registers that their Op names.
	Apply(n int) error

	// Lookup reads the registers of a destination. It returns false if there is no entry.
	Lookup(key bpf.DestKey, d *bpf.DestRegs) (bool, error)
}

// Pacer is the part of a pacer that the loop uses. Config.Pacer is its kind.
type Pacer interface {
	// SetRate sets the rate of a destination's class. class is the result of an earlier
	// call, 0 = a new class. The result goes into the register class_id. Pacers without
	// classes return 0.
	SetRate(class uint32, bps uint64) (uint32, error)

	// Backlog returns the number of bytes that wait in the class. ok is false for pacers
	// without classes.
	Backlog(class uint32) (bytes uint64, ok bool, err error)
}

// noPacer is the pacer of a table that paces by itself.
type noPacer struct{}

func (noPacer) SetRate(uint32, uint64) (uint32, error) { return 0, nil }
func (noPacer) Backlog(uint32) (uint64, bool, error)   { return 0, false, nil }

// Logger is the part of slog.Logger that the loop uses.
type Logger interface {
	Debug(msg string, args ...any)
	Warn(msg string, args ...any)
}

// Options are what a loop works on and with.
type Options struct {
	Table  Table
	Pacer  Pacer            // nil = no classes
	Config *bpf.Config      // read at every evaluation: others may change the parameters
	Sharer *priority.Sharer // sharer with the priorities of the nodes (S4.5); nil = they have none
	Clock  func() uint64    // the clock of next_tx_ns, in ns
	Log    Logger

	// Hello sends a HELLO, whose answer measures the base delay at the end of a baseline
	// pause. It is not called if the pacer cannot delay packets.
	Hello func(bpf.DestKey)

	// Limit returns the rate that a destination allows this host (RATE_LIMIT), 0 = any; nil = any.
	Limit func(key bpf.DestKey, now uint64) uint64

	// Evaluated is called with the registers of each destination that had traffic; nil = none.
	Evaluated func(key bpf.DestKey, d *bpf.DestRegs, now uint64)
}

// Loop is the state of the policy between evaluations. The state of the destinations is in the
// table. All methods are for one goroutine; now is a time of Options.Clock.
type Loop struct {
	// ClockOffset is the clock of the stamps minus Options.Clock, in ns.
	ClockOffset uint64

	table     Table
	cfg       *bpf.Config
	pacer     Pacer
	clock     func() uint64
	log       Logger
	hello     func(bpf.DestKey)
	evaluated func(key bpf.DestKey, d *bpf.DestRegs, now uint64)
	limit     func(key bpf.DestKey, now uint64) uint64

	reconciler     reconciler
	pauses         baselinePauses
	paceBlocked    paceBlocked
	senders        senders
	steps          []step // steps of the slots that are evaluated; kept for their memory
	recentlyActive recentlyActive
	sharer         *priority.Sharer // nil = the nodes have no priorities

	classAfter uint64 // no new pacer class before this
	failed     pacerFailure
}

// New returns a loop.
func New(o Options) *Loop {
	l := &Loop{
		table: o.Table, cfg: o.Config, pacer: o.Pacer, sharer: o.Sharer, clock: o.Clock, log: o.Log, hello: o.Hello, evaluated: o.Evaluated, limit: o.Limit,
		reconciler: reconciler{last: map[bpf.DestKey]uint64{}},
		pauses:     baselinePauses{all: map[bpf.DestKey]*baselinePause{}},
	}
	if l.limit == nil {
		l.limit = func(bpf.DestKey, uint64) uint64 { return 0 }
	}
	if l.pacer == nil {
		l.pacer = noPacer{}
	}
	return l
}

// Evaluate makes one evaluation: of the destinations that had traffic since the last one, and
// of those whose packets all wait in the pacer. It returns their number.
func (l *Loop) Evaluate(now uint64) (int, error) {
	n, err := l.evaluate(now)
	if err != nil {
		return 0, err
	}
	waited, err := l.evaluatePaceBlocked(now)
	return n + waited, err
}

// Number gives an entry without a node number the one that assign returns, and sets window and
// class. It returns false if there is no such entry.
func (l *Loop) Number(key bpf.DestKey, assign func() uint32) (bool, error) {
	slot := &l.table.Slots()[0]
	slot.Key = key
	if err := l.table.Read(1); err != nil || slot.Found == 0 {
		return false, err
	}
	if slot.Regs.TxPackets > 0 {
		l.recentlyActive.note(key, l.clock()) // its rate is new: the next evaluation does not restart it
	}
	st := stepOf(slot)
	st.node = assign()
	st.set |= bpf.SetNode
	if st.policy.Decisions == 0 {
		// This is before the first data if queue pairs connect first.
		l.window(&st.policy, bpf.ParamsAs[fourcase.Params](&l.cfg.Policy), st.rate)
		st.set |= bpf.SetPolicy
	}
	if st.class == 0 && st.rate != 0 {
		st.setClass(l.classFor(st.key, st.class, st.stackRate))
	}
	st.store(slot)
	return true, l.table.Apply(1)
}

// Begin gives an entry that no agent had yet its node number, and the registers that a new entry
// has.
func (l *Loop) Begin(key bpf.DestKey, node uint32) error {
	slot := &l.table.Slots()[0]
	slot.Key = key
	if err := l.table.Read(1); err != nil || slot.Found == 0 {
		return err
	}
	d := l.First(key)
	st := stepOf(slot)
	st.policy, st.node = *bpf.PolicyAs[fourcase.Regs](&d.Policy), node
	st.rate, st.stackRate, st.engineRate = d.RateBps, d.StackRateBps, d.EngineRateBps
	st.set = bpf.SetPolicy | bpf.SetNode
	st.setClass(d.ClassId)
	st.store(slot)
	return l.table.Apply(1)
}

// First returns the registers of a new entry: its rates, its window and its class, so that its
// first packet is paced.
func (l *Loop) First(key bpf.DestKey) *bpf.DestRegs {
	d := &bpf.DestRegs{RateBps: l.cfg.InitialRateBps, WinTxNs: bpf.NoSample, WinRxNs: bpf.NoSample, WinRttNs: bpf.NoSample}
	d.Policy.RateBps, d.StackRateBps, d.EngineRateBps = d.RateBps, d.RateBps, d.RateBps
	l.window(bpf.PolicyAs[fourcase.Regs](&d.Policy), bpf.ParamsAs[fourcase.Params](&l.cfg.Policy), d.RateBps)
	d.ClassId = l.classFor(key, 0, d.RateBps)
	return d
}

// ClearCaps stops stamping to a destination.
func (l *Loop) ClearCaps(key bpf.DestKey) error {
	slot := &l.table.Slots()[0]
	slot.Key, slot.Op, slot.Regs.Caps = key, bpf.SetCaps, 0
	return l.table.Apply(1)
}

// EvenShareOf writes the rate at which a new destination starts: initial_rate_bps of the policy
// if it is set, else the even share of the link among dests destinations (S1.2).
func (l *Loop) EvenShareOf(dests int) {
	p := &l.cfg.Policy
	rate := max(fourcase.EvenShare(l.cfg.LinkRateBps, dests), p.MinRateBps)
	if p.InitialRateBps != 0 {
		rate = p.InitialRateBps
	}
	atomic.StoreUint64(&l.cfg.InitialRateBps, rate)
}

// EvenShare writes the rate at which a new destination starts, as EvenShareOf does, among the
// destinations to which this host had data recently and the new one.
func (l *Loop) EvenShare(now uint64) {
	l.recentlyActive.advance(now)
	l.EvenShareOf(l.recentlyActive.others() + 1)
}

// Forget removes what the loop keeps of a destination whose entry is deleted.
func (l *Loop) Forget(key bpf.DestKey) {
	delete(l.reconciler.last, key)
	delete(l.pauses.all, key)
}
