// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"cmp"
	"slices"
	"time"

	"github.com/cilium/ebpf"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/cc/priority"
	"github.com/softroce/softroce-xdp/loader/nodefile"
	"github.com/softroce/softroce-xdp/rocev2"
)

// While the link of this host is congested by what others send, each of them is sent a rate by
// RATE_LIMIT (S4.5), and what exceeds it is dropped on arrival.
const (
	dividePeriod = uint64(50 * time.Millisecond)
	limitLife    = uint64(time.Second)            // a sender that receives no more of them is free after this
	limitRepeat  = uint64(200 * time.Millisecond) // so several in a row may be lost
	limitBatch   = 64                             // messages in one period
	limitChange  = 6                              // a change of less than 1/64 waits for the repetition

	// What may arrive at once above the rate: the burst of a pacer after idle, and of a stalled machine.
	arrivalBurst      = uint64(50 * time.Millisecond)
	arrivalBurstBytes = 128 << 10

	etherLen = 14
)

// receiving limits what others send to this host.
type receiving struct {
	on    func() bool // mode of the priority policy
	link  func() uint64
	floor func() uint64 // the least that a sender gets
	send  func(bpf.DestKey, rocev2.RateLimitFields)
	maps  arrivals
	state *bpf.PriorityState

	divider    *priority.Receiver // nil: the node file gives no priorities
	advertised map[bpf.DestKey]*advertised
	next       uint64 // time of the next division
	due        []due  // kept for its memory
}

// due is a sender whose limit has to be sent.
type due struct {
	key bpf.DestKey
	bps uint64
	*advertised
}

// arrivals are the maps by which ingress drops.
type arrivals interface {
	set(key bpf.DestKey, limit bpf.ArrivalLimit)
	remove(key bpf.DestKey)
	forget(key bpf.DestKey) // and what was dropped
}

// noArrivals is an attachment without these maps.
type noArrivals struct{}

func (noArrivals) set(bpf.DestKey, bpf.ArrivalLimit) {}
func (noArrivals) remove(bpf.DestKey)                {}
func (noArrivals) forget(bpf.DestKey)                {}

// advertised is the last limit of a sender.
type advertised struct {
	bps      uint64           // 0: none was sent yet
	at       uint64           // time of the last RATE_LIMIT, monotonic ns
	round    uint64           // number of the last division that the sender was part of
	enforced bpf.ArrivalLimit // limit that ingress has
}

// newDivider returns the priorities of the node file.
func newDivider(file *nodefile.File) *priority.Receiver {
	r := priority.NewReceiver()
	file.EachPriority(r.Define)
	return r
}

// note records the snapshot of a peer in an evaluation.
func (x *receiving) note(key bpf.DestKey, d *bpf.DestRegs, now uint64) {
	if x.divider == nil || !x.on() {
		return
	}
	x.divider.Note(key.Addr, &priority.Arrivals{
		Node: d.Node, Bytes: d.RxBytes + etherLen*d.RxPackets, Stamps: rocev2.StampLen * (d.RxPackets - d.RxUnstamped),
	}, now)
}

// step divides the link, if it is time to, and sends the limits.
func (x *receiving) step(now uint64) {
	if x.divider == nil || now < x.next {
		return
	}
	x.next = now + dividePeriod
	if !x.on() {
		x.end(now)
		return
	}
	state := x.divider.Divide(x.link(), x.floor(), now)
	*x.state = *bpf.StateFrom(&state)
	x.due = x.due[:0]
	x.divider.Limits(func(l priority.Limit) {
		key := bpf.DestKey{Addr: l.Key}
		t := x.advertised[key]
		switch {
		case l.Bps == 0 && t != nil:
			x.release(key, t, now)
			return
		case l.Bps == 0:
			return
		case t == nil:
			t = &advertised{}
			x.advertised[key] = t
		}
		t.round = now
		if now-t.at >= limitRepeat || changed(t.bps, l.Bps) {
			x.due = append(x.due, due{key, l.Bps, t})
		}
		if t.bps == 0 {
			l.Police = 0
		}
		x.enforce(key, t, arrivalLimit(&l, now), now)
	})
	x.advertiseDue(now)
	for key, t := range x.advertised {
		if t.round != now { // it sends no more
			x.remove(key)
		}
	}
}

