// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"errors"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/rocev2/mad"
)

// replacing is a REQ from the queue pair of a connection of h: what a restarted peer sends, or a forger who knows GUID
// and QPN.
func replacing(t *testing.T, c *conn, id uint32) mad.REQ {
	t.Helper()
	r := request(t)
	r.SetLocalCommID(id)
	r.SetCAGUID(c.guid)
	r.SetQPN(c.path.Remote.QPN)
	r.SetPath(c.peer, c.local)
	d, err := mad.IPData{Src: c.peer, Dst: c.local}.Append(nil)
	if err == nil {
		err = r.SetPrivateData(d)
	}
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// connectedWorld has a connection of which h is an end, the passive or the active one.
func connectedWorld(t *testing.T, active bool) (w *world, h *host, c *conn) {
	t.Helper()
	w = newWorld(t, 1, nil)
	w.listen(0)
	if err := w.a.Listen(service, 0); err != nil {
		t.Fatal(err)
	}
	id := w.connect(params())
	w.run(time.Second)
	h = w.b
	if active {
		h = w.a
	} else {
		id = w.b.the(t, Request).ID
	}
	if c = h.conns[id]; c == nil || c.state != StateEstablished {
		t.Fatal("no connection")
	}
	return w, h, c
}

// flood gives an end forged REQs for ten seconds, one every 50 ms.
func (w *world) flood(t *testing.T, h *host, c *conn, p Proof) {
	t.Helper()
	for i := range 200 {
		h.Receive(w.now, c.peer, c.local, replacing(t, c, uint32(0x1000+i)).Header, p)
		w.run(50 * time.Millisecond)
	}
}

// Forged REQs do not end a connection of a peer that is there, whichever end it is, and whether the peer stamps or
// not. Few messages are sent because of them.
func TestForgedStaleREQ(t *testing.T) {
	for _, active := range []bool{false, true} {
		for _, p := range []Proof{Doubtful, Plain} {
			t.Run(p.String(), func(t *testing.T) {
				w, h, c := connectedWorld(t, active)
				w.flood(t, h, c, p)
				if c.state != StateEstablished || slices.Contains(h.kinds(c.id), Disconnected) {
					t.Errorf("active %v: %s, %v", active, c.state, h.kinds(c.id))
				}
				if n := h.Counters(); n.Stale != 200 || n.Asked == 0 || n.Asked > 2*maxAsks {
					t.Errorf("active %v: %+v", active, n)
				}
			})
		}
	}
}

// A peer that has restarted and does not stamp gets its connection: the old one is found to be over, and the repetition
// of the REQ is served.
func TestRestartedPlainPeer(t *testing.T) {
	for name, alone := range map[string]bool{"it answers for unknown connections": true, "it does not": false} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1, nil)
			w.listen(0)
			w.connect(params())
			w.run(time.Second)
			w.a = &host{Manager: New(Config{Rand: w.rand.Uint32, GUID: w.a.cfg.GUID, Alone: func() bool { return alone }}), auto: true}
			again := w.connect(params())
			w.run(10 * time.Second)
			w.want(w.a, again, Reply, Established)
			if e := w.b.the(t, Disconnected); !errors.Is(e.Err, ErrStale) {
				t.Error(e.Err)
			}
		})
	}
}

// A restarted peer of the active end: it answers the DREQ, as it has no such connection.
func TestRestartedPeerOfActiveEnd(t *testing.T) {
	w, h, c := connectedWorld(t, true)
	w.b = &host{Manager: New(Config{Rand: w.rand.Uint32, Alone: always}), auto: true}
	r := replacing(t, c, 7)
	h.Receive(w.now, c.peer, c.local, r.Header, Plain)
	w.run(time.Second)
	if e := h.the(t, Disconnected); e.ID != c.id || !errors.Is(e.Err, ErrStale) {
		t.Errorf("%+v", e)
	}
	h.Receive(w.now, c.peer, c.local, r.Header, Plain)
	w.carry()
	h.the(t, Request)
}

