// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"bytes"
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/rocev2/mad"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// request is the REQ that a's Connect sends.
func request(t *testing.T) mad.REQ {
	t.Helper()
	m := New(Config{})
	if _, err := m.Connect(1, params()); err != nil {
		t.Fatal(err)
	}
	return mad.REQ{Header: m.Take()[0].(Send).MAD}
}

// answer gives a manager a message from A and returns what it sends, nil for nothing.
func answer(t *testing.T, m *Manager, h mad.Header) mad.Header {
	t.Helper()
	m.Receive(second, addrA, addrB, h, Plain)
	var sent []mad.Header
	for _, a := range m.Take() {
		if s, ok := a.(Send); ok {
			if s.Local != addrB || s.Peer != addrA {
				t.Errorf("from %s to %s", s.Local, s.Peer)
			}
			sent = append(sent, s.MAD)
		}
	}
	if len(sent) > 1 {
		t.Fatalf("%d answers to one message", len(sent))
	}
	if len(sent) == 0 {
		return nil
	}
	return sent[0]
}

// Every REQ that cannot be served is refused with its reason.
func TestRefusedREQ(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(r mad.REQ)
		want   mad.Reason
	}{
		{"as it is", func(mad.REQ) {}, 0},
		{"nobody listens", func(r mad.REQ) { r.SetServiceID(service + 1) }, mad.ReasonInvalidServiceID},
		{"RD", func(r mad.REQ) { r.SetService(2) }, mad.ReasonInvalidService},
		{"XRC", func(r mad.REQ) { r.SetExtendedTransport(1) }, mad.ReasonInvalidService},
		{"no comm ID", func(r mad.REQ) { r.SetLocalCommID(0) }, mad.ReasonInvalidCommID},
		{"QPN 1", func(r mad.REQ) { r.SetQPN(1) }, mad.ReasonUnsupported},
		{"multicast QPN", func(r mad.REQ) { r.SetQPN(0xFFFFFF) }, mad.ReasonUnsupported},
		{"GID of another host", func(r mad.REQ) { r.SetPath(addr6A, addrB) }, mad.ReasonInvalidGID},
		{"to another host", func(r mad.REQ) { r.SetPath(addrA, addr6A) }, mad.ReasonInvalidGID},
		{"PMTU 0", func(r mad.REQ) { r.SetPMTU(0) }, mad.ReasonInvalidMTU},
		{"PMTU 6", func(r mad.REQ) { r.SetPMTU(6) }, mad.ReasonInvalidMTU},
		{"PMTU too large", func(r mad.REQ) { r.SetPMTU(5) }, mad.ReasonInvalidMTU},
		{"no IP data", func(r mad.REQ) { _ = r.SetPrivateData(nil) }, mad.ReasonUnsupported},
		{"IP data to another host", func(r mad.REQ) {
			b, _ := mad.IPData{Src: addrA, Dst: addrA}.Append(nil)
			_ = r.SetPrivateData(b)
		}, mad.ReasonInvalidGID},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := New(Config{Alone: always, MaxPMTU: 4})
			if err := m.Listen(service, 1); err != nil {
				t.Fatal(err)
			}
			r := request(t)
			c.change(r)
			got := answer(t, m, r.Header)
			if c.want == 0 {
				if got != nil || m.Len() != 1 {
					t.Errorf("answer %v, %d connections", got, m.Len())
				}
				return
			}
			rej, err := mad.ParseREJ(got)
			if err != nil || rej.Reason() != c.want || rej.RemoteCommID() != r.LocalCommID() || rej.Message() != mad.KindREQ || m.Len() != 0 {
				t.Errorf("%v, %v, %d connections; want %v", rej.Reason(), err, m.Len(), c.want)
			}
			if c.name == "PMTU too large" && !bytes.Equal(rej.Info(), []byte{4}) {
				t.Errorf("information %x", rej.Info())
			}
		})
	}
}

