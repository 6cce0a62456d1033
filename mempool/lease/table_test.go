// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// S4.1: each node has a lease at the start of each of its own periods.
func TestOwnPeriods(t *testing.T) {
	p := newPool(t, Config{Slabs: 8})
	slow, fast := p.join("slow", time.Second, 2), p.join("fast", 100*time.Millisecond, 2)
	p.until(10*time.Second-1, p.reports(map[NodeID]int{slow.Node: 2, fast.Node: 2}))
	if p.leases[slow.Node] != 10 || p.leases[fast.Node] != 100 {
		t.Errorf("%d leases with a period of 1 s and %d with one of 0.1 s; want 10 and 100", p.leases[slow.Node], p.leases[fast.Node])
	}
}

// S4.2: the lease of the next period follows the need. A node that needs more gets what another one no
// longer needs, after that one has returned it.
func TestLeaseFollowsNeed(t *testing.T) {
	p := newPool(t, Config{Slabs: 8, Grace: time.Second})
	a, b := p.join("a", time.Second, 8), p.join("b", time.Second, 8)
	p.wants(a.Node, 8, 0)
	p.wants(b.Node, 0, 0) // the pool is full
	needs := map[NodeID]int{a.Node: 8, b.Node: 8}
	p.until(time.Second, p.reports(needs))
	p.wants(a.Node, 4, 4)
	list := p.table.Lease(p.now, a.Node)
	p.run(p.table.Return(a.Node, []Slab{list[7].Slab, list[6].Slab}))
	p.wants(a.Node, 4, 2)
	p.until(2500*time.Millisecond, p.reports(needs)) // the rest is closed at 2 s
	p.wants(a.Node, 4, 0)
	p.until(4*time.Second, p.reports(needs))
	p.wants(b.Node, 4, 0)
	if c := p.table.Status(p.now).Counts; c.Returned != 2 || c.Revoked != 2 {
		t.Errorf("%d slabs were returned and %d revoked, want 2 and 2", c.Returned, c.Revoked)
	}
	needs[a.Node] = 0 // halves with each period
	p.until(20*time.Second, p.reports(needs))
	p.wants(b.Node, 7, 0)
	p.wants(a.Node, 1, 0) // a byte of need is a slab
	needs[b.Node] = 2
	p.until(60*time.Second, p.reports(needs))
	p.wants(b.Node, 2, 0)
}

// A slab that is asked back is the node's again if it needs it at the start of its next period.
func TestReturnWithdrawn(t *testing.T) {
	p := newPool(t, Config{Slabs: 8, Grace: time.Minute})
	a := p.join("a", time.Second, 8)
	p.until(time.Second, p.reports(map[NodeID]int{a.Node: 0}))
	p.wants(a.Node, 4, 4)
	p.until(2*time.Second, p.reports(map[NodeID]int{a.Node: 8}))
	p.wants(a.Node, 8, 0)
	p.until(2*time.Minute, p.reports(map[NodeID]int{a.Node: 8}))
	p.wants(a.Node, 8, 0)
}

// One of two nodes gets the last slab.
func TestLastSlab(t *testing.T) {
	p := newPool(t, Config{Slabs: 3})
	a, b, c := p.join("a", time.Second, 2), p.join("b", time.Second, 1), p.join("c", time.Second, 1)
	p.wants(a.Node, 2, 0)
	p.wants(b.Node, 1, 0)
	p.wants(c.Node, 0, 0)
	p.until(5*time.Second, p.reports(map[NodeID]int{a.Node: 2, b.Node: 1, c.Node: 1}))
	p.wants(a.Node, 1, 0)
	p.wants(b.Node, 1, 0)
	p.wants(c.Node, 1, 0)
}

