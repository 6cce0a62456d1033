// SPDX-License-Identifier: Apache-2.0

package show

import (
	"fmt"
	"slices"
	"strings"

	"github.com/softroce/softroce-xdp/cmd/internal/cli"
	"github.com/softroce/softroce-xdp/cmd/internal/view"
	"github.com/softroce/softroce-xdp/internal/texts"
)

// fetchTable takes a snapshot; before is the one that throughput is counted from.
type fetchTable func(before *view.Table) (*view.Table, error)

// screen is the state of the view. It knows neither terminal nor clock.
type screen struct {
	fetch fetchTable

	table         *view.Table
	sort          int // index of view.Columns
	top           int // first line shown
	paused        bool
	width, height int
}

// newScreen makes the view, sorted by the column of that name.
func newScreen(fetch fetchTable, sort string) *screen {
	i := slices.Index(view.SortKeys(), sort)
	return &screen{fetch: fetch, sort: max(i, 0), width: 80, height: 24}
}

// Resize takes the size of the terminal.
func (m *screen) Resize(width, height int) {
	m.width, m.height = width, height
	m.order()
}

// Refresh takes a snapshot, unless the view is paused.
func (m *screen) Refresh() error {
	if m.paused {
		return nil
	}
	t, err := m.fetch(m.table)
	if err != nil {
		return err
	}
	m.table = t
	m.order()
	return nil
}

// Answers implements Screen: no snapshot takes long.
func (m *screen) Answers() <-chan func() error { return nil }

// Key handles a key, and reports whether it ends the view.
func (m *screen) Key(k cli.Key) (quit bool) {
	columns := len(view.Columns)
	switch k {
	case "q", cli.KeyEscape, cli.KeyInterrupt:
		return true
	case cli.KeyRight, ">":
		m.sort = (m.sort + 1) % columns
	case cli.KeyLeft, "<":
		m.sort = (m.sort + columns - 1) % columns
	case " ":
		m.paused = !m.paused
	default:
		m.top = k.Scroll(m.top, m.page())
	}
	m.order()
	return false
}

// order sorts the table and keeps the first line within it.
func (m *screen) order() {
	if m.table == nil {
		return
	}
	_ = m.table.Sort(view.Columns[m.sort].Sort) // it is one of the keys
	m.top = max(0, min(m.top, len(m.table.Destinations)-m.page()))
}

// chrome is the number of lines above those of the table: title, keys, head of the table.
const chrome = 3

func (m *screen) page() int { return max(1, m.height-chrome) }

// View draws the screen.
func (m *screen) View() string {
	if m.table == nil {
		return ""
	}
	lines := cli.Align(m.table.Cells())
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

func (m *screen) title() string {
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
		m.table.Interface, state, len(m.table.Destinations), stamped, cli.Rate(sending), cli.Rate(receiving), view.Columns[m.sort].Sort)
}

func (m *screen) clip(s string) string {
	s = texts.Printable(s)
	if r := []rune(s); len(r) > m.width {
		return string(r[:m.width])
	}
	return s
}
