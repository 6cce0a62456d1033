// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"fmt"
	"time"
)

// Table has the nodes and the slabs of a pool. Calls must not overlap.
type Table struct {
	c       Config
	slabs   []slab
	free    []Slab
	broken  int     // slabs in this state
	nodes   []*node // nodes by ID
	lastID  NodeID
	session uint32
	changes uint64
	out     []Action
	counts  Counts
}

// Counts are events since the start of a table.
type Counts struct {
	Joins     uint64 `json:"joins"`
	Resumes   uint64 `json:"resumes"`    // nodes that came back within Config.Hold
	Lost      uint64 `json:"lost"`       // connections that ended without Leave
	Expired   uint64 `json:"expired"`    // nodes that did not come back
	NoReports uint64 `json:"no_reports"` // periods whose report did not come in time
	Returned  uint64 `json:"returned"`   // slabs that nodes returned
	Revoked   uint64 `json:"revoked"`    // slabs that were closed because their deadline had passed
	Stale     uint64 `json:"stale"`      // reports and returns that came too late or named foreign slabs
}

type node struct {
	id      NodeID
	name    string
	token   uint64
	session uint32
	away    bool
	until   time.Duration // away: when the node is dropped

	length  time.Duration // length of a period
	period  uint32
	ends    time.Duration // the period
	asked   bool
	usage   Usage
	planned int
	slabs   []Slab // the oldest first
}

// New makes a table whose slabs are free and zeroed.
func New(c Config) (*Table, error) {
	if err := c.complete(); err != nil {
		return nil, err
	}
	t := &Table{c: c, slabs: make([]slab, c.Slabs)}
	for s := c.Slabs - 1; s >= 0; s-- {
		t.free = append(t.free, Slab(s))
	}
	return t, nil
}

// Config returns the properties, with the defaults.
func (t *Table) Config() Config { return t.c }

// Request is what a node asks for.
type Request struct {
	Name   string
	Token  uint64 // token of an earlier Welcome, to get the same lease again; 0 for none
	Period time.Duration
	Demand uint64 // bytes for the first period
}

// Welcome is the answer to a node.
type Welcome struct {
	Node    NodeID
	Session uint32 // number of this connection, for Lost
	Token   uint64
	Resumed bool // the node has the slabs that it had
}

// Join adds a node, or gives a node that was away its lease again if the token is right. Its period
// begins at once.
func (t *Table) Join(now time.Duration, r Request) (Welcome, []Action, error) {
	old, err := t.Check(now, r)
	if err != nil {
		return Welcome{}, nil, err
	}
	n, resumed := t.node(old), old != 0
	if resumed {
		t.counts.Resumes++
	} else {
		t.lastID++
		n = &node{id: t.lastID, name: r.Name, token: t.c.Token()}
		t.nodes = append(t.nodes, n)
		t.counts.Joins++
	}
	t.session++
	n.session, n.away, n.asked, n.length, n.ends = t.session, false, false, r.Period, now
	if !resumed || r.Demand > n.usage.Demand {
		n.usage.Demand = min(r.Demand, t.bytes())
	}
	t.reopen(n)
	t.c.Planner.Observe(n.id, n.usage)
	t.startPeriod(now, n)
	return Welcome{Node: n.id, Session: n.session, Token: n.token, Resumed: resumed}, t.actions(), nil
}

// Check returns the error that Join would return, or the node whose lease would go on: 0 for a new node. It changes
// nothing.
func (t *Table) Check(now time.Duration, r Request) (NodeID, error) {
	if !validName(r.Name) {
		return 0, fmt.Errorf("name %.40q: %w", r.Name, ErrName)
	}
	if r.Period < t.c.MinPeriod || r.Period > t.c.MaxPeriod {
		return 0, fmt.Errorf("a period of %v: %w: choose %v to %v", r.Period, ErrPeriod, t.c.MinPeriod, t.c.MaxPeriod)
	}
	n := t.byName(r.Name)
	switch {
	case n != nil && n.token == r.Token:
		return n.id, nil
	case n != nil && n.away:
		return 0, fmt.Errorf("%s: %w, and may come back in the next %v", r.Name, ErrTaken, (n.until - now).Round(time.Second))
	case n != nil:
		return 0, fmt.Errorf("%s: %w", r.Name, ErrTaken)
	case len(t.nodes) >= t.c.MaxNodes:
		return 0, fmt.Errorf("%d nodes: %w", len(t.nodes), ErrFull)
	}
	return 0, nil
}

func validName(s string) bool {
	for _, c := range []byte(s) {
		if c <= ' ' || c > '~' {
			return false
		}
	}
	return len(s) > 0 && len(s) <= MaxName
}

// Lost notes that the connection of a session has ended without Leave. The slabs are kept for
// Config.Hold. A session that another one has followed changes nothing.
func (t *Table) Lost(now time.Duration, id NodeID, session uint32) {
	n := t.node(id)
	if n == nil || n.session != session || n.away {
		return
	}
	t.counts.Lost++
	n.away, n.until = true, now+t.c.Hold
	t.changes++
}

// Find returns the node with a name, if the token is its own.
func (t *Table) Find(name string, token uint64) (NodeID, error) {
	switch n := t.byName(name); {
	case n == nil:
		return 0, fmt.Errorf("node %.40q: %w", name, ErrUnknown)
	case n.token != token:
		return 0, fmt.Errorf("node %s: %w", name, ErrToken)
	default:
		return n.id, nil
	}
}

// Leave removes a node. Its slabs are closed.
func (t *Table) Leave(id NodeID) ([]Action, error) {
	n := t.node(id)
	if n == nil {
		return nil, fmt.Errorf("node %d: %w", id, ErrUnknown)
	}
	t.drop(n)
	return t.actions(), nil
}

// drop closes all slabs of a node and forgets it.
func (t *Table) drop(n *node) {
	for len(n.slabs) > 0 {
		t.close(n.slabs[len(n.slabs)-1])
	}
	for i, x := range t.nodes {
		if x == n {
			t.nodes = append(t.nodes[:i], t.nodes[i+1:]...)
			break
		}
	}
	t.c.Planner.Forget(n.id)
	t.do(Action{Kind: ActionDrop, Node: n.id})
	t.changes++
}

// Changes returns a number that grows when Save has something else to store.
func (t *Table) Changes() uint64 { return t.changes }

func (t *Table) node(id NodeID) *node {
	for _, n := range t.nodes {
		if n.id == id {
			return n
		}
	}
	return nil
}

func (t *Table) byName(name string) *node {
	for _, n := range t.nodes {
		if n.name == name {
			return n
		}
	}
	return nil
}

// bytes returns the length of the pool.
func (t *Table) bytes() uint64 { return uint64(t.c.Slabs) * t.c.SlabBytes }

func (t *Table) do(a Action) { t.out = append(t.out, a) }

// actions returns what do has collected.
func (t *Table) actions() []Action {
	out := t.out
	t.out = nil
	return out
}