// A manager next to another one leaves alone what is not its own.
func TestNotAlone(t *testing.T) {
	m := New(Config{})
	r := request(t)
	dreq := mad.NewDREQ(1, 2, 3, 4)
	for _, h := range []mad.Header{r.Header, dreq.Header, mad.NewREP(1, 2, 3).Header, mad.NewSIDRREQ(1, 2, 3).Header} {
		if m.Owns(addrA, h) {
			t.Errorf("it owns a foreign %s", h.Attr())
		}
		if got := answer(t, m, h); got != nil {
			t.Errorf("it answers a foreign %s by %s", h.Attr(), got.Attr())
		}
	}
	if m.Counters().Unowned != 4 {
		t.Errorf("%+v", m.Counters())
	}
	alone := New(Config{Alone: always})
	for _, c := range []struct {
		h    mad.Header
		want mad.Attr
	}{{r.Header, mad.AttrREJ}, {dreq.Header, mad.AttrDREP}, {mad.NewREP(1, 2, 3).Header, mad.AttrREJ}, {mad.NewSIDRREQ(1, 2, 3).Header, mad.AttrSIDRREP}} {
		if got := answer(t, alone, c.h); got == nil || got.Attr() != c.want {
			t.Errorf("%s is answered by %v, want %s", c.h.Attr(), got, c.want)
		}
	}
	for _, h := range []mad.Header{mad.NewRTU(1, 2, 3).Header, mad.NewREJ(1, 2, 3, 0, 1).Header, mad.NewMRA(1, 2, 3, 0).Header, mad.NewDREP(1, 2, 3).Header} {
		if got := answer(t, alone, h); got != nil {
			t.Errorf("a foreign %s is answered by %s", h.Attr(), got.Attr())
		}
	}
}

// Owns knows the messages of listeners and connections, also when the listener is closed.
func TestOwns(t *testing.T) {
	w := newWorld(t, 1, nil)
	w.listen(0)
	r := request(t)
	if !w.b.Owns(addrA, r.Header) || !w.b.Owns(netip.AddrFrom16(addrA.As16()), r.Header) || w.b.Owns(addrA, r.Header[:255]) {
		t.Error("a REQ to a listener")
	}
	id := w.connect(params())
	w.run(time.Second)
	peer := w.b.the(t, Request).ID
	w.b.Unlisten(service)
	dreq := mad.NewDREQ(1, uint32(id), uint32(peer), 0x11).Header
	if w.b.Owns(addrA, r.Header) || !w.b.Owns(addrA, dreq) || w.b.Owns(addr6A, dreq) {
		t.Error("after Unlisten")
	}
	other := mad.NewDREQ(1, uint32(id)+1, uint32(peer), 0x11).Header
	if w.b.Owns(addrA, other) {
		t.Error("it owns a message with a wrong communication ID")
	}
}

// A flood of requests fills the backlog and nothing else; the application's answers free it.
func TestBacklog(t *testing.T) {
	m := New(Config{})
	if err := m.Listen(service, 3); err != nil {
		t.Fatal(err)
	}
	if err := m.Listen(service, 3); !errors.Is(err, ErrInUse) {
		t.Errorf("listens twice: %v", err)
	}
	var requests []Event
	flood := func(n int) {
		for i := range n {
			r := request(t)
			r.SetQPN(uint32(0x100 + 1000*len(requests) + i))
			m.Receive(second, addrA, addrB, r.Header, Plain)
			for _, a := range m.Take() {
				requests = append(requests, a.(Event)) // nothing is sent
			}
		}
	}
	flood(100)
	if len(requests) != 3 || m.Len() != 3 || m.Counters().Overflow != 97 {
		t.Fatalf("%d requests, %d connections, %+v", len(requests), m.Len(), m.Counters())
	}
	p := requests[0].Path
	p.Local.QPN = 9
	if err := errors.Join(m.Accept(second, requests[0].ID, p, nil), m.Reject(second, requests[1].ID, nil)); err != nil {
		t.Fatal(err)
	}
	m.Take()
	flood(100)
	if len(requests) != 5 {
		t.Errorf("%d requests after two answers, want 5", len(requests))
	}
}

func TestMaxConns(t *testing.T) {
	m := New(Config{MaxConns: 2})
	if err := m.Listen(service, 100); err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		p := params()
		p.Local, p.Peer, p.QPN = addrB, addrA, uint32(0x100+i)
		if _, err := m.Connect(second, p); err != nil {
			t.Fatal(err)
		}
	}
	m.Take()
	last := answer(t, m, request(t).Header)
	if rej, err := mad.ParseREJ(last); err != nil || rej.Reason() != mad.ReasonNoResources || m.Len() != 2 {
		t.Errorf("%v, %v, %d connections", last, err, m.Len())
	}
}

// Refused requests are remembered up to a limit, and for a limited time.
func TestMaxAnswered(t *testing.T) {
	m := New(Config{MaxAnswered: 10})
	if err := m.Listen(service, 1); err != nil {
		t.Fatal(err)
	}
	now := second
	for i := range 1000 {
		now += 1000
		r := request(t)
		r.SetQPN(uint32(0x100 + i))
		m.Receive(now, addrA, addrB, r.Header, Plain)
		if err := m.Reject(now, m.Take()[0].(Event).ID, nil); err != nil {
			t.Fatal(err)
		}
		m.Take()
		if m.Len() > 10 || len(m.order) > 20 {
			t.Fatalf("%d are remembered, %d in order", m.Len(), len(m.order))
		}
	}
	if m.Counters().Forgotten != 990 {
		t.Errorf("%+v", m.Counters())
	}
	m.Expire(now + 60*second)
	if m.Len() != 0 || len(m.byPeer) != 0 || len(m.byQP) != 0 || len(m.Take()) != 0 {
		t.Errorf("left: %d, %d, %d", m.Len(), len(m.byPeer), len(m.byQP))
	}
}