// An encrypted connection outlives REQs that are proven, and a peer that is silent for a while.
func TestStaleREQAndEncryption(t *testing.T) {
	for _, active := range []bool{false, true} {
		w, h, c := connectedWorld(t, active)
		h.SetEncrypted(c.id)
		w.loss = 100
		w.flood(t, h, c, Proven)
		w.run(time.Minute)
		if c.state != StateEstablished {
			t.Errorf("active %v: %s", active, c.state)
		}
	}
	w, h, c := connectedWorld(t, false) // without encryption the first one ends it
	h.Receive(w.now, c.peer, c.local, replacing(t, c, 7).Header, Proven)
	if c.state == StateEstablished {
		t.Error("a proven REQ of a plain connection is not believed")
	}
}

// A request that is forged in the name of a peer does not keep the peer's own request out.
func TestForgedRequestFirst(t *testing.T) {
	w := newWorld(t, 1, nil)
	w.listen(0)
	forged, genuine := request(t), request(t)
	for _, r := range []mad.REQ{forged, genuine} {
		r.SetCAGUID(5)
	}
	w.b.Receive(w.now, addrA, addrB, forged.Header, Doubtful)
	w.carry()
	w.b.Receive(w.now, addrA, addrB, genuine.Header, Proven)
	w.carry()
	if got := w.b.kinds(0); !slices.Equal(got, []Kind{Request, Failed, Request}) {
		t.Errorf("%v", got)
	}
	if n := w.b.Counters().Displaced; n != 1 {
		t.Errorf("%d displaced", n)
	}
	// Of two that nobody can prove, the later one is served when the first one has ended.
	x := newWorld(t, 1, nil)
	x.listen(0)
	x.b.Receive(x.now, addrA, addrB, forged.Header, Plain)
	x.carry()
	x.flying = nil
	served := func() (n int) {
		for _, e := range x.b.events {
			if e.Kind == Request {
				n++
			}
		}
		return n
	}
	for range 8 {
		x.b.Receive(x.now, addrA, addrB, genuine.Header, Plain)
		x.carry()
		if served() == 2 {
			return
		}
		for _, f := range x.flying {
			if rej, err := mad.ParseREJ(f.MAD); err == nil && rej.Reason() == mad.ReasonStaleConnection {
				t.Error("the genuine request is rejected as stale")
			}
		}
		x.flying = nil
		x.now += 1100 * int64(time.Millisecond)
		x.b.Expire(x.now)
	}
	t.Errorf("%d requests, want 2: %v", served(), x.b.kinds(0))
}

// A REQ whose sender has proved nothing causes five REPs and a REJ; that of a proven one as many as it asks for.
func TestREPsBeforeRTU(t *testing.T) {
	for p, want := range map[Proof]int{Doubtful: 5, Plain: 5, Proven: 16} {
		w := newWorld(t, 1, nil)
		w.listen(0)
		r := request(t)
		r.SetMaxRetries(15)
		w.loss = 100
		w.b.Receive(w.now, addrA, addrB, r.Header, p)
		sent := map[mad.Attr]int{}
		for range 40 {
			for _, a := range w.b.Take() {
				switch a := a.(type) {
				case Send:
					sent[a.MAD.Attr()]++
				case Event:
					w.serve(w.b, a)
				}
			}
			for _, a := range w.b.Take() {
				if s, ok := a.(Send); ok {
					sent[s.MAD.Attr()]++
				}
			}
			w.now += second
			w.b.Expire(w.now)
		}
		if sent[mad.AttrREP] != want || sent[mad.AttrREJ] != 1 || len(sent) != 2 {
			t.Errorf("%s: %v", p, sent)
		}
	}
}

// Each peer knows this end by another GUID, always the same.
func TestGUIDs(t *testing.T) {
	m := New(Config{})
	guid := func(peer netip.Addr) uint64 {
		p := params()
		p.Local, p.Peer = addrB, peer
		if _, err := m.Connect(second, p); err != nil {
			t.Fatal(err)
		}
		for _, a := range m.Take() {
			if s, ok := a.(Send); ok {
				return mad.REQ{Header: s.MAD}.CAGUID()
			}
		}
		return 0
	}
	a, b := guid(addrA), guid(netip.MustParseAddr("10.0.0.3"))
	if a == 0 || b == 0 || a == b || guid(addrA) != a {
		t.Errorf("%x, %x, %x", a, b, guid(addrA))
	}
}
