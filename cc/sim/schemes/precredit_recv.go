// SPDX-License-Identifier: Apache-2.0

package schemes

import (
	"github.com/softroce/softroce-xdp/cc/precredit"
	"github.com/softroce/softroce-xdp/cc/sim"
)

// preReceiver is a host's receiving half.
type preReceiver struct {
	sim.NoReceiver
	scheme *preScheme
	out    sim.Out
	other  sim.Receiver // nil = none
	end    *precredit.Endpoint
	core   *precredit.Receiver // receiver of the endpoint

	connecting precredit.Grant
	asking     int            // sender whose connection connecting is for, -1 = nobody's
	opened     map[int]uint16 // number of a grant that the sender knows: Data has no room for it
	wakeNs     int64
}

func (x *preScheme) NewReceiver(host int, out sim.Out) sim.Receiver {
	// The other half of the buffer is for what comes after the first round trip.
	budget := min(out.BufferBytes()/2, 1<<30)
	switch {
	case x.s.budget != 0:
		budget = min(budget, x.s.budget)
	case x.s.oneQueue: // what large flows send unasked is in everybody's way
		budget = min(budget, 16*int64(precredit.BDP(out.LinkBps(), x.s.rtt)))
	}
	budget = max(budget, 4096)
	p := precredit.Plan(out.LinkBps(), x.s.rtt, uint32(budget), 1000, x.s.senders)
	end := precredit.NewEndpoint(p, 1)
	r := &preReceiver{
		scheme: x, out: out, other: x.with.NewReceiver(host, out), end: end, core: end.Receiver,
		asking: -1, opened: map[int]uint16{},
	}
	x.receivers[host] = r
	return r
}

func (r *preReceiver) Connect(now int64, src int) (grant int64) {
	if r.other != nil {
		grant = r.other.Connect(now, src)
	}
	r.asking = src
	r.core.NewFlow(now, precredit.SenderID(src))
	r.flush(now)
	r.asking = -1
	return grant
}

// flush sends what the core has to send.
func (r *preReceiver) flush(now int64) {
	for to, g, ok := r.core.Next(now); ok; to, g, ok = r.core.Next(now) {
		if g.Open {
			r.opened[int(to)] = g.Seq
		}
		if g.Open && int(to) == r.asking {
			r.connecting = g
			continue
		}
		r.out.SendTo(int(to), grantMessage(g))
	}
	if at := r.core.Deadline(); at != r.wakeNs {
		r.wakeNs = at
		r.out.WakeAt(nil, max(at, now))
	}
}

func (r *preReceiver) Data(now int64, f *sim.Flow, d *sim.Data, reply *sim.Reply) {
	if r.other != nil {
		r.other.Data(now, f, d, reply)
	}
	src := precredit.SenderID(f.Src)
	n := uint32(0)
	if d.Unscheduled {
		n = uint32(d.Bytes)
		r.core.Arrive(now, src, n, precredit.Credit{Bytes: d.Tag, Seq: r.opened[f.Src]})
	}
	if d.PSN == 0 && !d.Retransmit {
		r.core.NewFlow(now, src)
	}
	if c, ok := r.core.DstScheduleCredit(now, src, n); ok {
		reply.Tag, reply.CreditBytes = c.Bytes, 1
	}
	r.flush(now)
}

func (r *preReceiver) Message(now int64, src int, f *sim.Flow, m *sim.Message) {
	if m.Kind != sim.MsgReturn {
		if r.other != nil {
			r.other.Message(now, src, f, m)
		}
		return
	}
	ret := returnOf(m)
	r.opened[src] = ret.Seq
	r.core.Return(now, precredit.SenderID(src), ret)
	r.flush(now)
}

func (r *preReceiver) Done(now int64, f *sim.Flow) {
	if r.other != nil {
		r.other.Done(now, f)
	}
}

func (r *preReceiver) Expire(now int64, f *sim.Flow) {
	if f != nil {
		if r.other != nil {
			r.other.Expire(now, f)
		}
		return
	}
	r.wakeNs = 0
	r.core.Expire(now)
	r.flush(now)
}

// The messages of pre-credit in the simulator's: the same fields as on the wire.

func grantMessage(g precredit.Grant) sim.Message {
	flags := uint32(0)
	if g.Open {
		flags |= 1
	}
	if g.Recall {
		flags |= 2
	}
	return sim.Message{Kind: sim.MsgGrant, Seq: uint32(g.Seq) | flags<<16, Bytes: int64(g.Limit), Aux: int64(g.Epoch)}
}

func grantOf(m *sim.Message, x *preScheme) precredit.Grant {
	return precredit.Grant{
		Epoch: uint32(m.Aux), Limit: uint32(m.Bytes), Seq: uint16(m.Seq), Open: m.Seq>>16&1 != 0, Recall: m.Seq>>16&2 != 0,
		LifeNs: x.lifeNs(),
	}
}

func (x *preScheme) lifeNs() int64 { return precredit.Plan(1, 1, 1, 1, 0).LifeNs }

func returnMessage(r precredit.Return) sim.Message {
	flags := uint32(0)
	if r.Expired {
		flags |= 1
	}
	if r.Unknown {
		flags |= 2
	}
	return sim.Message{
		Kind: sim.MsgReturn, Seq: uint32(r.Seq) | flags<<16,
		Bytes: int64(uint64(r.Limit)<<32 | uint64(r.Sent)), Aux: int64(uint64(r.Epoch)<<32 | uint64(r.Void)),
	}
}

func returnOf(m *sim.Message) precredit.Return {
	return precredit.Return{
		Epoch: uint32(uint64(m.Aux) >> 32), Limit: uint32(uint64(m.Bytes) >> 32), Sent: uint32(m.Bytes), Void: uint32(m.Aux),
		Seq: uint16(m.Seq), Expired: m.Seq>>16&1 != 0, Unknown: m.Seq>>16&2 != 0,
	}
}
