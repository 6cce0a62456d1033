// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/softroce/softroce-xdp/cmd/internal/cli"
	"github.com/softroce/softroce-xdp/internal/texts"
	"github.com/softroce/softroce-xdp/mempool/lease"
)

// topScreen is the live view of a pool. It knows neither terminal nor clock.
type topScreen struct {
	name string // name of the server
	ask  func() (lease.Status, time.Time, error)

	asking  bool
	asker   sync.WaitGroup
	answers chan func() error

	now, before   *snapshot
	problem       error // reason why the newest snapshot is not the present state
	first         int   // line shown
	paused        bool
	width, height int
}

// snapshot is the state of the pool at a time.
type snapshot struct {
	lease.Status
	at time.Time
}

var _ cli.Screen = (*topScreen)(nil)

// newTopScreen makes the view of a server. ask returns the state, and when it was taken.
func newTopScreen(name string, ask func() (lease.Status, time.Time, error)) *topScreen {
	return &topScreen{name: name, ask: ask, answers: make(chan func() error, 1), width: 80, height: 24}
}

// Resize takes the size of the terminal.
func (m *topScreen) Resize(width, height int) {
	m.width, m.height = width, height
	m.keepInside()
}

// Refresh asks the server, unless the view is paused or it is still asked. Only the first time it waits for the
// answer. A server that does not answer for a while is shown as such; at the first time it is an error.
func (m *topScreen) Refresh() error {
	switch {
	case m.paused || m.asking:
		return nil
	case m.now == nil:
		return m.take(m.ask())
	}
	m.asking = true
	m.asker.Go(func() {
		s, at, err := m.ask()
		m.answers <- func() error { // there is one at most
			if m.asking = false; m.paused {
				return nil
			}
			return m.take(s, at, err)
		}
	})
	return nil
}

// Answers implements cli.Screen.
func (m *topScreen) Answers() <-chan func() error { return m.answers }

// Wait waits until the server is no longer asked.
func (m *topScreen) Wait() { m.asker.Wait() }

// take takes an answer.
func (m *topScreen) take(s lease.Status, at time.Time, err error) error {
	m.problem = err
	if err != nil {
		if m.now == nil {
			return err
		}
		return nil
	}
	m.before, m.now = m.now, &snapshot{s, at}
	m.keepInside()
	return nil
}

// Key handles a key, and reports whether it ends the view.
func (m *topScreen) Key(k cli.Key) (quit bool) {
	switch k {
	case "q", cli.KeyEscape, cli.KeyInterrupt:
		return true
	case " ":
		m.paused = !m.paused
	default:
		m.first = k.Scroll(m.first, m.page())
	}
	m.keepInside()
	return false
}

// topChrome is the number of lines above those of the nodes.
const topChrome = 4

func (m *topScreen) page() int { return max(1, m.height-topChrome) }

func (m *topScreen) keepInside() {
	if m.now != nil {
		m.first = max(0, min(m.first, len(m.now.Nodes)-m.page()))
	}
}

// View draws the screen.
func (m *topScreen) View() string {
	if m.now == nil {
		return ""
	}
	lines := cli.Align(m.cells())
	shown := lines[1:]
	shown = shown[m.first:min(len(shown), m.first+m.page())]
	var b strings.Builder
	fmt.Fprintln(&b, m.clip(m.title()))
	fmt.Fprintln(&b, m.clip(m.events()))
	fmt.Fprintln(&b, m.clip("q quit  space pause  up down scroll"))
	fmt.Fprint(&b, "\x1b[7m", m.clip(lines[0]), "\x1b[0m")
	for _, l := range shown {
		b.WriteString("\n" + m.clip(l))
	}
	return b.String()
}

func (m *topScreen) bytes(slabs int) string { return cli.Bytes(uint64(slabs) * m.now.SlabBytes) }

func (m *topScreen) title() string {
	state := ""
	switch {
	case m.problem != nil:
		state = "  NO ANSWER: " + m.problem.Error()
	case m.paused:
		state = "  PAUSED"
	}
	return fmt.Sprintf("%s  %s, %s free  %d nodes%s", m.name, m.bytes(m.now.Slabs), m.bytes(m.now.Free), len(m.now.Nodes), state)
}

// events are the rates of what happens in the pool.
func (m *topScreen) events() string {
	c := m.now.Counts
	if m.before == nil || !m.now.at.After(m.before.at) {
		return fmt.Sprintf("since the start: %d slabs returned, %d revoked, %d reports missing", c.Returned, c.Revoked, c.NoReports)
	}
	old, seconds := m.before.Counts, m.now.at.Sub(m.before.at).Seconds()
	rate := func(now, before uint64) float64 {
		if now < before { // the server has started again
			before = 0
		}
		return float64(now-before) / seconds
	}
	return fmt.Sprintf("per second: %.1f slabs returned, %.1f revoked, %.1f reports missing", rate(c.Returned, old.Returned), rate(c.Revoked, old.Revoked),
		rate(c.NoReports, old.NoReports))
}

// cells are the head and the lines of the nodes.
func (m *topScreen) cells() [][]string {
	list := [][]string{{"NODE", "STATE", "PERIODS/S", "DEMAND", "USED", "EXPECTED", "BY", "PLANNED", "LEASED", "TO RETURN"}}
	for _, n := range m.now.Nodes {
		state := "connected"
		if !n.Connected {
			state = "away"
		}
		list = append(list, []string{
			n.Name, state, m.periods(n), cli.Bytes(n.Demand), cli.Bytes(n.Used), cli.Bytes(n.Expected.Need), n.Expected.By,
			m.bytes(n.Planned), m.bytes(n.Slabs), m.bytes(n.Returning),
		})
	}
	return list
}

// periods is how many periods of a node begin per second.
func (m *topScreen) periods(n lease.NodeStatus) string {
	if m.before != nil && m.now.at.After(m.before.at) {
		for _, old := range m.before.Nodes {
			if old.ID == n.ID && old.Name == n.Name && n.Period >= old.Period {
				return fmt.Sprintf("%.1f", float64(n.Period-old.Period)/m.now.at.Sub(m.before.at).Seconds())
			}
		}
	}
	return "-"
}

func (m *topScreen) clip(s string) string {
	s = texts.Printable(s)
	if r := []rune(s); len(r) > m.width {
		return string(r[:m.width])
	}
	return s
}
