// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"time"
)

// FlowSpec asks for a flow.
type FlowSpec struct {
	Src, Dst    int
	Bytes       int64
	Start       time.Duration
	Class       uint8
	Prio        uint8 // among the flows of its host: 0 first
	Op          Op
	RegionBytes int64
	Tag         int64
}

// pair is two hosts whose queue pair is connected.
type pair struct {
	src, dst int32
	fwd, rev portPath // path of control packets about no flow
	path     Path
	pacer    *Pacer // shared pacer, or nil
	grant    int64  // grant for the first flow's pacer
	flows    []*Flow
}

// Add adds a flow. Call it before the run has reached its start.
func (n *Net) Add(s FlowSpec) (*Flow, error) {
	switch hosts := n.topo.Hosts; {
	case s.Src < 0 || s.Src >= hosts || s.Dst < 0 || s.Dst >= hosts:
		return nil, fmt.Errorf("flow from host %d to host %d: there are hosts 0 to %d", s.Src, s.Dst, hosts-1)
	case s.Src == s.Dst:
		return nil, fmt.Errorf("flow from host %d to itself", s.Src)
	case s.Bytes < 1 || s.Bytes/int64(n.cfg.PayloadBytes) >= 1<<31:
		return nil, fmt.Errorf("flow of %d bytes: it must be 1 byte or more and less than 2^31 packets", s.Bytes)
	case tick(s.Start)*nanosecond < n.wheel.now:
		return nil, fmt.Errorf("flow starts at %v: it is %v already", s.Start, n.Now())
	}
	f := n.newFlows.take()
	*f = Flow{
		ID: len(n.flows), Src: s.Src, Dst: s.Dst, StartNs: int64(s.Start), Size: s.Bytes, Class: min(s.Class, uint8(n.cfg.Classes-1)), Op: s.Op, RegionBytes: s.RegionBytes, Tag: s.Tag,
	}
	f.flowState = flowState{
		net: n, id: int32(f.ID),
		prio: min(s.Prio, prios-1), rto: n.wheel.newSlot(evStart, int32(f.ID)),
	}
	f.total = uint32((s.Bytes + int64(n.cfg.PayloadBytes) - 1) / int64(n.cfg.PayloadBytes))
	f.end = f.total
	f.ackSlot, f.rcvSlot, f.heldID = noIndex, noIndex, noIndex
	hash := mix(n.cfg.Seed ^ mix(uint64(f.ID)<<40^uint64(s.Src)<<20^uint64(s.Dst)+1))
	var err error
	if f.fwd, err = n.routing.find(int32(s.Src), int32(s.Dst), hash); err != nil {
		return nil, err
	}
	if f.rev, err = n.routing.find(int32(s.Dst), int32(s.Src), mix(hash+1)); err != nil {
		return nil, err
	}
	f.idealAt = n.alone(&f.fwd, f.Size)
	n.flows = append(n.flows, f)
	n.wheel.set(f.rto, tick(s.Start)*nanosecond)
	return f, nil
}

// Flows are all flows so far, in the order in which they were added.
func (n *Net) Flows() []*Flow { return n.flows }

// pullSource adds the next flow of the source.
func (n *Net) pullSource() {
	n.nextSpec = nil
	if n.Source == nil {
		return
	}
	s, ok := n.Source()
	if !ok {
		return
	}
	n.nextSpec = &s
	s.Start = max(s.Start, n.Now())
	f, err := n.Add(s)
	if err != nil {
		panic(fmt.Sprintf("sim: Source: %v", err))
	}
	f.fromSource = true
}

// start is a flow's start: its pacer may send from now on.
func (n *Net) start(f *Flow) {
	if f.fromSource {
		n.pullSource()
	}
	n.wheel.slots[f.rto].kind = evRTO
	pr := n.connect(int32(f.Src), int32(f.Dst))
	p := pr.pacer
	if p == nil {
		p = n.newPacer(pr, n.path(&f.fwd, &f.rev))
		if n.needs.Scope == PerDestination {
			pr.pacer = p
		}
		n.discover(pr, p)
	}
	if n.selective {
		f.sel = n.newSels.take()
	}
	f.pacer = p
	pr.flows = append(pr.flows, f)
	p.Flows++
	p.BacklogBytes += f.Size
	p.wake(f)
	p.ctl.Start(n.wheel.now.ns(), p, f)
	p.Update()
}

// finish is when the sender knows that all has arrived.
func (n *Net) finish(f *Flow) {
	p := f.pacer
	p.Flows--
	f.pacer = nil
	pr := p.pair
	for i, g := range pr.flows {
		if g == f {
			pr.flows = append(pr.flows[:i], pr.flows[i+1:]...)
			break
		}
	}
	n.wheel.drop(f.rto)
	if f.ackSlot >= 0 {
		n.wheel.drop(f.ackSlot)
		f.ackSlot = noIndex
	}
	p.ctl.Done(n.wheel.now.ns(), p, f)
	f.sel.forget()
	if n.needs.Scope == PerFlow {
		p.end()
		return
	}
	p.Update()
}

// forget frees what a flow no longer needs.
func (s *selective) forget() {
	if s != nil {
		*s = selective{}
	}
}

// Pacer carries the flow; nil before its start and after its end.
func (f *Flow) Pacer() *Pacer { return f.pacer }

// ReceivedBytes is the payload that has arrived so far.
func (f *Flow) ReceivedBytes() int64 { return f.received }

// FCTNs is the time from start until the receiver had all, 0 = not yet.
func (f *Flow) FCTNs() int64 {
	if f.EndNs == 0 {
		return 0
	}
	return f.EndNs - f.StartNs
}

// IdealNs is what FCTNs would be if the flow were alone and its sender went at
// the link's rate. It counts headers and every link's delay.
func (f *Flow) IdealNs() int64 { return f.idealAt.ns() }

// Slowdown is the flow completion time over the ideal one, 0 = not done.
func (f *Flow) Slowdown() float64 {
	if f.EndNs == 0 {
		return 0
	}
	return float64(f.endAt-tick(f.StartNs)*nanosecond) / float64(f.idealAt)
}
