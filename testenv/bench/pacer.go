// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/softroce/softroce-xdp/internal/quantity"
	"github.com/softroce/softroce-xdp/testenv/bench/internal/compare"
	"github.com/softroce/softroce-xdp/testenv/experiments/rates"
)

// pacerCommand prints how well each pacer keeps its rates: what leaves, how far that
// is from the rate, and how soon a changed rate is in force.
func pacerCommand() *cobra.Command {
	cfg := rates.PacerConfig{Tries: 3}
	var names, list []string
	cmd := &cobra.Command{
		Use:   "pacer",
		Short: "Measure the rates of the kernel stack's pacers and of the engine's",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, s := range list {
				bps, err := quantity.ParseRate(s)
				if err != nil {
					return fmt.Errorf("--rates: %w", err)
				}
				cfg.Rates = append(cfg.Rates, bps)
			}
			return compare.Failure(measurePacers(cmd.Context(), cfg, names))
		},
	}
	f := cmd.Flags()
	f.StringVar(&cfg.Bin, "bin", "bin/softroce-xdp", "the product's binary")
	f.StringSliceVar(&names, "pacers", rates.Names, "which")
	f.StringSliceVar(&list, "rates", strings.Split("1M,3M,10M,30M,100M,300M,1G,2G,3G,5G,8G", ","), "at which rates")
	f.DurationVar(&cfg.Measure, "measure", 2*time.Second, "how long each rate is measured")
	f.BoolVar(&cfg.Stamped, "stamped", false, "the peer has the product too, so packets carry stamps")
	f.BoolVar(&cfg.Stalls, "emulated", false, "this machine is emulated, and stands still now and then")
	return cmd
}

func measurePacers(ctx context.Context, cfg rates.PacerConfig, names []string) (err error) {
	end, err := rates.Prefer()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	report := compare.NewReport(os.Stdout)
	report.Print("%s\n", rates.Head)
	var goals compare.Goals
	cfg.Note = func(r rates.PacerRow) {
		report.Print("%v\n", r)
		err := r.Verdict()
		goals.Expect(err == nil, "%v", err)
	}
	_, err = rates.RunPacers(ctx, cfg, names...)
	report.Goals(goals.Unmet())
	return errors.Join(err, report.Err())
}
