// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/softroce/softroce-xdp/cmd/internal/cli"
	"github.com/softroce/softroce-xdp/cmd/internal/host"
	"github.com/softroce/softroce-xdp/loader"
)

func newFeatures(a *attacher) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "features IF",
		Short: "Show what the kernel and an interface offer",
		Long: `Features probes the kernel for what the product needs, and the interface for what
attach would find: native XDP, queues, room for the stamp option in the MTU, the
pacers that work, offloads. Nothing is changed. It ends with exit code 3 if
something that is required is missing.`,
		Args:              cli.Takes(1, 1),
		ValidArgsFunction: host.CompleteInterfaces,
		RunE: func(cmd *cobra.Command, args []string) error {
			names, err := a.RealNames(args)
			if err != nil {
				return err
			}
			if os.Geteuid() != 0 {
				return errors.New("probing the kernel needs root: run it with sudo")
			}
			iface, err := factsOf(names[0])
			if err != nil {
				return err
			}
			kernel := loader.KernelFeatures()
			if asJSON {
				err = cli.WriteJSON(cmd.OutOrStdout(), map[string]any{"kernel": kernel, "interface": iface, "advice": iface.Advice()})
			} else {
				writeFeatures(cmd.OutOrStdout(), kernel, iface)
			}
			if err != nil {
				return err
			}
			if err := loader.MissingFeatures(kernel); err != nil {
				return cli.No(err)
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func writeFeatures(w io.Writer, kernel []loader.Feature, i *facts) {
	lines := [][]string{{"KERNEL", "HAVE", "NEED", "SINCE", "FOR"}}
	for _, f := range kernel {
		lines = append(lines, []string{f.Name, yesNo(f.Have), map[bool]string{true: "must", false: "may"}[f.Required], f.Since, f.Why})
	}
	for _, l := range cli.Align(lines) {
		fmt.Fprintln(w, l)
	}
	fmt.Fprintf(w, "\n%s\n", i.Name)
	rate := "unknown"
	if i.RateBps > 0 {
		rate = cli.Rate(i.RateBps) + "bit/s"
	}
	xdp := "unknown (the kernel tells from Linux 6.3 on); attach tries native mode first"
	if i.XDP != nil {
		xdp = fmt.Sprintf("native %s, redirect %s, frames of several buffers %s, AF_XDP zero copy %s",
			yesNo(i.XDP.Native), yesNo(i.XDP.Redirect), yesNo(i.XDP.Frags), yesNo(i.XDP.ZeroCopy))
	}
	program := "none"
	if i.XDPProgram != 0 {
		program = "id " + strconv.Itoa(int(i.XDPProgram))
	}
	pairs := [][2]string{
		{"driver", i.Driver}, {"speed", rate},
		{"queues", fmt.Sprintf("%d rx, %d tx", i.RxQueues, i.TxQueues)},
		{"XDP", xdp}, {"XDP program now", program}, {"root qdisc now", i.RootQdisc},
		{"MTU", fmt.Sprintf("%d: PMTU %d; room for the stamp option over IPv4 %s, over IPv6 %s", i.MTU, i.PMTU, yesNo(i.StampRoomV4), yesNo(i.StampRoomV6))},
	}
	for _, p := range i.Pacers {
		text := "works"
		if !p.Works {
			text = "no: " + p.Why
		}
		pairs = append(pairs, [2]string{"pacer " + string(p.Name), text})
	}
	var on []string
	for name, set := range i.Offloads {
		on = append(on, name+" "+map[bool]string{true: "on", false: "off"}[set])
	}
	slices.Sort(on)
	pairs = append(pairs, [2]string{"offloads", strings.Join(on, ", ")})
	cli.Pairs(w, "  ", pairs)
	for _, a := range i.Advice() {
		fmt.Fprintf(w, "  ! %s\n", a)
	}
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
