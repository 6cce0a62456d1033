// SPDX-License-Identifier: Apache-2.0

package card

import (
	"fmt"
	"io"
	"math"
	"time"

	"github.com/spf13/cobra"

	"github.com/softroce/softroce-xdp/cc/precredit"
	"github.com/softroce/softroce-xdp/cmd/internal/cli"
	"github.com/softroce/softroce-xdp/cmd/internal/view"
	"github.com/softroce/softroce-xdp/hwoffload"
	"github.com/softroce/softroce-xdp/hwoffload/driver"
	"github.com/softroce/softroce-xdp/hwoffload/regs"
	"github.com/softroce/softroce-xdp/loader"
)

func newPrecredit(a *app) *cobra.Command {
	return cli.Group(&cobra.Command{
		Use:   "precredit",
		Short: "Show, enable and disable the pre-credit of a card",
	}, newPrecreditShow(a), newPrecreditEnable(a), newPrecreditDisable(a))
}

func newPrecreditShow(a *app) *cobra.Command {
	var out cli.Output
	cmd := &cobra.Command{
		Use:   "show [DEV]",
		Short: "Show the list of senders and their pre-credit",
		Long: `Show lists the nodes that the card grants pre-credit to, the largest share first, as the card
keeps them. With --json parameters and counters are there too; stats has the counters.`,
		Args:              cli.Takes(0, 1),
		ValidArgsFunction: a.completeCards,
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := a.oneCard(args)
			if err != nil {
				return err
			}
			return out.Show(cmd, func() (any, func(io.Writer), error) {
				p, err := a.readCardPrecredit(id)
				if err != nil {
					return nil, nil, err
				}
				return p, p.Write, nil
			})
		},
	}
	out.Flags(cmd)
	return cmd
}

func (a *app) readCardPrecredit(id *cardID) (*view.Precredit, error) {
	p := &view.Precredit{Interface: id.name, Senders: []view.Sender{}, Counters: map[string]uint64{}}
	return p, a.withTable(id, func(c *hwoffload.Card, t *driver.Table) (err error) {
		if p.Active, err = driver.PreCreditActive(c); err != nil {
			return err
		}
		config, err := driver.ReadPreCredit(c)
		if err != nil {
			return err
		}
		r, s := config.Receiver, config.Sender
		p.BudgetBytes, p.ShareBytes, p.LinkBps, p.RttNs, p.BdpBytes = r.BufferBytes, r.ShareBytes, s.LinkBps, uint64(s.RTTNs), s.BDPBytes
		list, err := driver.ReadSenders(c)
		if err != nil {
			return err
		}
		p.FreeBytes, p.OutstandingBytes = list.Free, list.Outstanding
		address := map[uint32]string{}
		for _, n := range t.Nodes() {
			if n.Addr.IsValid() {
				address[n.Number] = n.Addr.String()
			}
		}
		for _, e := range list.List {
			p.Senders = append(p.Senders, view.Sender{Node: uint32(e.ID), Address: address[uint32(e.ID)], ShareBytes: e.Share, OutstandingBytes: e.Outstanding})
		}
		for _, x := range precreditStats(c) {
			p.Counters[x.Name] = x.Count
		}
		return nil
	})
}

// precreditStats reads the counters of block precredit, with the names of those of an engine.
func precreditStats(c *hwoffload.Card) (out []loader.Stat) {
	block := blockNamed("precredit")
	for i := range block.Registers {
		if r := &block.Registers[i]; r.Counter() {
			var s loader.Stat
			s.Name, s.Text, s.Count = "precredit_"+r.Name, r.Fields[0].Text, c.R64(block.Address(0, r, 0))
			out = append(out, s)
		}
	}
	return out
}

// cardBudget is the budget without --budget, in bandwidth-delay products: what a switch without
// queues by size takes (docs/study/congestion-control.md).
const cardBudget = 16

func newPrecreditEnable(a *app) *cobra.Command {
	var link uint64
	rtt, packet := 12*time.Microsecond, uint32(4096)
	var budget budgetVar
	bound := cli.Choice{Value: "large", Of: []string{"large", "all", "none"}}
	cmd := &cobra.Command{
		Use:   "enable [DEV]",
		Short: "Have a card grant and use pre-credit",
		Long: `Enable writes the parameters of pre-credit to the card, also while it is in use: then all
that was granted is recalled first. The card uses it with the nodes that understand it.
It lasts until the card is reset.`,
		Example:           "  softroce-card precredit enable 0000:03:00.0 --rtt 10us --budget 1M",
		Args:              cli.Takes(0, 1),
		ValidArgsFunction: a.completeCards,
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := a.oneCard(args)
			if err != nil {
				return err
			}
			return a.withCard(id, func(c *hwoffload.Card) error {
				bps := link
				if bps == 0 {
					bps = uint64(regs.PortsOf(c, 0).SpeedMbps()) * 1e6
				}
				bytes := uint32(budget)
				if bytes == 0 {
					bytes = uint32(min(cardBudget*uint64(precredit.BDP(bps, int64(rtt))), 1<<30))
				}
				config := driver.PlanPreCredit(bps, int64(rtt), bytes, packet)
				for i, w := range bound.Of {
					if w == bound.Value {
						config.Sender.Bound = precredit.Bound(i) // the order of its values
					}
				}
				if err := config.Validate(); err != nil {
					return cli.PlainUsage(err)
				}
				if err := driver.EnablePreCredit(c, config, 0); err != nil {
					return err
				}
				fmt.Fprintf(cmd.OutOrStdout(), "%s: pre-credit of %d bytes, at most %d for a node\n", id.name, config.Receiver.BufferBytes, config.Receiver.ShareBytes)
				return nil
			})
		},
	}
	f := cmd.Flags()
	f.Var(cli.RateVar(&link), "link", "rate of the link (default: that of port 0)")
	f.Var(cli.SpanVar(&rtt, time.Microsecond, time.Second), "rtt", "base RTT to the nodes")
	f.Var(&budget, "budget", "what all nodes together may send unasked, such as 1M (default: 16 bandwidth-delay products)")
	f.Var(cli.CountVar(&packet, 256, 4096), "packet", "payload of a full packet in bytes: the PMTU")
	f.Var(&bound, "bound", "flows that send nothing but pre-credit before the first feedback: large, all, none")
	return cmd
}

// budgetVar is a number of bytes; 0 stands for "not given".
type budgetVar uint32

func (b *budgetVar) Type() string { return "bytes" }
func (b *budgetVar) String() string {
	if *b == 0 {
		return ""
	}
	return fmt.Sprint(uint32(*b))
}
func (b *budgetVar) Set(s string) error {
	v, err := cli.ParseBytes(s)
	if err != nil {
		return err
	}
	if v == 0 || v > math.MaxUint32 || v > 1<<30 {
		return fmt.Errorf("%q is not between 1 byte and 1G", s)
	}
	*b = budgetVar(v)
	return nil
}

func newPrecreditDisable(a *app) *cobra.Command {
	return &cobra.Command{
		Use:               "disable [DEV]",
		Short:             "Have a card grant and use no pre-credit",
		Long:              `Disable recalls what the card granted, and gives back what it has not used.`,
		Args:              cli.Takes(0, 1),
		ValidArgsFunction: a.completeCards,
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := a.oneCard(args)
			if err != nil {
				return err
			}
			return a.withCard(id, func(c *hwoffload.Card) error {
				if err := driver.DisablePreCredit(c); err != nil {
					return err
				}
				fmt.Fprintf(cmd.OutOrStdout(), "%s: pre-credit is off\n", id.name)
				return nil
			})
		},
	}
}
