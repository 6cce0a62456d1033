// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"errors"
	"net/netip"
	"slices"
	"testing"

	"github.com/softroce/softroce-xdp/cc/precredit"
	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/creditwire"
	"github.com/softroce/softroce-xdp/rocev2/qp"
	"github.com/softroce/softroce-xdp/rocev2/seal"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// testEntry is an entry whose next packet may leave at a time. Each packet takes as long.
type testEntry struct {
	at, each qp.Time
	token    uint64 // token of stamps; 0: the peer understands none
	waited   []qp.Time
	sizes    []int
}

func (e *testEntry) ID() uint32                        { return 0 }
func (e *testEntry) Rate() uint64                      { return 1e9 }
func (e *testEntry) Wait(now qp.Time) qp.Time          { return e.at - now }
func (e *testEntry) Proof(qp.Time, *rocev2.Stamp) bool { return false }
func (e *testEntry) Understands() (stamps, credit bool) {
	return e.token != 0, false
}

func (e *testEntry) Charge(now qp.Time, _ int, waited qp.Time, _ bool) {
	e.at, e.waited = max(e.at, now)+e.each, append(e.waited, waited)
}

func (e *testEntry) Stamp(now qp.Time, size, _ int, s *rocev2.Stamp) bool {
	e.sizes = append(e.sizes, size)
	s.Flags, s.T1, s.Token = rocev2.StampT1, uint64(now), e.token
	return e.token != 0
}

// capture is a port that keeps what is pushed.
type capture struct {
	memoryPort
	frames [][]byte
}

// Push implements Port.
func (c *capture) Push(n int) { c.frames = append(c.frames, append([]byte(nil), c.frame[:n]...)) }

// entryHandle returns a handle for a destination with an entry, by a port of its path.
func entryHandle(e *Core, port Port, entry Entry) *testAH {
	dst := netip.AddrFrom4([4]byte{10, 77, 0, 99})
	return openAH(e, fixed(PathState{Src: us, Dst: dst, Ether: [14]byte{12: 8}, MTU: 1500, PMTU: rocev2.PMTU1024, Port: port, Entry: entry}))
}

// A destination with an entry is paced and stamped by the entry, to the nanosecond, and no report of it is made.
func TestEntryPacesAndStamps(t *testing.T) {
	e := bench(t)
	port, entry := &capture{memoryPort: memoryPort{free: 64}}, &testEntry{at: 1e9 + 100, each: 777, token: 5}
	to := entryHandle(e, port, entry)
	x := datagrams(t, e)
	for range 3 {
		x.postTo(t, to)
	}
	e.tx.markDirty(x)
	var left []qp.Time
	for now := qp.Time(1e9); now != never; now = e.Deadline(now, never) {
		e.Begin(now)
		before := len(port.frames)
		e.Run(false)
		for range port.frames[before:] {
			left = append(left, now)
		}
		if e.ReportsDue(0) {
			t.Fatal("a destination with an entry is reported")
		}
	}
	if len(left) != 3 || left[0] != 1e9+100 || left[1] != left[0]+777 || left[2] != left[1]+777 {
		t.Errorf("packets leave at %v", left)
	}
	if w := entry.waited; len(w) != 3 || w[0] != 100 || w[1] != 777 || w[2] != 777 {
		t.Errorf("packets have waited %v", w)
	}
	for i, f := range port.frames {
		p, err := rocev2.ParseFrame(f)
		if err != nil {
			t.Fatal(err)
		}
		s, err := p.Stamp()
		if err != nil || s.Token != 5 || s.T1 != uint64(left[i]) || entry.sizes[i] != len(f)-etherLen-rocev2.StampLen {
			t.Errorf("packet %d: stamp %+v (%v), size %d", i, s, err, entry.sizes[i])
		}
	}
}

