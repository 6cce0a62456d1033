// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/softroce/softroce-xdp/cmd/internal/cli"
	"github.com/softroce/softroce-xdp/mempool/lease"
)

// pool is a server with some nodes, that answers once per second.
type pool struct {
	status lease.Status
	at     time.Time
	err    error
}

func (p *pool) ask() (lease.Status, time.Time, error) {
	p.at = p.at.Add(time.Second)
	s := p.status
	s.Nodes = append([]lease.NodeStatus{}, s.Nodes...)
	return s, p.at, p.err
}

func show(t *testing.T, p *pool) *topScreen {
	t.Helper()
	m := newTopScreen("host2:7178", p.ask)
	m.Resize(200, 24)
	if err := m.Refresh(); err != nil {
		t.Fatal(err)
	}
	return m
}

// refresh asks for a snapshot, and takes it.
func refresh(m *topScreen) error {
	if err := m.Refresh(); err != nil {
		return err
	}
	return (<-m.Answers())()
}

func nodes(n int) *pool {
	p := &pool{status: lease.Status{SlabBytes: 4 << 20, Slabs: 256, Free: 128}}
	for i := range n {
		p.status.Nodes = append(p.status.Nodes, lease.NodeStatus{
			ID: lease.NodeID(i + 1), Name: fmt.Sprintf("web%d", i+1), Connected: i != 1, Period: 10, Demand: 64 << 20, Used: 32 << 20, Planned: 16, Slabs: 17,
			Returning: 1, Expected: lease.Prediction{By: "network", Need: 60 << 20},
		})
	}
	return p
}

// The second snapshot has rates; the first one has none.
func TestTopScreen(t *testing.T) {
	p := nodes(2)
	m := show(t, p)
	want := []string{
		"host2:7178  1GiB, 512MiB free  2 nodes",
		"since the start: 0 slabs returned, 0 revoked, 0 reports missing",
		"q quit  space pause  up down scroll",
		"\x1b[7mNODE  STATE      PERIODS/S  DEMAND  USED   EXPECTED  BY       PLANNED  LEASED  TO RETURN\x1b[0m",
		"web1  connected  -          64MiB   32MiB  60MiB     network  64MiB    68MiB   4MiB",
		"web2  away       -          64MiB   32MiB  60MiB     network  64MiB    68MiB   4MiB",
	}
	compare := func() {
		t.Helper()
		strip := func(s string) string { return strings.Join(strings.Fields(s), " ") }
		var got, expected []string
		for _, l := range strings.Split(m.View(), "\n") {
			got = append(got, strip(l))
		}
		for _, l := range want {
			expected = append(expected, strip(l))
		}
		if d := cmp.Diff(expected, got); d != "" {
			t.Error(d)
		}
	}
	compare()
	p.status.Nodes[0].Period, p.status.Counts.Returned = 15, 3
	if err := refresh(m); err != nil {
		t.Fatal(err)
	}
	want[1] = "per second: 3.0 slabs returned, 0.0 revoked, 0.0 reports missing"
	want[4] = strings.Replace(want[4], " - ", " 5.0 ", 1)
	want[5] = strings.Replace(want[5], " - ", " 0.0 ", 1)
	compare()
}

// A server that does not answer is an error at first; later the screen shows that, until it answers again.
func TestTopWithoutAnswer(t *testing.T) {
	p := nodes(1)
	p.err = errors.New("no answer from host2")
	if err := newTopScreen("host2", p.ask).Refresh(); err == nil {
		t.Error("no error at the start")
	}
	p.err = nil
	m := show(t, p)
	p.err = errors.New("no answer from host2")
	if err := refresh(m); err != nil || !strings.Contains(m.View(), "NO ANSWER: no answer from host2") || !strings.Contains(m.View(), "web1") {
		t.Errorf("%v\n%s", err, m.View())
	}
	p.err = nil
	if err := refresh(m); err != nil || strings.Contains(m.View(), "NO ANSWER") {
		t.Errorf("%v\n%s", err, m.View())
	}
}

func TestTopKeys(t *testing.T) {
	p := nodes(30)
	m := show(t, p)
	m.Resize(60, topChrome+10)
	lines := strings.Split(m.View(), "\n")
	if len(lines) != topChrome+10 || strings.Contains(m.View(), "web11 ") {
		t.Errorf("%d lines:\n%s", len(lines), m.View())
	}
	for _, x := range []struct {
		key   cli.Key
		first int
	}{{cli.KeyDown, 1}, {"j", 2}, {cli.KeyPageDown, 12}, {cli.KeyPageDown, 20}, {cli.KeyDown, 20}, {cli.KeyUp, 19}, {cli.KeyPageUp, 9}, {"g", 0}, {"k", 0}} {
		if m.Key(x.key) || m.first != x.first {
			t.Errorf("%s: line %d, want %d", x.key, m.first, x.first)
		}
	}
	m.Key(" ")
	at := p.at
	if err := m.Refresh(); err != nil || p.at != at || !strings.Contains(m.View(), "PAUSED") {
		t.Error("a paused view asks the server")
	}
	if !m.Key("q") {
		t.Error("q does not end it")
	}
}

// While the server does not answer, the view takes keys, and asks nothing more.
func TestTopIsAliveWithoutAnswer(t *testing.T) {
	p, asked, answer := nodes(1), 0, make(chan bool)
	m := newTopScreen("host2", func() (lease.Status, time.Time, error) {
		if asked++; asked > 1 {
			<-answer
		}
		return p.ask()
	})
	for range 3 {
		if err := m.Refresh(); err != nil {
			t.Fatal(err)
		}
	}
	p.status.Free = 0
	if m.Key(cli.KeyDown) || !m.Key("q") {
		t.Error("the keys are not as always")
	}
	select {
	case <-m.Answers():
		t.Error("an answer that nobody has given")
	default:
	}
	answer <- true
	if err := (<-m.Answers())(); err != nil || !strings.Contains(m.View(), " 0B free") || asked != 2 {
		t.Errorf("asked %d times, %v\n%s", asked, err, m.View())
	}
	// An answer that comes while the view is paused does not change it.
	if err := m.Refresh(); err != nil {
		t.Fatal(err)
	}
	m.Key(" ")
	p.status.Free = 128
	answer <- true
	if err := (<-m.Answers())(); err != nil || !strings.Contains(m.View(), " 0B free") {
		t.Errorf("%v\n%s", err, m.View())
	}
	m.Wait()
}
