// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"errors"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/softroce/softroce-xdp/rocev2/mad"
)

// Many connections between two hosts over a network that loses, doubles and delays messages, with
// applications that accept, refuse, cancel, disconnect and sleep at random. Whatever happens,
// every attempt ends in time, the events of an ID come in a sensible order, both ends agree, and
// nothing is left at the end.
func TestPropertyBothEndsAgree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, rapid.Uint64().Draw(t, "seed"), nil)
		w.loss = rapid.IntRange(0, 60).Draw(t, "loss")
		w.dup = rapid.IntRange(0, 40).Draw(t, "dup")
		w.late = rapid.IntRange(0, 40).Draw(t, "late")
		w.a.auto, w.b.auto = false, false
		w.must(errors.Join(w.b.Listen(service, 8), w.b.Listen(udp, 8)))
		started := map[ID]int64{}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			randomCalls(t, w, started)
			w.run(time.Duration(rapid.Int64Range(0, 3*second).Draw(t, "pause")))
			checkTimes(t, w, started)
		}
		checkAgreement(t, w)
		// The network heals, applications answer, and everything ends.
		w.loss, w.dup, w.late = 0, 0, 0
		w.run(6 * time.Minute)
		for _, h := range []*host{w.a, w.b} {
			for id, c := range h.conns {
				if c.state != StateEstablished {
					t.Fatalf("%d is in %s after 6 minutes", id, c.state)
				}
				_ = h.Disconnect(w.now, id, nil)
			}
		}
		w.run(6 * time.Minute)
		checkAgreement(t, w)
		for _, h := range []*host{w.a, w.b} {
			if h.Len()+len(h.byPeer)+len(h.byQP)+len(h.timers)+h.answered != 0 || h.listeners[service] != nil && h.listeners[service].backlog.Len() != 0 {
				t.Fatalf("left: %d connections, %d, %d, %d", h.Len(), len(h.byPeer), len(h.byQP), len(h.timers))
			}
			for id := range idsOf(h) {
				if k := h.kinds(id); k[len(k)-1] != Gone {
					t.Fatalf("events of %d end with %v", id, k)
				}
			}
		}
	})
}

// randomCalls lets both applications do something.
func randomCalls(t *rapid.T, w *world, started map[ID]int64) {
	for range rapid.IntRange(0, 3).Draw(t, "attempts") {
		p := params()
		w.a.nextQP++
		p.QPN = w.a.nextQP
		if rapid.IntRange(0, 4).Draw(t, "what") == 0 {
			id, err := w.a.Resolve(w.now, ResolveParams{Local: addrA, Peer: addrB, Service: udp})
			w.must(err)
			started[id] = w.now
			continue
		}
		started[w.connect(p)] = w.now
	}
	for _, h := range []*host{w.a, w.b} {
		for id := range idsOf(h) {
			s, ok := h.State(id)
			if !ok {
				continue
			}
			switch what := rapid.IntRange(0, 9).Draw(t, "call"); {
			case what == 0:
				_ = h.Disconnect(w.now, id, nil) // in some states an error
			case what == 1:
				_ = h.Reject(w.now, id, nil)
			case what < 4: // sleeps
			case s == StateREQRcvd || s == StateREPRcvd || s == StateSIDRRcvd:
				kinds := map[State]Kind{StateREQRcvd: Request, StateREPRcvd: Reply, StateSIDRRcvd: ResolveRequest}
				i := slices.IndexFunc(h.events, func(e Event) bool { return e.ID == id && e.Kind == kinds[s] })
				w.serve(h, h.events[i])
			}
		}
		w.carry()
	}
}

// idsOf are the IDs that an application was told of, in order.
func idsOf(h *host) func(func(ID) bool) {
	return func(yield func(ID) bool) {
		seen := map[ID]bool{}
		for _, e := range slices.Clone(h.events) {
			if !seen[e.ID] && !yield(e.ID) {
				return
			}
			seen[e.ID] = true
		}
	}
}