// A rate that rises releases what waits at the next Run, before the time of the old rate.
func TestEntryRateChanges(t *testing.T) {
	e := bench(t)
	port, entry := &capture{memoryPort: memoryPort{free: 64}}, &testEntry{at: 1 << 60}
	to := entryHandle(e, port, entry)
	x := datagrams(t, e)
	x.postTo(t, to)
	e.tx.markDirty(x)
	e.Begin(1e9)
	e.Run(false)
	if at := e.Deadline(1e9, never); len(port.frames) != 0 || at != 1<<60 {
		t.Errorf("%d packets have left; the next is due at %d", len(port.frames), at)
	}
	if to.address.dest.waits(e.now) {
		t.Error("NAKs to a paced destination wait")
	}
	entry.at = 0
	e.Run(false)
	if len(port.frames) != 1 {
		t.Error("the packet still waits")
	}
}

// Paths to one address with different entries lead to different destinations, which are gone with their last user.
func TestEntriesOfOneAddress(t *testing.T) {
	e := bench(t)
	port := &capture{}
	first, second := &testEntry{}, &testEntry{}
	a, b, c := entryHandle(e, port, first), entryHandle(e, port, second), entryHandle(e, port, first)
	if a.address.dest == b.address.dest || a.address.dest != c.address.dest || len(e.dests.entries) != 2 {
		t.Errorf("%d destinations, want 2", len(e.dests.entries))
	}
	for _, h := range []*testAH{a, b, c} {
		e.Close(&h.address)
	}
	if len(e.dests.entries) != 0 {
		t.Errorf("%d destinations are left", len(e.dests.entries))
	}
}

// A destination that waits for its entry is forgotten with its last user.
func TestEntryClosedWhileItWaits(t *testing.T) {
	e := bench(t)
	entry := &testEntry{at: 1 << 60}
	to := entryHandle(e, &capture{memoryPort: memoryPort{free: 64}}, entry)
	x := datagrams(t, e)
	x.postTo(t, to)
	e.tx.markDirty(x)
	e.Begin(1e9)
	e.Run(false)
	e.Close(&to.address)
	for range 4 { // the message is lost: it has no address any more
		e.Begin(e.now + 1)
		e.Run(false)
	}
	if at := e.Deadline(e.now, never); at != never || len(e.dests.waiting) != 0 || x.q.SendQueued() != 0 {
		t.Errorf("deadline %d, %d destinations wait, %d messages queued", at, len(e.dests.waiting), x.q.SendQueued())
	}
}

// A queue pair has the number that the program has chosen, once.
func TestChosenNumber(t *testing.T) {
	e := bench(t)
	make := func(n uint32) (*QP, error) {
		x, cq := &QP{}, &testCQ{e: e}
		return x, e.AddQP(x, QPConfig{Config: qp.Config{QPN: n, Type: verbs.UD, SendCQ: cq, RecvCQ: cq, MaxSend: 1}})
	}
	x, err := make(7)
	if err != nil || x.QPN() != 7 || e.qps.Lookup(7) != x {
		t.Fatalf("number %d: %v", x.QPN(), err)
	}
	if _, err := make(7); !errors.Is(err, verbs.ErrTooMany) {
		t.Errorf("a second queue pair 7: %v", err)
	}
	e.RemoveQP(x)
	if _, err := make(7); err != nil {
		t.Errorf("7 again: %v", err)
	}
}

// What has waited and is lost does not count for a message that is posted later.
func TestEntryWaitOfLostMessage(t *testing.T) {
	for _, released := range []bool{false, true} {
		e := bench(t)
		entry := &testEntry{at: 1 << 60}
		to := entryHandle(e, &capture{memoryPort: memoryPort{free: 64}}, entry)
		lost, later := datagrams(t, e), datagrams(t, e)
		lost.postTo(t, to)
		e.tx.markDirty(lost)
		e.Begin(1e9)
		e.Run(false)
		if e.Begin(2e9); released {
			entry.at = 0
			e.dests.releaseEntries()
		}
		e.RemoveQP(lost)
		entry.at = 0
		e.Run(false)
		later.postTo(t, to)
		e.tx.markDirty(later)
		e.Begin(3e9)
		e.Run(false)
		if w := entry.waited; len(w) != 1 || w[0] != 0 {
			t.Errorf("released %v: packets have waited %v", released, w)
		}
	}
}

