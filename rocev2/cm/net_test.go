// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"

	"github.com/softroce/softroce-xdp/rocev2/mad"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

const (
	second  = int64(time.Second)
	service = mad.ServiceID(0x01060000 | 7174) // TCP port 7174
	udp     = mad.ServiceID(0x01110000 | 7174)
)

var (
	addrA, addrB = netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	addr6A       = netip.MustParseAddr("fd00::1")
	addr6B       = netip.MustParseAddr("fd00::2")
)

// host is a manager with what its application was told.
type host struct {
	*Manager
	events []Event
	auto   bool // answers requests and replies at once
	nextQP uint32
}

// tester is what *testing.T and *rapid.T share.
type tester interface {
	Helper()
	Errorf(format string, args ...any)
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// world is two hosts on virtual time and the messages between them.
type world struct {
	t      tester
	now    int64
	a, b   *host
	flying []flight
	rand   *rand.Rand

	loss, dup, late int   // percent
	proof           Proof // proof carried by all messages
}

// always is that of a manager that works alone.
func always() bool { return true }

type flight struct {
	at int64
	Send
}

func newWorld(t tester, seed uint64, change func(*Config)) *world {
	w := &world{t: t, now: second, proof: Plain, rand: rand.New(rand.NewPCG(seed, 1))}
	for _, h := range []**host{&w.a, &w.b} {
		c := Config{Rand: w.rand.Uint32, Alone: always}
		if change != nil {
			change(&c)
		}
		*h = &host{Manager: New(c), auto: true, nextQP: 0x10}
	}
	return w
}

func (w *world) host(a netip.Addr) *host {
	if a == addrA || a == addr6A {
		return w.a
	}
	return w.b
}

// carry takes what the managers want done: messages fly, events reach the application.
func (w *world) carry() {
	for again := true; again; {
		again = false
		for _, h := range []*host{w.a, w.b} {
			for _, action := range h.Take() {
				again = true
				switch x := action.(type) {
				case Send:
					w.fly(x)
				case Event:
					h.events = append(h.events, x)
					if h.auto {
						w.serve(h, x)
					}
				}
			}
		}
	}
}

func (w *world) fly(s Send) {
	copies := 1
	if w.rand.IntN(100) < w.loss {
		copies = 0
	} else if w.rand.IntN(100) < w.dup {
		copies = 2
	}
	for range copies {
		delay := int64(50_000)
		if w.rand.IntN(100) < w.late {
			delay += w.rand.Int64N(3 * second)
		}
		w.flying = append(w.flying, flight{w.now + delay, s})
	}
}

// serve is an application that agrees to everything.
func (w *world) serve(h *host, e Event) {
	var err error
	switch e.Kind {
	case Request:
		h.nextQP++
		e.Path.Local.QPN, e.Path.Remote.PSN = h.nextQP, 0x222222
		err = h.Accept(w.now, e.ID, e.Path, []byte("accepted"))
	case Reply:
		err = h.Ready(w.now, e.ID, []byte("ready"))
	case ResolveRequest:
		err = h.Answer(w.now, e.ID, 0x77, 0x1234, []byte("answer"))
	}
	if err != nil {
		w.t.Fatalf("%s: %v", e.Kind, err)
	}
}

// step goes to the next thing that happens, if that is not after until.
func (w *world) step(until int64) bool {
	w.carry()
	next := until + 1
	for _, f := range w.flying {
		next = min(next, f.at)
	}
	for _, h := range []*host{w.a, w.b} {
		if at, ok := h.Next(); ok {
			next = min(next, at)
		}
	}
	if next > until {
		w.now = max(w.now, until)
		return false
	}
	w.now = max(w.now, next)
	for _, h := range []*host{w.a, w.b} {
		h.Expire(w.now)
	}
	if i := slices.IndexFunc(w.flying, func(f flight) bool { return f.at <= w.now }); i >= 0 {
		f := w.flying[i]
		w.flying = slices.Delete(w.flying, i, i+1)
		w.host(f.Peer).Receive(w.now, f.Local, f.Peer, f.MAD, w.proof)
	}
	w.carry()
	return true
}

// run lets time pass. It fails if more happens than can.
func (w *world) run(d time.Duration) {
	w.t.Helper()
	until := w.now + int64(d)
	for range 1_000_000 {
		if !w.step(until) {
			return
		}
	}
	w.t.Fatal("it does not come to rest")
}

// params are for a connection from a to b.
func params() ConnectParams {
	a := verbs.DefaultAttr()
	a.MaxRdAtomic, a.MaxDestRdAtomic = 4, 8
	return ConnectParams{
		Local: addrA, Peer: addrB, Service: service, SrcPort: 5555, QPN: 0x55, PSN: 0x111111, Attr: a,
		Private: []byte("hello"),
	}
}

// connect has a connect to b, which listens, and returns a's ID.
func (w *world) connect(p ConnectParams) ID {
	w.t.Helper()
	id, err := w.a.Connect(w.now, p)
	if err != nil {
		w.t.Fatal(err)
	}
	return id
}

func (w *world) listen(backlog int) {
	w.t.Helper()
	if err := w.b.Listen(service, backlog); err != nil {
		w.t.Fatal(err)
	}
}

// kinds are the events of an ID in order, or of all for 0.
func (h *host) kinds(id ID) (k []Kind) {
	for _, e := range h.events {
		if id == 0 || e.ID == id {
			k = append(k, e.Kind)
		}
	}
	return k
}

// the returns the only event of a kind.
func (h *host) the(t tester, k Kind) Event {
	t.Helper()
	var found []Event
	for _, e := range h.events {
		if e.Kind == k {
			found = append(found, e)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d events %s, want 1; all: %v", len(found), k, h.kinds(0))
	}
	return found[0]
}

func (w *world) want(h *host, id ID, kinds ...Kind) {
	w.t.Helper()
	if got := h.kinds(id); !slices.Equal(got, kinds) {
		w.t.Errorf("events %v, want %v", got, kinds)
	}
}
