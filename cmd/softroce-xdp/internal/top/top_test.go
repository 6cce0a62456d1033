// SPDX-License-Identifier: Apache-2.0

package top

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/softroce/softroce-xdp/cmd/softroce-xdp/internal/view"
)

// drive hands messages to the view and returns it, and whether it ended.
func drive(m Model, msgs ...tea.Msg) (Model, bool) {
	ended := false
	for _, msg := range msgs {
		next, cmd := m.Update(msg)
		m = next.(Model)
		if cmd != nil && msg != (tick{}) {
			if _, isSnapshot := msg.(snapshot); !isSnapshot {
				_, ended = cmd().(tea.QuitMsg)
			}
		}
	}
	return m, ended
}

func key(s string) tea.Msg { return tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune(s)} }

func table(n int) snapshot {
	t := &view.Table{Interface: "eth0", Time: time.Unix(0, 0)}
	for i := range n {
		bps := uint64(i) * 1e6
		t.Destinations = append(t.Destinations, view.Destination{
			Node: uint32(i + 1), Address: fmt.Sprintf("10.0.0.%d", i+1), SendingBps: &bps, ReceivingBps: &bps,
		})
	}
	return snapshot{table: t}
}

func TestScreen(t *testing.T) {
	m, _ := drive(New(nil, time.Second, "sending"), tea.WindowSizeMsg{Width: 60, Height: 8}, table(20))
	lines := strings.Split(m.View(), "\n")
	if len(lines) != 8 {
		t.Errorf("%d lines on a screen of 8", len(lines))
	}
	if !strings.HasPrefix(lines[0], "eth0  20 destinations, 0 stamped  sending 190Mbit/s") {
		t.Errorf("title %q", lines[0])
	}
	if !strings.Contains(lines[3], "10.0.0.20") {
		t.Errorf("the fastest is not first: %q", lines[3])
	}
	m, _ = drive(m, key("j"), key("j"))
	if !strings.Contains(strings.Split(m.View(), "\n")[3], "10.0.0.18") {
		t.Error("two lines down is not the third fastest")
	}
	m, _ = drive(m, tea.KeyMsg{Type: tea.KeyPgDown}, tea.KeyMsg{Type: tea.KeyPgDown}, tea.KeyMsg{Type: tea.KeyPgDown}, tea.KeyMsg{Type: tea.KeyPgDown}, tea.KeyMsg{Type: tea.KeyPgDown})
	if !strings.Contains(m.View(), "10.0.0.1 ") {
		t.Error("the end of the table cannot be reached")
	}
	// The table shrinks under the view.
	m, _ = drive(m, table(1))
	if !strings.Contains(m.View(), "10.0.0.1") {
		t.Error("the only line is out of sight")
	}
}

func TestKeys(t *testing.T) {
	m, _ := drive(New(nil, time.Second, "node"), table(2))
	m, _ = drive(m, key("<"))
	if !strings.Contains(m.View(), "by rnr") {
		t.Error("left of the first column is not the last")
	}
	m, _ = drive(m, key(" "))
	if !strings.Contains(m.View(), "PAUSED") {
		t.Error("space does not pause")
	}
	if _, ended := drive(m, key("q")); !ended {
		t.Error("q does not end it")
	}
	if _, ended := drive(m, tea.KeyMsg{Type: tea.KeyCtrlC}); !ended {
		t.Error("ctrl-c does not end it")
	}
}

func TestFailureEndsIt(t *testing.T) {
	gone := errors.New("eth0: not attached")
	m, _ := drive(New(nil, time.Second, "node"), table(2), snapshot{err: gone})
	if m.Err() != gone {
		t.Errorf("Err() = %v", m.Err())
	}
}