// peerOrder notes the order of calls of onPeer.
type peerOrder struct {
	noHooks
	peers []*dest
}

func (o *peerOrder) onPeer(d *dest, _ *DestSync) { o.peers = append(o.peers, d) }

// Entries are asked in the order of their first use, each time.
func TestEntriesChangedInOrder(t *testing.T) {
	e := bench(t)
	var handles []*testAH
	for range 20 {
		handles = append(handles, entryHandle(e, &capture{}, &testEntry{}))
	}
	e.Close(&handles[7].address)
	handles = slices.Delete(handles, 7, 8)
	o := &peerOrder{}
	e.hooks = o
	e.EntriesChanged()
	if len(o.peers) != len(handles) {
		t.Fatalf("%d entries were asked, want %d", len(o.peers), len(handles))
	}
	for i, h := range handles {
		if o.peers[i] != h.address.dest {
			t.Errorf("entry %d is not asked in its turn", i)
		}
	}
}

// The longest frame fits into a quantum: each queue pair sends one packet at least in its turn.
func TestEntryQuantum(t *testing.T) {
	if longest := etherLen + 4096 + rocev2.PMTUOverhead + seal.Overhead; entryQuantum < longest {
		t.Errorf("the quantum has %d bytes, the longest frame %d", entryQuantum, longest)
	}
}

// numbered is an entry that has a number.
type numbered struct{ testEntry }

func (*numbered) ID() uint32 { return 7 }

// A node without queue pairs may get another address, and keeps its account.
func TestEntryPeerMoves(t *testing.T) {
	e := bench(t)
	e.UsePreCredit(PreCredit{Frames: 64})
	c, entry := e.hooks.(*credits), &numbered{}
	at := func(last byte) *dest { return &dest{addr: netip.AddrFrom4([4]byte{10, 0, 0, last}), entry: entry} }
	first, second := at(1), at(2)
	p := c.peerOf(first)
	if p.dest = first; c.peerOf(second) != nil {
		t.Error("a node with queue pairs has two addresses")
	}
	if p.dest = nil; c.peerOf(second) != p || c.peers[second.addr] != p || c.peers[first.addr] != nil {
		t.Errorf("after the node has moved: peers %v", c.peers)
	}
}

// A grant of a node comes to any address that its queue pairs have here: the latest one is that of all messages.
func TestEntryGrantAddress(t *testing.T) {
	e := bench(t)
	e.UsePreCredit(PreCredit{Frames: 64})
	c := e.hooks.(*credits)
	d := &dest{addr: netip.AddrFrom4([4]byte{10, 0, 0, 1}), entry: &numbered{}, flight: qp.NewFlight()}
	p := c.peerOf(d)
	p.dest, d.credit, p.lastSrc = d, p, netip.AddrFrom4([4]byte{10, 0, 0, 9})
	x := &QP{egress: egress{src: us}, credit: &creditFlow{}}
	x.credit.Data, p.last.Path = x, fixed(PathState{Err: errors.New("no route")})
	p.Connect(&x.credit.Flow)
	p.TurnOn()
	var o rocev2.Datagram
	creditwire.PutGrant(&o, precredit.Grant{Epoch: 1, Seq: 1, Limit: 1000, LifeNs: 1e9})
	o.Src, o.Dst = d.addr, p.lastSrc
	b, err := o.AppendTo(make([]byte, etherLen))
	if err != nil {
		t.Fatal(err)
	}
	b[12] = 8 // IPv4
	pkt, err := rocev2.ParseFrame(b)
	if err != nil {
		t.Fatal(err)
	}
	if c.onControl(pkt, Meta{Proven: true}); c.end.Counts.Ignored != 0 {
		t.Errorf("%d messages ignored", c.end.Counts.Ignored)
	}
}
