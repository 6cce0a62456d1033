// SPDX-License-Identifier: Apache-2.0

package ooo_test

import (
	"slices"
	"testing"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/ooo"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/testenv/wiretest"
)

// A target answers the packets that it has taken at once. An OACK that a later one of the same path contains
// is not sent. The source knows of all packets that have arrived, and of no other.
func TestOAckPerPath(t *testing.T) {
	const packets = 40 // of one message, on several paths
	for name, c := range map[string]struct {
		arrive func(p []rocev2.Packet) []rocev2.Packet // selects the packets that arrive, and their order
		first  rocev2.PSN
		oacks  func(p []rocev2.Packet) int
	}{
		"in order":          {slices.Clone[[]rocev2.Packet], 0, paths},
		"the first is lost": {func(p []rocev2.Packet) []rocev2.Packet { return p[1:] }, 0, paths},
		"the first is lost, and the bitmaps have 64 packets": {
			func(p []rocev2.Packet) []rocev2.Packet { return p[1:] }, 62, // one path has packets on both sides of 64
			func(p []rocev2.Packet) int { return paths(p) + 1 },
		},
		"each is overtaken": {reversed, 0, func(p []rocev2.Packet) int { return len(p) }},
		"each comes twice":  {twice, 0, func(p []rocev2.Packet) int { return paths(p) + len(p) }},
	} {
		e := newEnds(t, packets, func(cfg *ooo.Config) { cfg.SendPSN, cfg.RecvPSN = c.first, c.first })
		e.post(t)
		requests := send(e.qps[0], e.now)
		if len(requests) != packets || paths(requests) > packets/3 {
			t.Fatalf("%s: %d packets on %d paths", name, len(requests), paths(requests))
		}
		arrived := c.arrive(requests)
		e.now += 50 * ooo.Microsecond
		for i := range arrived {
			e.qps[1].Receive(e.now, &arrived[i], 0)
		}
		answers := send(e.qps[1], e.now)
		if want := c.oacks(requests); len(answers) != want {
			t.Errorf("%s: %d OACKs, want %d", name, len(answers), want)
		}
		for i := range answers {
			e.qps[0].Receive(e.now, &answers[i], 0)
		}
		want := map[rocev2.PSN]bool{}
		for i := range arrived {
			want[arrived[i].BTH().PSN()] = true
		}
		if got := e.count[0].Answered; got != uint64(len(want)) {
			t.Errorf("%s: the source knows of %d packets, %d have arrived", name, got, len(want))
		}
	}
}

// The OACK of a packet that was sent again is always sent: its echo tells which one has arrived.
func TestOAckOfRetransmission(t *testing.T) {
	e := newEnds(t, 8, func(c *ooo.Config) { c.Paths = 1 })
	e.post(t)
	lost := send(e.qps[0], e.now)
	e.now += 100 * ooo.Millisecond
	var again []rocev2.Packet
	for len(again) < len(lost) { // each time more of them
		e.qps[0].Expire(e.now)
		again = append(again, send(e.qps[0], e.now)...)
		e.now += 100 * ooo.Millisecond
	}
	for i := range again {
		e.qps[1].Receive(e.now, &again[i], 0)
	}
	if n := len(send(e.qps[1], e.now)); n != len(again) {
		t.Errorf("%d OACKs of %d retransmissions", n, len(again))
	}
}

// Packets whose OACK was not sent count for their path all the same: windows grow, and no path is taken for
// one that loses packets.
func TestOAckCountsForPath(t *testing.T) {
	const packets, messages = 64, 10
	e := newEnds(t, packets, func(*ooo.Config) {})
	most := 0
	for range messages {
		e.post(t)
		for left := packets; left > 0; {
			requests := e.trip(50 * ooo.Microsecond)
			most = max(most, len(requests)/paths(requests))
			left -= len(requests)
		}
	}
	if c := e.count[0]; c.Answered != messages*packets || c.Resent+c.PathsReplaced != 0 {
		t.Errorf("nothing was lost: %+v", c)
	}
	if most < 12 {
		t.Errorf("at most %d packets of a path at once: its window does not grow", most)
	}
}

