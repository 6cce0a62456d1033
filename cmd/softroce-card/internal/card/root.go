// SPDX-License-Identifier: Apache-2.0

// Package card has the commands of softroce-card: the policy, the table, the memory and the registers of a card.
package card

import (
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/softroce/softroce-xdp/cmd/internal/cli"
	"github.com/softroce/softroce-xdp/loader"
)

// app has the settings that the commands of cards share.
type app struct {
	runDir string
	log    cli.LogFlags
}

// New returns the root command of softroce-card.
func New() *cobra.Command {
	a := &app{runDir: loader.DefaultRunDir}
	root := &cobra.Command{
		Short: "Drive a card that does in hardware what softroce-xdp does on an interface",
		Long: `softroce-card has the counterparts of the commands of softroce-xdp for interfaces. The card,
DEV, is named by
  0000:03:00.0            the address of a PCI device, whose BAR 0 is used
  /sys/.../resource0      the file of a PCI BAR, or a plain file of that size
  unix:/run/card.sock     the socket of a simulator, or of softroce-card model

One process at a time uses a card. While softroce-card attach runs, it is that process, and the
other commands reach the card through it. [DEV] may be left out if one card is attached.`,
	}
	root.PersistentFlags().Var(cli.DirVar(&a.runDir), "run-dir", "directory of state files and logs")
	a.log.Flags(root.PersistentFlags())
	root.PersistentPreRunE = func(*cobra.Command, []string) (err error) {
		// Later commands may have another working directory.
		if a.runDir, err = filepath.Abs(a.runDir); err != nil {
			return fmt.Errorf("--run-dir: %w", err)
		}
		return nil
	}
	root.AddCommand(newAttach(a), newStatus(a), newTable(a), newPolicy(a), newPrecredit(a), newStats(a), newDDR(a), newRegs(a), newModel())
	return root
}