// A node whose connection is lost gets the same slabs with its token, and with no other one. Without it,
// its slabs are free after Hold.
func TestLost(t *testing.T) {
	p := newPool(t, Config{Slabs: 4, Hold: 10 * time.Second})
	w := p.join("a", time.Second, 3)
	p.table.Lost(p.now, w.Node, w.Session)
	r := Request{Name: "a", Period: time.Second}
	_, _, err := p.table.Join(p.now, r)
	wantError(t, err, ErrTaken)
	if !strings.Contains(err.Error(), "10s") {
		t.Errorf("%v: it does not say how long", err)
	}
	r.Token = w.Token + 1
	_, _, err = p.table.Join(p.now, r)
	wantError(t, err, ErrTaken)
	p.until(9*time.Second, nil)
	r.Token = w.Token
	again, list, err := p.table.Join(p.now, r)
	if err != nil {
		t.Fatal(err)
	}
	p.run(list)
	if !again.Resumed || again.Node != w.Node {
		t.Errorf("%+v after %+v", again, w)
	}
	p.wants(w.Node, 3, 0)
	p.table.Lost(p.now, w.Node, w.Session) // the end of the old connection
	if !p.table.Status(p.now).Nodes[0].Connected {
		t.Error("the end of the old connection ends the new one")
	}
	p.table.Lost(p.now, w.Node, again.Session)
	p.until(p.now+10*time.Second, nil)
	if s := p.table.Status(p.now); s.Free != 4 || len(s.Nodes) != 0 || !p.dropped[w.Node] {
		t.Errorf("after Hold: %+v", s)
	}
	p.join("a", time.Second, 1) // the name is free
}

// A node that does not report keeps what it has, and its periods go on.
func TestNoReport(t *testing.T) {
	p := newPool(t, Config{Slabs: 4, Answer: 500 * time.Millisecond})
	w := p.join("a", time.Second, 3)
	p.until(6*time.Second, nil)
	p.wants(w.Node, 3, 0)
	if n := p.leases[w.Node]; n != 5 {
		t.Errorf("%d leases in 6 s, want one in 1.5 s", n)
	}
	if n := p.table.Status(p.now).Counts.NoReports; n != 4 {
		t.Errorf("%d periods without a report, want 4", n)
	}
	if list := p.table.Report(p.now, w.Node, 1, Usage{}); list != nil {
		t.Errorf("a report of a period long ago: %v", list)
	}
}

// After a restart, nodes get their slabs again, with new keys; others do not get them in the meantime.
func TestRestart(t *testing.T) {
	c := Config{Slabs: 8, Hold: 10 * time.Second}
	p := newPool(t, c)
	a, b := p.join("a", time.Second, 3), p.join("b", time.Second, 2)
	saved := p.table.Save()
	text, err := json.Marshal(saved)
	if err != nil {
		t.Fatal(err)
	}
	saved = Saved{}
	if err := json.Unmarshal(text, &saved); err != nil {
		t.Fatal(err)
	}
	p.start(c, &saved)
	greedy := p.join("greedy", time.Second, 8)
	p.wants(greedy.Node, 3, 0)
	if greedy.Node == a.Node || greedy.Node == b.Node {
		t.Error("an ID of another node")
	}
	again, list, err := p.table.Join(p.now, Request{Name: "a", Token: a.Token, Period: time.Second, Demand: 3 * slabBytes})
	if err != nil {
		t.Fatal(err)
	}
	p.run(list)
	p.wants(again.Node, 3, 0)
	p.until(10*time.Second, nil)
	if s := p.table.Status(p.now); len(s.Nodes) != 2 {
		t.Errorf("node b did not come back: %+v", s.Nodes)
	}
	for what, broken := range map[string]Saved{
		"two owners":   {LastID: 2, Nodes: []SavedNode{{ID: 1, Name: "a", Slabs: []Slab{1}}, {ID: 2, Name: "b", Slabs: []Slab{1}}}},
		"a name twice": {LastID: 2, Nodes: []SavedNode{{ID: 1, Name: "a"}, {ID: 2, Name: "a"}}},
		"an ID twice":  {LastID: 1, Nodes: []SavedNode{{ID: 1, Name: "a"}, {ID: 1, Name: "b"}}},
		"a large ID":   {LastID: 1, Nodes: []SavedNode{{ID: 2, Name: "a"}}},
	} {
		if err := newPool(t, c).table.Restore(0, broken); err == nil {
			t.Errorf("a file with %s is accepted", what)
		}
	}
}

func TestRefused(t *testing.T) {
	p := newPool(t, Config{Slabs: 1, MaxNodes: 2})
	p.join("a", time.Second, 1)
	for _, x := range []struct {
		request Request
		want    error
	}{
		{Request{Name: "", Period: time.Second}, ErrName},
		{Request{Name: strings.Repeat("a", 21), Period: time.Second}, ErrName},
		{Request{Name: "a\nb", Period: time.Second}, ErrName},
		{Request{Name: "b", Period: time.Millisecond}, ErrPeriod},
		{Request{Name: "b", Period: 2 * time.Hour}, ErrPeriod},
		{Request{Name: "a", Period: time.Second}, ErrTaken},
	} {
		_, _, err := p.table.Join(p.now, x.request)
		wantError(t, err, x.want)
	}
	p.join("b", time.Second, 1)
	_, _, err := p.table.Join(p.now, Request{Name: "c", Period: time.Second})
	wantError(t, err, ErrFull)
	if _, err := p.table.Leave(99); err == nil {
		t.Error("a node that is not there has left")
	}
	for _, c := range []Config{{}, {Slabs: MaxSlabs + 1, SlabBytes: 1}, {Slabs: 1}, {Slabs: 1, SlabBytes: 1, Hold: -1}} {
		c.Token = func() uint64 { return 1 }
		if _, err := New(c); err == nil {
			t.Errorf("accepted: %+v", c)
		}
	}
}