// A queue delays all packets, also those that one OACK answers: the windows shrink.
func TestOAckShowsQueueing(t *testing.T) {
	e := newEnds(t, 64, func(*ooo.Config) {})
	// last returns how many packets leave at once in the last one of some trips.
	last := func(trips int, rtt ooo.Time) (n int) {
		for range trips {
			for e.qps[0].Post(e.request(0, verbs.OpWrite)) == nil { // there is always more to send
			}
			n = len(e.trip(rtt))
		}
		return n
	}
	free := last(40, 50*ooo.Microsecond)
	full := last(40, 500*ooo.Microsecond)
	if full > free/4 {
		t.Errorf("%d packets at once without a queue, %d with one", free, full)
	}
	if c := e.count[0]; c.Resent+c.PathsReplaced != 0 {
		t.Errorf("nothing was lost: %+v", c)
	}
}

// A packet that the OACK of another path has answered counts once for the window of its path, though its own
// OACK comes later.
func TestOAckCountsOnce(t *testing.T) {
	const packets = 6 // fewer than a round has
	e := newEnds(t, packets, func(c *ooo.Config) { c.Paths = 2 })
	e.post(t)
	for range packets { // at different moments, so that they take both paths
		e.now += ooo.Microsecond
		e.qps[1].Receive(e.now, sendOn(e.qps[0], e.now, 0), 0)
	}
	e.now += 50 * ooo.Microsecond
	answers := send(e.qps[1], e.now)
	if len(answers) < 2 || paths(answers) != 2 {
		t.Fatalf("%d OACKs by %d paths", len(answers), paths(answers))
	}
	for i := range answers { // the last one contains all packets
		e.qps[0].Receive(e.now, &answers[len(answers)-1-i], 0)
	}
	if n := e.qps[0].RoundSamples(); n != packets {
		t.Errorf("%d answers to %d packets", n, packets)
	}
}

// paths returns how many paths packets have taken.
func paths(p []rocev2.Packet) int {
	ports := map[uint16]bool{}
	for i := range p {
		ports[p[i].SrcPort()] = true
	}
	return len(ports)
}

func reversed(p []rocev2.Packet) []rocev2.Packet {
	p = slices.Clone(p)
	slices.Reverse(p)
	return p
}

func twice(p []rocev2.Packet) []rocev2.Packet { return append(slices.Clone(p), p...) }

// ends are two queue pairs whose packets a test moves by itself.
type ends struct {
	qps    [2]*ooo.QP
	count  [2]ooo.Counters
	memory [2]*wiretest.Region
	now    ooo.Time
}

// newEnds makes them, for messages of so many packets. change changes the configuration of both.
func newEnds(t *testing.T, packets int, change func(*ooo.Config)) *ends {
	t.Helper()
	e := &ends{now: ooo.Millisecond}
	for i := range e.qps {
		memory := &wiretest.Memory{}
		e.memory[i] = memory.Register(0, packets*rocev2.PMTU1024.Bytes(), verbs.AccessLocalWrite|verbs.AccessRemoteWrite|verbs.AccessRemoteRead)
		var err error
		c := ooo.Config{QPN: uint32(1 + i), PeerQPN: uint32(2 - i), PMTU: rocev2.PMTU1024, Memory: memory, Count: &e.count[i]}
		change(&c)
		if e.qps[i], err = ooo.New(c); err != nil {
			t.Fatal(err)
		}
	}
	return e
}

// request returns a message between the memory of a side and that of the other one.
func (e *ends) request(side int, op verbs.Op) *ooo.Request {
	here, there := e.memory[side], e.memory[1-side]
	return &ooo.Request{
		Op: op, Local: verbs.SGE{Addr: here.Addr, Len: uint32(len(here.Data)), LKey: here.Key}, RemoteAddr: there.Addr, RKey: there.Key,
	}
}

// post posts a WRITE at side 0.
func (e *ends) post(t *testing.T) {
	t.Helper()
	if err := e.qps[0].Post(e.request(0, verbs.OpWrite)); err != nil {
		t.Fatal(err)
	}
}

// trip sends what side 0 may send now, and its answers come together after this time.
func (e *ends) trip(rtt ooo.Time) (requests []rocev2.Packet) {
	requests = send(e.qps[0], e.now)
	e.now += rtt
	for i := range requests {
		e.qps[1].Receive(e.now, &requests[i], 0)
	}
	answers := send(e.qps[1], e.now)
	for i := range answers {
		e.qps[0].Receive(e.now, &answers[i], 0)
	}
	e.qps[0].Expire(e.now)
	return requests
}