// A peer that restarted connects from a queue pair that it had connected before: the old
// connection is over on both ends (IBTA 12.9.8.3). Its stamp proves the request; stale_test.go has those without.
func TestStale(t *testing.T) {
	w := newWorld(t, 1, nil)
	w.proof = Proven
	w.listen(0)
	w.connect(params())
	w.run(time.Second)
	guid := w.a.cfg.GUID
	w.a = &host{Manager: New(Config{Rand: w.rand.Uint32, GUID: guid, Alone: always}), auto: true}
	again := w.connect(params())
	w.run(time.Second)
	w.want(w.a, again, Failed, Gone)
	wantReason(t, w.a, mad.ReasonStaleConnection)
	w.want(w.b, 0, Request, Established, Disconnected)
	if e := w.b.the(t, Disconnected); !errors.Is(e.Err, ErrStale) {
		t.Error(e.Err)
	}
	w.run(time.Minute)
	w.want(w.b, 0, Request, Established, Disconnected, Gone)
	w.connect(params())
	w.run(time.Second)
	w.want(w.a, 0, Failed, Gone, Reply, Established)
}

// In timewait neither the ID nor the queue pair of the peer can begin anew.
func TestTimewait(t *testing.T) {
	w := newWorld(t, 1, nil)
	w.listen(0)
	id := w.connect(params())
	w.run(time.Second)
	if err := w.a.Disconnect(w.now, id, nil); err != nil {
		t.Fatal(err)
	}
	w.run(time.Second)
	if s, ok := w.a.State(id); !ok || s != StateTimewait {
		t.Errorf("state %v", s)
	}
	w.connect(params())
	w.run(time.Second / 2)
	wantReason(t, w.a, mad.ReasonStaleConnection)
	if err := w.a.Disconnect(w.now, id, nil); err == nil || err.Error() != "cm: Disconnect does not exist in Timewait; docs/reference/connection-states.md has the calls of each state" {
		t.Error(err)
	}
	w.run(time.Minute)
	if _, ok := w.a.State(id); ok || w.a.Len() != 0 {
		t.Error("timewait does not end")
	}
	// IDs are not drawn while they are in use.
	drawn := []uint32{0, 7, 7, 7, 8}
	m := New(Config{GUID: func(netip.Addr) uint64 { return 1 }, Rand: func() uint32 { v := drawn[0]; drawn = drawn[1:]; return v }})
	for _, want := range []ID{7, 8} {
		p := params()
		if id, err := m.Connect(1, p); err != nil || id != want {
			t.Errorf("ID %d, %v; want %d", id, err, want)
		}
	}
}

// A message with a wrong communication ID, address or queue pair changes nothing.
func TestForeignMessages(t *testing.T) {
	w := newWorld(t, 1, nil)
	w.listen(0)
	id := uint32(w.connect(params()))
	w.run(time.Second)
	peer := uint32(w.b.the(t, Request).ID)
	for name, f := range map[string]flight{
		"local ID":       {0, Send{addrA, addrB, mad.NewDREQ(1, id+1, peer, 0x11).Header}},
		"remote ID":      {0, Send{addrA, addrB, mad.NewDREQ(1, id, peer+1, 0x11).Header}},
		"queue pair":     {0, Send{addrA, addrB, mad.NewDREQ(1, id, peer, 0x12).Header}},
		"address":        {0, Send{addr6A, addr6B, mad.NewDREQ(1, id, peer, 0x11).Header}},
		"REJ by address": {0, Send{addr6A, addr6B, mad.NewREJ(1, id, peer, 1, 4).Header}},
		"an old REJ":     {0, Send{addrA, addrB, mad.NewREJ(1, id, peer, mad.KindREQ, 8).Header}},
		"REP to B":       {0, Send{addrA, addrB, mad.NewREP(1, id, peer).Header}},
	} {
		w.b.Receive(w.now, f.Local, f.Peer, f.MAD, w.proof)
		w.carry()
		if got := w.b.kinds(0); len(got) != 2 {
			t.Fatalf("%s: %v", name, got)
		}
	}
}

