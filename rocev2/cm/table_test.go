// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/internal/texts"
	"github.com/softroce/softroce-xdp/rocev2/mad"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// led is a connection in a state, at the end that the table shows.
type led struct {
	name string
	lead func(w *world) (*host, ID)
}

// states lead to every state by the shortest path. Where the ends differ, both are shown.
var states = []led{
	{"REQ Sent", func(w *world) (*host, ID) { return w.a, w.connect(params()) }},
	{"REP Rcvd", func(w *world) (*host, ID) { w.a.auto = false; return w.a, w.half() }},
	{"REQ Rcvd", func(w *world) (*host, ID) { w.b.auto = false; w.half(); return w.b, w.b.the(w.t, Request).ID }},
	{"REP Sent", func(w *world) (*host, ID) { w.a.auto = false; w.half(); return w.b, w.b.the(w.t, Request).ID }},
	{"Established, active", func(w *world) (*host, ID) { return w.a, w.half() }},
	{"Established, passive", func(w *world) (*host, ID) { w.half(); return w.b, w.b.the(w.t, Request).ID }},
	{"Established, active, peer asked", func(w *world) (*host, ID) { id := w.half(); w.ask(w.a, id); return w.a, id }},
	{"Established, passive, peer asked", func(w *world) (*host, ID) {
		w.half()
		id := w.b.the(w.t, Request).ID
		w.ask(w.b, id)
		return w.b, id
	}},
	{"DREQ Sent", func(w *world) (*host, ID) { id := w.half(); w.must(w.a.Disconnect(w.now, id, nil)); return w.a, id }},
	{"Timewait, active", func(w *world) (*host, ID) { id := w.half(); w.over(id); return w.a, id }},
	{"Timewait, passive", func(w *world) (*host, ID) {
		id := w.half()
		w.over(id)
		return w.b, w.b.the(w.t, Request).ID
	}},
	{"Answered, active", func(w *world) (*host, ID) {
		id := w.connect(params())
		w.must(w.a.Disconnect(w.now, id, nil))
		return w.a, id
	}},
	{"Answered, passive", func(w *world) (*host, ID) {
		w.b.auto = false
		w.half()
		id := w.b.the(w.t, Request).ID
		w.must(w.b.Reject(w.now, id, nil))
		return w.b, id
	}},
	{"SIDR Sent", func(w *world) (*host, ID) { return w.a, w.resolve() }},
	{"SIDR Rcvd", func(w *world) (*host, ID) { w.b.auto = false; return w.b, w.resolved() }},
	{"Answered, SIDR", func(w *world) (*host, ID) { return w.b, w.resolved() }},
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// half connects a to b as far as their applications let them.
func (w *world) half() ID {
	w.t.Helper()
	w.listen(0)
	id := w.connect(params())
	w.run(time.Second / 2)
	return id
}

// ask has an end ask its peer whether it has the connection.
func (w *world) ask(h *host, id ID) {
	w.t.Helper()
	c := h.conns[id]
	if v := h.replaces(w.now, c, Plain); v != verdictDrop || c.asked == 0 {
		w.t.Fatalf("verdict %d, asked %d times", v, c.asked)
	}
	h.Take()
}

func (w *world) over(id ID) {
	w.t.Helper()
	w.must(w.a.Disconnect(w.now, id, nil))
	w.run(time.Second / 2)
}

func (w *world) resolve() ID {
	w.t.Helper()
	id, err := w.a.Resolve(w.now, ResolveParams{Local: addrA, Peer: addrB, Service: udp})
	w.must(err)
	return id
}

// resolved is resolve with a listener, whose request of b it returns.
func (w *world) resolved() ID {
	w.t.Helper()
	w.must(w.b.Listen(udp, 0))
	w.resolve()
	w.run(time.Second / 2)
	return w.b.the(w.t, ResolveRequest).ID
}

// replace gives an end a REQ for a new connection from the queue pair of its peer. The table shows the
// Request of a new connection as an event.
func replace(w *world, h *host, c *conn, p Proof) bool {
	if c.path.Type == verbs.UD || h.byQP[c.qpKey()] != c {
		return false
	}
	_ = h.Listen(service, 0)
	r := mad.NewREQ(1)
	r.SetLocalCommID(0xCAFE)
	r.SetServiceID(service)
	r.SetCAGUID(c.guid)
	r.SetQPN(c.path.Remote.QPN)
	r.SetPMTU(c.path.Attr.PMTU)
	r.SetPath(c.peer, c.local)
	d, err := mad.IPData{Src: c.peer, Dst: c.local}.Append(nil)
	w.must(err)
	w.must(r.SetPrivateData(d))
	h.Receive(w.now, c.peer, c.local, r.Header, p)
	return true
}

// input is something that may happen in a state; it reports false if it cannot be.
type input struct {
	name  string
	apply func(w *world, h *host, c *conn) bool
}

// message is an input from the peer.
func message(name string, build func(c *conn, remote uint32) mad.Header) input {
	return input{name, func(w *world, h *host, c *conn) bool {
		remote := c.remote
		if remote == 0 {
			remote = 0xBEEF
		}
		msg := build(c, remote)
		if msg == nil || strings.HasPrefix(msg.Attr().String(), "SIDR") != (c.path.Type == verbs.UD) {
			return false // it does not belong to the connection
		}
		h.Receive(w.now, c.peer, c.local, msg, Plain)
		return true
	}}
}

func call(name string, f func(w *world, h *host, c *conn) error) input {
	return input{name, func(w *world, h *host, c *conn) bool { return f(w, h, c) == nil }}
}

var inputs = []input{
	message("REQ again", func(c *conn, remote uint32) mad.Header {
		if c.active {
			return nil
		}
		r := mad.NewREQ(c.tid)
		r.SetLocalCommID(remote)
		r.SetCAGUID(c.guid)
		return r.Header
	}),
	{"REQ from its queue pair, plain", func(w *world, h *host, c *conn) bool { return replace(w, h, c, Plain) }},
	{"REQ from its queue pair, proven", func(w *world, h *host, c *conn) bool { return replace(w, h, c, Proven) }},
	message("REP", func(c *conn, remote uint32) mad.Header {
		m := mad.NewREP(c.tid, remote, uint32(c.id))
		m.SetQPN(0x77)
		return m.Header
	}),
	message("RTU", func(c *conn, remote uint32) mad.Header { return mad.NewRTU(c.tid, remote, uint32(c.id)).Header }),
	message("MRA of REQ", func(c *conn, remote uint32) mad.Header {
		return mad.NewMRA(c.tid, remote, uint32(c.id), mad.KindREQ).Header
	}),
	message("MRA of REP", func(c *conn, remote uint32) mad.Header {
		return mad.NewMRA(c.tid, remote, uint32(c.id), mad.KindREP).Header
	}),
	message("REJ of REQ", func(c *conn, remote uint32) mad.Header {
		return mad.NewREJ(c.tid, remote, uint32(c.id), mad.KindREQ, mad.ReasonConsumer).Header
	}),
	message("REJ, other", func(c *conn, remote uint32) mad.Header {
		return mad.NewREJ(c.tid, remote, uint32(c.id), mad.KindOther, mad.ReasonTimeout).Header
	}),
	message("DREQ", func(c *conn, remote uint32) mad.Header {
		return mad.NewDREQ(c.tid, remote, uint32(c.id), c.path.Local.QPN).Header
	}),
	message("DREP", func(c *conn, remote uint32) mad.Header { return mad.NewDREP(c.tid, remote, uint32(c.id)).Header }),
	message("SIDR_REQ again", func(c *conn, remote uint32) mad.Header {
		if c.active {
			return nil
		}
		return mad.NewSIDRREQ(c.tid, remote, udp).Header
	}),
	message("SIDR_REP", func(c *conn, _ uint32) mad.Header {
		m := mad.NewSIDRREP(c.tid, uint32(c.id), mad.SIDRSuccess, udp)
		m.SetQP(0x77, 5)
		return m.Header
	}),
	{"timer", func(w *world, h *host, c *conn) bool {
		if c.timerAt == 0 {
			return false
		}
		h.Expire(c.timerAt)
		return true
	}},
	{"last timer", func(w *world, h *host, c *conn) bool {
		switch c.state {
		case StateREQSent, StateREPSent, StateDREQSent, StateSIDRSent:
		default:
			return false
		}
		c.repeats = 0
		h.Expire(c.timerAt)
		return true
	}},
	call("Accept", func(w *world, h *host, c *conn) error {
		p := c.path
		p.Local.QPN = 0x99
		return h.Accept(w.now, c.id, p, nil)
	}),
	call("Ready", func(w *world, h *host, c *conn) error { return h.Ready(w.now, c.id, nil) }),
	call("Answer", func(w *world, h *host, c *conn) error { return h.Answer(w.now, c.id, 0x99, 1, nil) }),
	call("Reject", func(w *world, h *host, c *conn) error { return h.Reject(w.now, c.id, nil) }),
	call("Disconnect", func(w *world, h *host, c *conn) error { return h.Disconnect(w.now, c.id, nil) }),
	{"unreachable", func(w *world, h *host, c *conn) bool {
		h.Unreachable(c.local, c.peer, errors.New("no neighbour"))
		return true
	}},
	{"Arrived", func(w *world, h *host, c *conn) bool { h.Arrived(c.id); return true }},
}

// row applies an input to a fresh connection in a state and tells what came of it; ok is false if
// the input does not exist there or changes and sends nothing.
func row(t *testing.T, l led, in input) (text string, ok bool) {
	t.Helper()
	w := newWorld(t, 1, nil)
	h, id := l.lead(w)
	h.Take()
	c := h.conns[id]
	if c == nil {
		t.Fatalf("%s: there is no connection", l.name)
	}
	if name, _, _ := strings.Cut(l.name, ","); c.state.String() != name {
		t.Fatalf("%s: it is in %s", l.name, c.state)
	}
	before, at := c.state, c.timerAt
	if !in.apply(w, h, c) {
		return "", false
	}
	var sends, events []string
	for _, a := range h.Take() {
		switch a := a.(type) {
		case Send:
			sends = append(sends, sent(a.MAD))
		case Event:
			events = append(events, happened(a))
		}
	}
	next := c.state.String()
	if h.conns[id] == nil {
		next = "none"
	}
	if c.state == before && h.conns[id] != nil && len(sends)+len(events) == 0 && c.timerAt == at {
		return "", false
	}
	return fmt.Sprintf("| %s | %s | %s | %s | %s |\n", l.name, in.name, next, strings.Join(sends, ", "), strings.Join(events, ", ")), true
}

// sent names a message, a REJ with its reason.
func sent(h mad.Header) string {
	if r, err := mad.ParseREJ(h); err == nil {
		return fmt.Sprintf("REJ (%s)", r.Reason())
	}
	return h.Attr().String()
}

func happened(e Event) string {
	if e.Err == nil {
		return e.Kind.String()
	}
	return fmt.Sprintf("%s (%s)", e.Kind, strings.TrimPrefix(e.Err.Error(), "cm: "))
}

const tableHead = `# States of a connection

` + "`UPDATE=1 go test ./rocev2/cm -run StateTable`" + ` writes this page: it leads a connection of ` + "`rocev2/cm`" + ` into each state and
notes what follows from each input.
An input that is not listed for a state changes nothing: a message is counted, a call returns an error.
[connections.md](../program/connections.md) describes messages, limits and times.

The states of the active end, which sends the REQ, are REQ Sent, REP Rcvd and Established; those of the passive end
are REQ Rcvd, REP Sent and Established.
"Peer asked" is an established connection whose peer is asked whether it has the connection; a REQ from its queue pair
has led to that.
"timer" stands for the time of the state, "last timer" for that after the last repetition, and "unreachable" for the news
that no message to the peer can be sent.
In "Answered" the application is done with the connection; repeated messages get the same answer.

| state | input | next state | sends | events |
|---|---|---|---|---|
`

// The table of states as text, so that a change is visible in a review.
func TestStateTable(t *testing.T) {
	var b strings.Builder
	b.WriteString(tableHead)
	for _, l := range states {
		for _, in := range inputs {
			if text, ok := row(t, l, in); ok {
				b.WriteString(text)
			}
		}
	}
	const file = "../../docs/reference/connection-states.md"
	page := texts.FitMarkdown(b.String())
	testkit.Golden(t, file, page)
}

// Every state but Established has a timer, so that none lasts for ever.
func TestEveryStateEnds(t *testing.T) {
	shown := map[State]bool{}
	for _, l := range states {
		w := newWorld(t, 1, nil)
		h, id := l.lead(w)
		c := h.conns[id]
		shown[c.state] = true
		if at, ok := h.Next(); c.state != StateEstablished && (!ok || at <= 0 || c.timerAt == 0) {
			t.Errorf("%s: no timer", l.name)
		}
		if c.state == StateEstablished {
			continue
		}
		// Without messages and calls it ends by its timers alone.
		for n := 0; h.conns[id] != nil; n++ {
			if n > 50 {
				t.Fatalf("%s: still in %s after %d timers", l.name, c.state, n)
			}
			h.Expire(c.timerAt)
		}
		if at, ok := h.Next(); ok {
			t.Errorf("%s: a timer at %d is left", l.name, at)
		}
	}
	for s := StateREQSent; s <= StateSIDRRcvd; s++ {
		if !shown[s] {
			t.Errorf("%s is not in the table", s)
		}
	}
}
