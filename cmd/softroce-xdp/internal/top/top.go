// SPDX-License-Identifier: Apache-2.0

// Package top is the live view of the destination table on a terminal.
package top

import (
	"fmt"
	"slices"
	"strings"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/softroce/softroce-xdp/cmd/softroce-xdp/internal/units"
	"github.com/softroce/softroce-xdp/cmd/softroce-xdp/internal/view"
)

// Fetch takes a snapshot; before is the one that throughput is counted from.
type Fetch func(before *view.Table) (*view.Table, error)

// Model is the state of the view. It changes by messages only and asks no clock.
type Model struct {
	fetch    Fetch
	interval time.Duration

	table         *view.Table
	sort          int // index of view.Columns
	top           int // first line shown
	paused        bool
	width, height int
	err           error
}

// New makes the view, sorted by the column of that name.
func New(fetch Fetch, interval time.Duration, sort string) Model {
	i := slices.Index(view.SortKeys(), sort)
	return Model{fetch: fetch, interval: interval, sort: max(i, 0), width: 80, height: 24}
}

// Err is what ended the view, nil if it was the user.
func (m Model) Err() error { return m.err }

type (
	tick     struct{}
	snapshot struct {
		table *view.Table
		err   error
	}
)

// Init asks for the first snapshot.
func (m Model) Init() tea.Cmd { return m.take }

func (m Model) take() tea.Msg {
	t, err := m.fetch(m.table)
	return snapshot{t, err}
}

// Update takes one message.
func (m Model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case tick:
		if m.paused {
			return m, m.wait()
		}
		return m, m.take
	case snapshot:
		if msg.err != nil {
			m.err = msg.err
			return m, tea.Quit
		}
		m.table = msg.table
		m.order()
		return m, m.wait()
	case tea.KeyMsg:
		return m.key(msg.String())
	}
	return m, nil
}

func (m Model) wait() tea.Cmd {
	return tea.Tick(m.interval, func(time.Time) tea.Msg { return tick{} })
}

func (m Model) key(k string) (tea.Model, tea.Cmd) {
	columns := len(view.Columns)
	switch k {
	case "q", "esc", "ctrl+c":
		return m, tea.Quit
	case "right", ">":
		m.sort = (m.sort + 1) % columns
	case "left", "<":
		m.sort = (m.sort + columns - 1) % columns
	case " ":
		m.paused = !m.paused
	case "down", "j":
		m.top++
	case "up", "k":
		m.top--
	case "pgdown":
		m.top += m.page()
	case "pgup":
		m.top -= m.page()
	case "home", "g":
		m.top = 0
	}
	m.order()
	return m, nil
}

// order sorts the table and keeps the first line within it.
func (m *Model) order() {
	if m.table == nil {
		return
	}
	// A copy: a snapshot under way reads the one before.
	t := *m.table
	t.Destinations = slices.Clone(t.Destinations)
	_ = t.Sort(view.Columns[m.sort].Sort) // it is one of the keys
	m.table = &t
	m.top = max(0, min(m.top, len(m.table.Destinations)-m.page()))
}

// chrome is what stands around the lines: title, keys, head of the table.
const chrome = 3

func (m Model) page() int { return max(1, m.height-chrome) }

// View draws the screen.
func (m Model) View() string {
	if m.table == nil {
		return ""
	}
	lines := view.Align(m.table.Cells())
	shown := lines[1:]
	shown = shown[m.top:min(len(shown), m.top+m.page())]

	var b strings.Builder
	fmt.Fprintln(&b, m.clip(m.title()))
	fmt.Fprintln(&b, m.clip("q quit  < > sort by  space pause  up down scroll"))
	fmt.Fprint(&b, "\x1b[7m", m.clip(lines[0]), "\x1b[0m")
	for _, l := range shown {
		b.WriteString("\n" + m.clip(l))
	}
	return b.String()
}

func (m Model) title() string {
	var sending, receiving uint64
	stamped := 0
	for _, d := range m.table.Destinations {
		if d.SendingBps != nil {
			sending, receiving = sending+*d.SendingBps, receiving+*d.ReceivingBps
		}
		if d.Stamps {
			stamped++
		}
	}
	state := ""
	if m.paused {
		state = "  PAUSED"
	}
	return fmt.Sprintf("%s%s  %d destinations, %d stamped  sending %sbit/s  receiving %sbit/s  by %s",
		m.table.Interface, state, len(m.table.Destinations), stamped, units.Rate(sending), units.Rate(receiving), view.Columns[m.sort].Sort)
}

func (m Model) clip(s string) string {
	if r := []rune(s); len(r) > m.width {
		return string(r[:m.width])
	}
	return s
}

// Run shows the view until the user quits or a snapshot fails.
func Run(m Model) error {
	end, err := tea.NewProgram(m, tea.WithAltScreen()).Run()
	if err != nil {
		return fmt.Errorf("terminal: %w", err)
	}
	return end.(Model).Err()
}
