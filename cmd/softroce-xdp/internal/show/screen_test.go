// SPDX-License-Identifier: Apache-2.0

package show

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/cmd/internal/cli"
	"github.com/softroce/softroce-xdp/cmd/internal/view"
)

func table(n int) *view.Table {
	t := &view.Table{Interface: "eth0", Time: time.Unix(0, 0)}
	for i := range n {
		bps := uint64(i) * 1e6
		t.Destinations = append(t.Destinations, view.Destination{
			Node: uint32(i + 1), Address: fmt.Sprintf("10.0.0.%d", i+1), SendingBps: &bps, ReceivingBps: &bps,
		})
	}
	return t
}

// show makes a view of a table of n destinations.
func show(t *testing.T, n *int, sort string) *screen {
	t.Helper()
	m := newScreen(func(*view.Table) (*view.Table, error) { return table(*n), nil }, sort)
	if err := m.Refresh(); err != nil {
		t.Fatal(err)
	}
	return m
}

func TestScreen(t *testing.T) {
	n := 20
	m := show(t, &n, "sending")
	m.Resize(60, 8)
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
	m.Key(cli.KeyDown)
	m.Key("j")
	if !strings.Contains(strings.Split(m.View(), "\n")[3], "10.0.0.18") {
		t.Error("two lines down is not the third fastest")
	}
	for range 5 {
		m.Key(cli.KeyPageDown)
	}
	if !strings.Contains(m.View(), "10.0.0.1 ") {
		t.Error("the end of the table cannot be reached")
	}
	n = 1 // the table shrinks under the view
	if err := m.Refresh(); err != nil || !strings.Contains(m.View(), "10.0.0.1") {
		t.Errorf("the only line is out of sight (%v)", err)
	}
	m.Resize(1, 1)
	m.View()
}

func TestKeys(t *testing.T) {
	n := 2
	m := show(t, &n, "node")
	if m.Key(cli.KeyLeft); !strings.Contains(m.View(), "by rnr") {
		t.Error("left of the first column is not the last")
	}
	m.Key(" ")
	n = 3
	if err := m.Refresh(); err != nil || !strings.Contains(m.View(), "PAUSED  2 destinations") {
		t.Errorf("space does not pause (%v)", err)
	}
	for _, k := range []cli.Key{"q", cli.KeyEscape, cli.KeyInterrupt} {
		if !m.Key(k) {
			t.Errorf("%s does not end it", k)
		}
	}
}

func TestFailureEndsIt(t *testing.T) {
	gone := errors.New("eth0: not attached")
	m := newScreen(func(*view.Table) (*view.Table, error) { return nil, gone }, "node")
	if err := m.Refresh(); err != gone {
		t.Errorf("Refresh() = %v", err)
	}
}