// checkTimes: an attempt is decided within Limit and AnswerTimeout, and orders of events are
// possible ones.
func checkTimes(t *rapid.T, w *world, started map[ID]int64) {
	longest := int64(w.a.cfg.Limit + w.a.cfg.AnswerTimeout)
	for id, at := range started {
		s, ok := w.a.State(id)
		if ok && s != StateEstablished && s != StateDREQSent && s != StateTimewait && w.now > at+longest {
			t.Fatalf("%d is in %s, %v after its begin", id, s, time.Duration(w.now-at))
		}
	}
	possible := [][]Kind{
		{Request, Established, Disconnected, Gone}, {Request, Failed, Gone}, {Request, Gone},
		{Reply, Established, Disconnected, Gone}, {Reply, Failed, Gone}, {Reply, Gone}, {Failed, Gone},
		{ResolveRequest, Gone}, {ResolveRequest, Failed, Gone}, {Resolved, Gone},
	}
	for _, h := range []*host{w.a, w.b} {
		for id := range idsOf(h) {
			got := h.kinds(id)
			if !slices.ContainsFunc(possible, func(p []Kind) bool { return len(got) <= len(p) && slices.Equal(got, p[:len(got)]) }) {
				t.Fatalf("events %v", got)
			}
		}
		if l := h.listeners[service]; l != nil && l.backlog.Len() > l.backlog.Max {
			t.Fatalf("%d in a backlog of %d", l.backlog.Len(), l.backlog.Max)
		}
	}
}

// checkAgreement: where the passive end is connected, the active end was; where the active end is,
// the passive end was, or gave up waiting for the RTU.
func checkAgreement(t *rapid.T, w *world) {
	type pair struct{ qpA, qpB uint32 }
	of := func(h *host) map[pair][]Event {
		path := map[ID]Path{}
		all := map[pair][]Event{}
		for _, e := range h.events {
			if e.Kind == Reply {
				path[e.ID] = e.Path
			}
			if e.Kind == Request {
				path[e.ID] = e.Path
			}
			p, ok := path[e.ID]
			if !ok {
				continue
			}
			key := pair{p.Local.QPN, p.Remote.QPN}
			if h == w.b {
				key = pair{p.Remote.QPN, 0}
			} else {
				key.qpB = 0
			}
			all[key] = append(all[key], e)
		}
		return all
	}
	has := func(events []Event, k Kind) bool {
		return slices.ContainsFunc(events, func(e Event) bool { return e.Kind == k })
	}
	a, b := of(w.a), of(w.b)
	for key, events := range b {
		if has(events, Established) && !has(a[key], Established) {
			t.Fatalf("QP %#x: the passive end is connected, the active end is not: %v", key.qpA, a[key])
		}
	}
	for key, events := range a {
		if !has(events, Established) || has(b[key], Established) {
			continue
		}
		waiting := slices.ContainsFunc(b[key], func(e Event) bool { return e.Kind == Failed || e.Kind == Gone })
		if !waiting && !repSent(w.b, key.qpA) {
			t.Fatalf("QP %#x: the active end is connected, the passive end has only %v", key.qpA, b[key])
		}
	}
}

// repSent reports whether a connection from a queue pair of the peer waits for its RTU.
func repSent(h *host, peerQP uint32) bool {
	for _, c := range h.conns {
		if c.state == StateREPSent && c.path.Remote.QPN == peerQP {
			return true
		}
	}
	return false
}