func TestResolve(t *testing.T) {
	w := newWorld(t, 1, nil)
	if err := w.b.Listen(udp, 1); err != nil {
		t.Fatal(err)
	}
	p := ResolveParams{Local: addrA, Peer: addrB, Service: udp, SrcPort: 77, Private: []byte("who")}
	resolve := func() ID {
		t.Helper()
		id, err := w.a.Resolve(w.now, p)
		if err != nil {
			t.Fatal(err)
		}
		w.run(time.Minute)
		return id
	}
	id := resolve()
	w.want(w.a, id, Resolved, Gone)
	w.want(w.b, 0, ResolveRequest, Gone)
	e := w.a.the(t, Resolved)
	if e.Path.Remote != (verbs.Endpoint{Addr: addrB, QPN: 0x77, QKey: 0x1234}) || string(e.Private[:7]) != "answer\x00" {
		t.Errorf("%+v", e)
	}
	if e := w.b.the(t, ResolveRequest); e.SrcPort != 77 || string(e.Private[:4]) != "who\x00" || e.Service != udp {
		t.Errorf("%+v", e)
	}

	p.Service++
	id = resolve()
	w.want(w.a, id, Failed, Gone)
	var unresolved *UnresolvedError
	if e := w.a.the(t, Failed); !errors.As(e.Err, &unresolved) || unresolved.Status != mad.SIDRUnsupported {
		t.Error(e.Err)
	}
	w.loss = 100
	id = resolve()
	w.want(w.a, id, Failed, Gone)
}

// An application that does not answer a resolution, and one that refuses.
func TestResolveRefused(t *testing.T) {
	w := newWorld(t, 1, nil)
	if err := w.b.Listen(udp, 1); err != nil {
		t.Fatal(err)
	}
	p := ResolveParams{Local: addrA, Peer: addrB, Service: udp}
	w.b.auto = false
	id, err := w.a.Resolve(w.now, p)
	if err != nil {
		t.Fatal(err)
	}
	w.run(3 * time.Minute)
	w.want(w.a, id, Failed, Gone)
	if w.a.Len()+w.b.Len() != 0 {
		t.Errorf("left: %d, %d", w.a.Len(), w.b.Len())
	}
	for _, private := range [][]byte{make([]byte, 181), nil} {
		p.Private = private
		if _, err := w.a.Resolve(w.now, p); (err == nil) == (private != nil) {
			t.Errorf("%d bytes of private data: %v", len(private), err)
		}
	}
	w.run(time.Second / 2)
	req := w.b.events[len(w.b.events)-1]
	if err := w.b.Answer(w.now, req.ID, 1, 0, nil); err == nil {
		t.Error("QPN 1 was taken")
	}
	if err := w.b.Reject(w.now, req.ID, []byte("no")); err != nil {
		t.Fatal(err)
	}
	w.run(time.Second / 2)
	last := w.a.events[len(w.a.events)-2]
	var unresolved *UnresolvedError
	if !errors.As(last.Err, &unresolved) || unresolved.Status != mad.SIDRReject || string(unresolved.Private[:3]) != "no\x00" {
		t.Errorf("%v", last.Err)
	}
	if _, err := w.a.Resolve(w.now, ResolveParams{Local: addrA, Peer: addr6B}); err == nil {
		t.Error("two families were taken")
	}
}

// A REP that cannot be used is refused, and the peer is told why.
func TestRefusedREP(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(mad.REP)
		want   mad.Reason
	}{
		{"QPN 0", func(r mad.REP) { r.SetQPN(0) }, mad.ReasonUnsupported},
		{"129 outstanding READs", func(r mad.REP) { r.SetInitiatorDepth(129) }, mad.ReasonResponderResources},
		{"queue pair of another connection", func(r mad.REP) { r.SetQPN(0x11) }, mad.ReasonStaleConnection},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, 1, nil)
			w.listen(0)
			w.connect(params()) // with queue pair 0x11 of b
			w.run(time.Second / 2)
			w.a.events = nil
			w.b.Unlisten(service)
			id := w.connect(params())
			rep := mad.NewREP(1, 0x4321, uint32(id))
			rep.SetQPN(0x12)
			rep.SetCAGUID(w.b.cfg.GUID(addrA))
			c.change(rep)
			w.a.Take()
			w.a.Receive(w.now, addrB, addrA, rep.Header, Plain)
			actions := w.a.Take()
			rej, err := mad.ParseREJ(actions[1].(Send).MAD)
			if err != nil || rej.Reason() != c.want || rej.Message() != mad.KindREP || rej.RemoteCommID() != 0x4321 {
				t.Errorf("%v, %v; want %v", rej.Reason(), err, c.want)
			}
			e := actions[0].(Event)
			if e.Kind != Failed || !errors.Is(e.Err, ErrReply) && !errors.Is(e.Err, ErrStale) {
				t.Errorf("event %v, %v", e.Kind, e.Err)
			}
		})
	}
}