// advertiseDue sends the limits of those that have waited longest.
func (x *receiving) advertiseDue(now uint64) {
	slices.SortFunc(x.due, func(a, b due) int { return cmp.Compare(a.at, b.at) })
	for _, d := range x.due[:min(len(x.due), limitBatch)] {
		d.advertised.bps, d.at = d.bps, now
		x.advertise(d.key, d.bps, limitLife, now)
	}
}

// enforce passes a limit to ingress if it has changed, or if half of its life is over.
func (x *receiving) enforce(key bpf.DestKey, t *advertised, limit bpf.ArrivalLimit, now uint64) {
	has := &t.enforced
	if changed(has.LimitBps, limit.LimitBps) || changed(has.RateBps, limit.RateBps) || now+limitLife/2 >= has.UntilNs {
		t.enforced = limit
		x.maps.set(key, limit)
	}
}

func changed(has, want uint64) bool { return max(has, want)-min(has, want) > has>>limitChange }

// advertise sends a RATE_LIMIT, at most one in a period. The epoch is the time in periods, so that those
// of a new agent follow those of the one before.
func (x *receiving) advertise(key bpf.DestKey, bps, life, now uint64) {
	x.send(key, rocev2.RateLimitFields{Epoch: uint32(now / dividePeriod), RateBps: bps, LifeNs: life})
}

// release ends the limit of a sender.
func (x *receiving) release(key bpf.DestKey, t *advertised, now uint64) {
	if t.bps != 0 {
		x.advertise(key, t.bps, 0, now)
	}
	x.remove(key)
}

// forget removes what is kept of a peer whose entry was deleted, by this agent or an earlier one.
func (x *receiving) forget(key bpf.DestKey) {
	x.maps.forget(key)
	delete(x.advertised, key)
}

// arrivalLimit is what ingress enforces.
func arrivalLimit(l *priority.Limit, now uint64) bpf.ArrivalLimit {
	a := bpf.ArrivalLimit{LimitBps: l.Bps, RateBps: l.Police, UntilNs: now + limitLife}
	if l.Police != 0 {
		a.BurstNs = max(arrivalBurst, arrivalBurstBytes*8*uint64(time.Second)/l.Police)
	}
	return a
}

// end removes all limits, and sends that to the senders.
func (x *receiving) end(now uint64) {
	for key, t := range x.advertised {
		x.release(key, t, now)
	}
	*x.state = bpf.PriorityState{}
}

func (x *receiving) remove(key bpf.DestKey) {
	x.maps.remove(key)
	delete(x.advertised, key)
}

// arrivalMaps are the maps of an attachment.
type arrivalMaps struct {
	limits, counts *ebpf.Map
	words          *bpf.LimitWords
}

// clear removes what an earlier agent has left.
func (m *arrivalMaps) clear() {
	var keys []bpf.DestKey
	var key bpf.DestKey
	var limit bpf.ArrivalLimit
	for it := m.limits.Iterate(); it.Next(&key, &limit); {
		keys = append(keys, key)
	}
	for _, key := range keys {
		_ = m.limits.Delete(key)
	}
	m.words.Policed, m.words.Now = 0, bpf.PriorityState{}
}

func (m *arrivalMaps) set(key bpf.DestKey, limit bpf.ArrivalLimit) {
	if m.limits.Update(key, limit, ebpf.UpdateExist) == nil {
		return
	}
	// Without memory, nothing is dropped.
	_ = m.counts.Update(key, bpf.ArrivalCount{}, ebpf.UpdateNoExist) // it may exist
	if m.limits.Update(key, limit, ebpf.UpdateNoExist) == nil {
		m.words.Policed++
	}
}

func (m *arrivalMaps) remove(key bpf.DestKey) {
	if m.limits.Delete(key) == nil {
		m.words.Policed--
	}
}

func (m *arrivalMaps) forget(key bpf.DestKey) {
	m.remove(key)
	_ = m.counts.Delete(key) // it may have none
}
