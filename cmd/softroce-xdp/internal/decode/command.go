// SPDX-License-Identifier: Apache-2.0

package decode

import (
	"github.com/spf13/cobra"

	"github.com/softroce/softroce-xdp/cmd/internal/cli"
)

// New returns the command decode.
func New() *cobra.Command {
	var o Options
	cmd := &cobra.Command{
		Use:   "decode FILE",
		Short: "Print the RoCEv2 packets of a capture",
		Long: `Decode reads a pcap or pcapng file (- is the standard input) and prints one line a
packet: addresses, opcode, PSN, what the headers say, the verdict on the ICRC and
the stamp option. It ends with exit code 3 if any ICRC is wrong.`,
		Example: "  tcpdump -i eth0 -w - udp port 4791 | softroce-xdp decode -",
		Args:    cli.Takes(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := File(cmd.OutOrStdout(), args[0], o)
			if err != nil {
				return cli.FileError(err)
			}
			if s.BadICRC > 0 {
				return cli.AnswerNo("%s: %d of %d RoCEv2 packets have a wrong ICRC", args[0], s.BadICRC, s.RoCE)
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&o.All, "all", false, "a line for packets that are not RoCEv2, too")
	cmd.Flags().BoolVarP(&o.Quiet, "quiet", "q", false, "the summary only")
	return cmd
}
