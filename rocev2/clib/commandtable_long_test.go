// SPDX-License-Identifier: Apache-2.0

//go:build long

package clib

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/testenv/lab/rxepeer"
	"github.com/softroce/softroce-xdp/testenv/lab/script"
)

// The columns of the table.
const (
	inNamespaces = "namespaces"
	withLoss     = "loss"
	rxeServes    = "rxe is the server"
	rxeRequests  = "rxe is the client"
)

var columns = []string{inNamespaces, withLoss, rxeServes, rxeRequests}

// TestCommandTable runs all commands between two namespaces, with loss, and with kernel rxe as each of the two sides. The
// table of the page is what came out; UPDATE=1 writes it. With -run of a part, the other cells are those of the page.
func TestCommandTable(t *testing.T) {
	requireCommands(t)
	cells := pageCells(t)
	t.Run(inNamespaces, func(t *testing.T) {
		lab := newCommandLab(t)
		cells.run(t, inNamespaces, lab)
	})
	t.Run(withLoss, func(t *testing.T) {
		lab := newCommandLab(t)
		lab.lose(commandLoss)
		cells.run(t, withLoss, lab)
		if lab.lost() == 0 {
			t.Error("no packet is lost")
		}
	})
	t.Run(rxeServes, func(t *testing.T) {
		ours, rxe := newRxeLab(t)
		cells.run(t, rxeServes, &commandLab{server: rxe, client: ours})
	})
	t.Run(rxeRequests, func(t *testing.T) {
		ours, rxe := newRxeLab(t)
		cells.run(t, rxeRequests, &commandLab{server: ours, client: rxe})
	})
	script.CheckDoc(t, commandsPage, map[string]string{"commands": cells.table()})
}

// cellKey names a cell of the table.
type cellKey struct{ line, column string }

type commandCells map[cellKey]string

// pageCells are the cells of the page.
func pageCells(t *testing.T) commandCells {
	t.Helper()
	cells := commandCells{}
	for line := range strings.Lines(script.ReadFile(t, commandsPage)) {
		f := strings.Split(line, "|")
		if len(f) != len(columns)+3 {
			continue
		}
		for i, column := range columns {
			cells[cellKey{strings.Trim(f[1], " `"), column}] = strings.TrimSpace(f[i+2])
		}
	}
	return cells
}

// run runs the commands of a column.
func (cells commandCells) run(t *testing.T, column string, lab *commandLab) {
	for _, c := range commands {
		t.Run(c.line, func(t *testing.T) {
			cell := "passed"
			if c.unreliable && column == withLoss {
				cell = "no: messages are lost"
			} else if c.versioned && (column == rxeServes || column == rxeRequests) {
				cell = "no: another version"
			} else if err := c.run(t.Context(), lab); err != nil {
				t.Log(err)
				cell = "failed"
			}
			cells[cellKey{c.line, column}] = cell
			t.Log(cell)
		})
	}
}

// table is the table of the page.
func (cells commandCells) table() string {
	var table strings.Builder
	fmt.Fprintf(&table, "| command | %s |\n|---%s|\n", strings.Join(columns, " | "), strings.Repeat("|---", len(columns)))
	for _, c := range commands {
		fmt.Fprintf(&table, "| `%s` ", c.line)
		for _, column := range columns {
			fmt.Fprintf(&table, "| %s ", cmp.Or(cells[cellKey{c.line, column}], "not run"))
		}
		table.WriteString("|\n")
	}
	return table.String()
}

// newRxeLab makes a host of this kernel with an agent, and a virtual machine with rxe.
func newRxeLab(t *testing.T) (ours, rxe *commandHost) {
	t.Helper()
	const address, peer = "10.53.1.1", "10.53.1.2"
	n := newNet(t, commandMTU)
	prefix := func(a string) []netip.Prefix { return []netip.Prefix{netip.MustParsePrefix(a + "/24")} }
	host, err := n.AddHost(rxepeer.HostConfig{Name: "verbs", MTU: commandMTU, Addrs: prefix(address)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { host.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), rxepeer.BootTimeout)
	defer cancel()
	vm := boot(ctx, t, rxepeer.Config{Name: "rxe", NICs: []rxepeer.NIC{{Net: n, MTU: commandMTU, Addrs: prefix(peer)}}})
	gid, err := vm.GIDIndex(ctx, "rxe0", netip.MustParseAddr(peer))
	if err != nil {
		t.Fatal(err)
	}
	rxe = &commandHost{device: "rxe0", gid: strconv.Itoa(gid), addr: peer, timeout: 20}
	rxe.start = func(ctx context.Context, argv []string) (process, error) {
		p, err := vm.StartCmd(ctx, rxepeer.Cmd{Argv: argv, Timeout: commandTime})
		return &guestProcess{p, commandTime}, err
	}
	ours = newSoftware(t).host(t, fmt.Sprintf("/proc/%d/fd/%d", unix.Getpid(), host.NS), address)
	ours.timeout = rxe.timeout
	return ours, rxe
}

// guestProcess is a process in a virtual machine, which ends it after a time.
type guestProcess struct {
	*rxepeer.Proc
	limit time.Duration
}

func (p *guestProcess) listens(ctx context.Context) error {
	return p.AwaitReady(ctx, rxepeer.Readiness{TCPPort: 18515})
}

func (p *guestProcess) wait() (stdout, stderr string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), p.limit+time.Minute)
	defer cancel()
	res, err := p.Wait(ctx)
	return res.Stdout, res.Stderr, err
}

func (p *guestProcess) kill() { _ = p.Signal(unix.SIGKILL) } // it may have ended