// Messages of hosts that send anything, built from a few known numbers so that they often belong
// to a connection: memory is bounded, time ends every state, and no call panics.
func TestPropertyHostilePeer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, rapid.Uint64().Draw(t, "seed"), func(c *Config) { c.MaxConns, c.MaxAnswered = 20, 10 })
		w.b.auto = rapid.Bool().Draw(t, "auto")
		w.must(errors.Join(w.b.Listen(service, 4), w.b.Listen(udp, 4)))
		ids := []uint32{0, 1, 2}
		for range rapid.IntRange(1, 200).Draw(t, "messages") {
			for _, c := range w.b.conns {
				ids = append(ids[:3], uint32(c.id), c.remote)
				break
			}
			w.b.Receive(w.now, addrA, addrB, hostileMessage(t, ids), rapid.SampledFrom([]Proof{Doubtful, Plain, Proven}).Draw(t, "proof"))
			w.carry()
			w.flying = nil
			w.now += rapid.Int64Range(0, second).Draw(t, "pause")
			w.b.Expire(w.now)
			w.carry()
			w.flying = nil
			if w.b.Len() > 30 || len(w.b.byPeer) > 30 || len(w.b.byQP) > 30 || len(w.b.timers) > 30 || len(w.b.order) > 20 {
				t.Fatalf("%d connections, %d, %d, %d timers", w.b.Len(), len(w.b.byPeer), len(w.b.byQP), len(w.b.timers))
			}
		}
		w.b.auto = false
		w.loss = 100
		w.run(10 * time.Minute)
		for _, c := range w.b.conns {
			if c.state != StateEstablished {
				t.Fatalf("%s does not end", c.state)
			}
		}
	})
}

func hostileMessage(t *rapid.T, ids []uint32) []byte {
	id := func() uint32 { return rapid.SampledFrom(ids).Draw(t, "id") }
	switch attr := rapid.Custom(func(t *rapid.T) mad.Attr { return mad.Attr(rapid.IntRange(0x0F, 0x19).Draw(t, "attr")) }).Draw(t, "message"); attr {
	case mad.AttrREQ:
		r := mad.NewREQ(1)
		r.SetLocalCommID(id())
		r.SetServiceID(rapid.SampledFrom([]mad.ServiceID{service, udp, 1}).Draw(t, "service"))
		r.SetQPN(rapid.SampledFrom([]uint32{0, 1, 5, 6, 7, 0xFFFFFF}).Draw(t, "QPN"))
		r.SetPMTU(3)
		r.SetPath(addrA, addrB)
		r.SetLocalResponseTimeout(rapid.Byte().Draw(t, "timeout"))
		r.SetMaxRetries(rapid.Byte().Draw(t, "retries"))
		d, _ := mad.IPData{Src: addrA, Dst: addrB}.Append(nil)
		_ = r.SetPrivateData(d)
		return r.Header
	case mad.AttrSIDRREQ:
		r := mad.NewSIDRREQ(1, id(), udp)
		d, _ := mad.IPData{Src: addrA, Dst: addrB}.Append(nil)
		_ = r.SetPrivateData(d)
		return r.Header
	case mad.AttrREJ:
		r := mad.NewREJ(1, id(), id(), mad.Kind(rapid.IntRange(0, 3).Draw(t, "kind")), mad.ReasonTimeout)
		_ = r.SetInfo(make([]byte, 8))
		return r.Header
	default:
		b := append(mad.Header(nil), mad.NewDREQ(1, id(), id(), 0x11).Header...)
		b[17] = byte(attr)
		copy(b[36:], rapid.SliceOfN(rapid.Byte(), 0, 200).Draw(t, "rest"))
		return b
	}
}

// FuzzReceive: any bytes at a manager with a connection in each state neither panic nor leave a
// timer that does not end.
func FuzzReceive(f *testing.F) {
	f.Add([]byte(request(&testing.T{}).Header))
	f.Add([]byte(mad.NewREP(1, 2, 3).Header))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, l := range states {
			w := newWorld(t, 1, nil)
			h, id := l.lead(w)
			c := h.conns[id]
			h.Owns(c.peer, b)
			h.Receive(w.now, c.peer, c.local, b, Plain)
			if len(b) == mad.Len { // addressed to the connection
				b := append(mad.Header(nil), b...)
				copy(b[28:], []byte{byte(id >> 24), byte(id >> 16), byte(id >> 8), byte(id)})
				copy(b[24:], []byte{byte(c.remote >> 24), byte(c.remote >> 16), byte(c.remote >> 8), byte(c.remote)})
				h.Receive(w.now, c.peer, c.local, b, Plain)
			}
			h.auto = false
			for n := 0; ; n++ {
				at, ok := h.Next()
				if !ok {
					break
				}
				if n > 100 {
					t.Fatalf("%s: timers do not end", l.name)
				}
				h.Expire(at)
				h.Take()
			}
		}
	})
}