// A slab that could not be opened is free again; one that could not be closed is never leased again.
func TestFailures(t *testing.T) {
	p := newPool(t, Config{Slabs: 2})
	p.slow = true
	w := p.join("a", time.Second, 2)
	delete(p.keys, 1)
	p.dirty[1] = false
	p.table.OpenFailed(1)
	p.wants(w.Node, 1, 0)
	list, err := p.table.Leave(w.Node)
	if err != nil {
		t.Fatal(err)
	}
	p.run(list)
	p.table.CloseFailed(0)
	p.table.Closed(0)
	w = p.join("b", time.Second, 2)
	p.wants(w.Node, 1, 0)
	if s := p.table.Status(p.now); s.Broken != 1 {
		t.Errorf("%+v", s)
	}
}

// A node returns its own slabs only.
func TestForeignReturn(t *testing.T) {
	p := newPool(t, Config{Slabs: 4})
	a, b := p.join("a", time.Second, 2), p.join("b", time.Second, 2)
	p.run(p.table.Return(b.Node, []Slab{p.table.Lease(p.now, a.Node)[0].Slab, 99}))
	p.wants(a.Node, 2, 0)
	p.wants(b.Node, 2, 0)
}

// What a node that is away has is not planned for others.
func TestPlanWithoutAway(t *testing.T) {
	p := newPool(t, Config{Slabs: 8, Hold: time.Hour})
	w := p.join("away", time.Second, 4)
	p.table.Lost(p.now, w.Node, w.Session)
	a, b := p.join("a", time.Second, 8), p.join("b", time.Second, 8)
	p.until(5*time.Second, p.reports(map[NodeID]int{a.Node: 8, b.Node: 8}))
	p.wants(a.Node, 2, 0)
	p.wants(b.Node, 2, 0)
}

// After a late Tick, a node still has the whole time to answer.
func TestLateTick(t *testing.T) {
	p := newPool(t, Config{Slabs: 1, Answer: time.Second})
	p.join("a", time.Second, 1)
	p.run(p.table.Tick(time.Minute))
	if at, ok := p.table.Next(); !ok || at != time.Minute+time.Second {
		t.Errorf("asked at 1m, and the next step is at %v", at)
	}
}

// Those who use little get less if the pool is short, and nobody gets more than it needs.
func TestPlanner(t *testing.T) {
	for _, x := range []struct {
		slabs int
		needs []Usage // needs in slabs; 10 are leased
		want  []int
	}{
		{10, []Usage{{Demand: 3, Used: 1}, {Demand: 4, Used: 4}}, []int{3, 4}},
		{10, []Usage{{Demand: 10, Used: 1}, {Demand: 10, Used: 8}}, []int{2, 8}},
		{10, []Usage{{Demand: 10, Used: 10}, {Demand: 10, Used: 10}, {Demand: 1, Used: 10}}, []int{5, 4, 1}},
		{1, []Usage{{Demand: 1, Used: 10}, {Demand: 1, Used: 10}}, []int{1, 0}},
		{0, []Usage{{Demand: 1, Used: 1}}, []int{0}},
		{-1, []Usage{{Demand: 1, Used: 0}}, []int{0}},
	} {
		p := NewPlanner()
		var list []Need
		for i, u := range x.needs {
			u := Usage{Demand: u.Demand * slabBytes, Used: u.Used * slabBytes, Leased: 10 * slabBytes}
			p.Observe(NodeID(i), u)
			list = append(list, Need{NodeID(i), u})
		}
		got := p.Plan(x.slabs, slabBytes, list)
		for i := range got {
			if got[i] != x.want[i] {
				t.Errorf("%d slabs, %v: %v, want %v", x.slabs, x.needs, got, x.want)
				break
			}
		}
	}
}
