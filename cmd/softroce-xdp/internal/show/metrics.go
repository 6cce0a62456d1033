// SPDX-License-Identifier: Apache-2.0

package show

import (
	"errors"
	"os"

	"github.com/spf13/cobra"

	"github.com/softroce/softroce-xdp/cmd/internal/cli"
	"github.com/softroce/softroce-xdp/cmd/internal/host"
	"github.com/softroce/softroce-xdp/internal/files"
	"github.com/softroce/softroce-xdp/loader"
)

// metricsFlags are those of metrics.
type metricsFlags struct {
	destinations uint32
	output       string
}

func newMetrics(a *host.App) *cobra.Command {
	m := metricsFlags{destinations: 100}
	cmd := &cobra.Command{
		Use:   "metrics [IF...]",
		Short: "Print the metrics of this host for Prometheus",
		Long: `Metrics prints, in the text format of Prometheus, what status and table show: interfaces,
counters of the data plane and of the device that the agent serves, and destinations.
docs/run/operations.md lists them. The metrics of a memory pool are printed by softroce-pool metrics.

With --output it replaces a file at once, for the textfile collector of node_exporter.

What cannot be read is softroce_interface_up 0 or softroce_device_up 0. Everything else is
printed all the same. The exit code is 2 if an interface could not be read.`,
		Example:           `  softroce-xdp metrics --output /var/lib/prometheus/node-exporter/softroce.prom`,
		ValidArgsFunction: a.CompleteAttached,
		RunE:              func(cmd *cobra.Command, ifs []string) error { return m.run(a, cmd, ifs) },
	}
	f := cmd.Flags()
	f.Var(cli.CountVar(&m.destinations, 0, 1<<24), "destinations", "most destinations of an interface that are printed; those to which most bytes were sent come first")
	f.StringVarP(&m.output, "output", "o", "", "file that is replaced, mode 0644, instead of standard output")
	return cmd
}

func (m *metricsFlags) run(a *host.App, cmd *cobra.Command, ifs []string) error {
	ifs, err := a.RealNames(ifs)
	if err != nil {
		return err
	}
	if i, err := os.Lstat(m.output); err == nil && !i.Mode().IsRegular() {
		return cli.Usagef("--output %s: it is no regular file, and would be replaced: leave --output out to print", m.output)
	}
	var set samples
	err = m.interfaces(a, &set, ifs)
	if m.output != "" {
		return errors.Join(err, files.WriteStateMode(m.output, set.Text(), 0o644))
	}
	_, failed := cmd.OutOrStdout().Write(set.Text())
	return errors.Join(err, failed)
}

// interfaces reads the interfaces that are named, or all that are attached.
func (m *metricsFlags) interfaces(a *host.App, set *samples, ifs []string) error {
	set.Host(cli.Version)
	named := len(ifs) > 0
	if !named {
		var err error
		if ifs, _, err = loader.Attached(a.Options()); err != nil {
			return err
		}
	}
	var errs []error
	all, failed := readStatuses(a, ifs, named)
	set.Interfaces(len(all))
	for _, f := range failed {
		set.Absent(f.name)
		errs = append(errs, f.err)
	}
	for _, s := range all {
		if m.destinations == 0 {
			set.Interface(s)
			continue
		}
		t, err := readTable(a, s.Interface, nil, "tx-bytes")
		if err != nil {
			set.Absent(s.Interface)
			errs = append(errs, err)
			continue
		}
		set.Interface(s)
		set.Destinations(t, int(m.destinations))
	}
	return errors.Join(errs...)
}
