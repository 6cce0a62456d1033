// SPDX-License-Identifier: Apache-2.0

package card

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/cmd/internal/cli"
	"github.com/softroce/softroce-xdp/cmd/internal/view"
	"github.com/softroce/softroce-xdp/hwoffload"
	"github.com/softroce/softroce-xdp/hwoffload/driver"
	"github.com/softroce/softroce-xdp/hwoffload/regs"
	"github.com/softroce/softroce-xdp/loader"
	"github.com/softroce/softroce-xdp/loader/nodefile"
)

func newStatus(a *app) *cobra.Command {
	var asJSON, check bool
	cmd := &cobra.Command{
		Use:   "status [DEV...]",
		Short: "Show the state of cards and their problems",
		Long: `Status shows each card: its agent, ports, policy and destinations. Without names it shows
the cards that are attached. Lines that begin with ! are problems, with what to do. With
--check it ends with exit code 3 if there is a problem, or if no card is attached.`,
		ValidArgsFunction: a.completeCards,
		RunE: func(cmd *cobra.Command, names []string) (err error) {
			if len(names) == 0 {
				if names, err = a.attachedCards(); err != nil {
					return err
				}
				if len(names) == 0 && !asJSON {
					fmt.Fprintln(cmd.OutOrStdout(), "no card is attached")
				}
			}
			all, errs, problems := []*view.CardStatus{}, []error(nil), 0
			for _, name := range names {
				s, err := a.readCardStatus(name)
				if err != nil {
					errs = append(errs, err)
					continue
				}
				all, problems = append(all, s), problems+len(s.Problems)
			}
			if asJSON {
				errs = append(errs, cli.WriteJSON(cmd.OutOrStdout(), all))
			} else {
				for _, s := range all {
					s.Write(cmd.OutOrStdout())
				}
			}
			err = errors.Join(errs...)
			switch {
			case err != nil || !check:
				return err
			case len(all) == 0:
				return cli.AnswerNo("no card is attached")
			case problems == 1:
				return cli.AnswerNo("1 problem")
			case problems > 1:
				return cli.AnswerNo("%d problems", problems)
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON: a list with one element a card")
	cmd.Flags().BoolVar(&check, "check", false, "exit with code 3 unless a card is there and all are without problems")
	return cmd
}

func (a *app) readCardStatus(name string) (*view.CardStatus, error) {
	id, err := parseCard(name)
	if err != nil {
		return nil, err
	}
	s := &view.CardStatus{Card: id.name, BinaryVersion: cli.Version, Counters: map[string]uint64{}}
	err = a.withTable(&id, func(c *hwoffload.Card, t *driver.Table) error {
		ident := regs.IdentOf(c)
		s.Registers = fmt.Sprintf("%d.%d", ident.Version().Major(), ident.Version().Minor())
		if build := ident.BuildId(); build != 0 {
			s.BuildID = fmt.Sprintf("%016x", build)
		}
		s.Node = t.Self()
		s.Ports = cardPorts(c, t)
		stats, err := cardStats(c, t)
		if err != nil {
			return err
		}
		for _, x := range stats {
			if x.Count > 0 {
				s.Counters[x.Name] = x.Count
			}
		}
		in := view.CardInput{Now: time.Now(), BeatLimit: heartbeatLimit}
		if in.Params, err = t.Params(); err != nil {
			return err
		}
		if in.Rows, err = t.Rows(); err != nil {
			return err
		}
		if state, err := readCardState(a.cardStatePath(&id)); err == nil && loader.AgentAlive(a.cardDir(), id.file) {
			s.Attached, s.Version, s.NodeFile = &state.Attached, state.Version, state.NodeFile
			s.Agent = view.Agent{PID: state.PID, Alive: true, HeartbeatAgeNs: int64(max(0, in.Now.Sub(state.beat)))}
		}
		s.Judge(in)
		return nil
	})
	return s, err
}

func cardPorts(c *hwoffload.Card, t *driver.Table) (ports []view.CardPort) {
	for i := range regs.PortsCount {
		p := regs.PortsOf(c, i)
		ports = append(ports, view.CardPort{
			Port: i, Enabled: p.Control().Enable(), Link: p.Status().Link(), RateBps: uint64(p.SpeedMbps()) * 1e6,
			MTU: p.Mtu().Bytes(), Destinations: t.Port(uint32(i)).Dests(),
		})
	}
	return ports
}

func newTable(a *app) *cobra.Command {
	var out cli.Output
	key := cli.Choice{Value: "node", Of: view.SortKeys()}
	cmd := &cobra.Command{
		Use:   "table [DEV]",
		Short: "Show the destination table of a card",
		Long: `Table shows every node with its times, the decisions of the policy, and its counters, as
` + "`softroce-xdp table`" + ` does for an interface, with the same columns. With --json every register is
there; interface is the name of the card.`,
		Args:              cli.Takes(0, 1),
		ValidArgsFunction: a.completeCards,
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := a.oneCard(args)
			if err != nil {
				return err
			}
			var before *view.Table
			return out.Show(cmd, func() (any, func(io.Writer), error) {
				t, err := a.readCardTable(id, before, key.Value)
				if err != nil {
					return nil, nil, err
				}
				if out.Watch {
					before = t
				}
				return t, func(w io.Writer) { writeCardTable(w, t) }, nil
			})
		},
	}
	out.Flags(cmd)
	cmd.Flags().Var(&key, "sort", "column to sort by: "+strings.Join(key.Of, ", "))
	return cmd
}

func (a *app) readCardTable(id *cardID, before *view.Table, key string) (t *view.Table, err error) {
	err = a.withTable(id, func(_ *hwoffload.Card, tab *driver.Table) error {
		rows, err := tab.Rows()
		if err != nil {
			return err
		}
		for i, n := range tab.Nodes() {
			rows[i].Regs.Node = n.Number // also of entries that no agent has begun with
		}
		t = view.TableOf(id.name, rows, time.Now(), before)
		return nil
	})
	if err != nil {
		return nil, err
	}
	if s, err := readCardState(a.cardStatePath(id)); err == nil && s.NodeFile != "" {
		nodes, _ := nodefile.Read(s.NodeFile) // one that has become unreadable is the agent's to report
		t.SetPriorities(nodes)
	}
	return t, t.Sort(key)
}

func writeCardTable(w io.Writer, t *view.Table) {
	if len(t.Destinations) == 0 {
		fmt.Fprintf(w, "%s: no nodes; `softroce-card attach --nodes FILE` writes them\n", t.Interface)
		return
	}
	view.WriteTable(w, t)
}

func newStats(a *app) *cobra.Command {
	var out cli.Output
	var all bool
	cmd := &cobra.Command{
		Use:   "stats [DEV]",
		Short: "Show the counters of a card",
		Long: `Stats shows the counters of the ports, those of the destination table as sums over the nodes,
and those of pre-credit. With --watch a second number says how much was added since the last refresh.`,
		Args:              cli.Takes(0, 1),
		ValidArgsFunction: a.completeCards,
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := a.oneCard(args)
			if err != nil {
				return err
			}
			return view.ShowStats(&out, cmd, id.name, all, func() (now []loader.Stat, err error) {
				err = a.withTable(id, func(c *hwoffload.Card, t *driver.Table) (err error) {
					now, err = cardStats(c, t)
					return err
				})
				return now, err
			})
		},
	}
	out.Flags(cmd)
	cmd.Flags().BoolVar(&all, "all", false, "the counters at zero, too")
	return cmd
}

// destCounters are the counters of the destination table that stats shows as sums.
var destCounters = []struct {
	name, text string
	of         func(*bpf.DestRegs) uint64
}{
	{"tx_packets", "packets sent", func(d *bpf.DestRegs) uint64 { return d.TxPackets }},
	{"tx_bytes", "bytes of IP sent, without the option", func(d *bpf.DestRegs) uint64 { return d.TxBytes }},
	{"tx_unstamped", "packets sent without the option", func(d *bpf.DestRegs) uint64 { return d.TxUnstamped }},
	{"rx_packets", "packets received", func(d *bpf.DestRegs) uint64 { return d.RxPackets }},
	{"rx_bytes", "bytes of IP received, without the option", func(d *bpf.DestRegs) uint64 { return d.RxBytes }},
	{"rx_unstamped", "packets received without an accepted option", func(d *bpf.DestRegs) uint64 { return d.RxUnstamped }},
	{"psn_regressions", "times that a flow's PSN went back: retransmissions", func(d *bpf.DestRegs) uint64 { return d.PsnRegressions }},
	{"naks", "NAKs received", func(d *bpf.DestRegs) uint64 { return d.Naks }},
	{"rnrs", "RNR NAKs received", func(d *bpf.DestRegs) uint64 { return d.Rnrs }},
	{"cnps", "CNPs received", func(d *bpf.DestRegs) uint64 { return d.Cnps }},
	{"ces", "packets received with the CE mark", func(d *bpf.DestRegs) uint64 { return d.Ces }},
	{"dropped", "packets dropped by the pacer", func(d *bpf.DestRegs) uint64 { return d.Dropped }},
}

// cardStats reads the counters of the ports, as block ports defines them, and sums those of the
// destination table.
func cardStats(c *hwoffload.Card, t *driver.Table) (out []loader.Stat, err error) {
	add := func(name, text string, count uint64) {
		out = append(out, loader.Stat{Reason: bpf.Reason{Name: name, Text: text}, Count: count})
	}
	block := blockNamed("ports")
	for i := range block.Count {
		for j := range block.Registers {
			if r := &block.Registers[j]; r.Counter() {
				add(fmt.Sprintf("port%d_%s", i, r.Name), r.Fields[0].Text+fmt.Sprintf(" by port %d", i), c.R64(block.Address(i, r, 0)))
			}
		}
	}
	rows, err := t.Rows()
	for _, x := range destCounters {
		var sum uint64
		for i := range rows {
			sum += x.of(&rows[i].Regs)
		}
		add(x.name, x.text, sum)
	}
	return append(out, precreditStats(c)...), err
}
