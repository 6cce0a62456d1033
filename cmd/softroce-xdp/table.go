// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/loader"
)

func newTable() *cobra.Command {
	return &cobra.Command{
		Use:   "table IF",
		Short: "Show the destination table",
		Args:  cobra.ExactArgs(1),
		RunE: system(func(cmd *cobra.Command, args []string) error {
			a, err := loader.Open(args[0], openOptions())
			if err != nil {
				return err
			}
			defer a.Close()
			rows, err := a.Rows()
			if err != nil {
				return err
			}
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 8, 2, ' ', 0)
			fmt.Fprintln(w, "NODE\tADDRESS\tSTAMPS\tTX\tRX\tIN_TX\tQ_TX\tQ_RX\tCASE\tRATE\tPACKETS\tCE\tNAK")
			for _, r := range rows {
				d := r.Regs
				fmt.Fprintf(w, "%d\t%s\t%v\t%d\t%d\t%d\t%d\t%d\t%d\t%s\t%d/%d\t%d\t%d\n", d.Node, r.Addr, d.Caps&bpf.CapStamp != 0, d.TxNs, d.RxNs, d.InTxNs, d.Policy.Q_txNs, d.Policy.Q_rxNs, d.Policy.CaseNo, formatRate(d.RateBps), d.TxPackets, d.RxPackets, d.Ces, d.Naks)
			}
			return w.Flush()
		}),
	}
}

func newStats() *cobra.Command {
	return &cobra.Command{
		Use:   "stats IF",
		Short: "Show the counters of the data plane",
		Args:  cobra.ExactArgs(1),
		RunE: system(func(cmd *cobra.Command, args []string) error {
			a, err := loader.Open(args[0], openOptions())
			if err != nil {
				return err
			}
			defer a.Close()
			stats, err := a.Stats()
			if err != nil {
				return err
			}
			for _, s := range stats {
				if s.Count > 0 {
					fmt.Fprintf(cmd.OutOrStdout(), "%-20s %12d  %s\n", s.Name, s.Count, s.Text)
				}
			}
			return nil
		}),
	}
}
