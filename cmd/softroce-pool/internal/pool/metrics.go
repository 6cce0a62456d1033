// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/softroce/softroce-xdp/cmd/internal/cli"
	"github.com/softroce/softroce-xdp/cmd/internal/host"
	"github.com/softroce/softroce-xdp/internal/files"
	"github.com/softroce/softroce-xdp/mempool/node"
)

// metricsFlags are those of metrics.
type metricsFlags struct {
	device  host.EngineFlags
	output  string
	timeout time.Duration
}

func newMetrics(a *host.App) *cobra.Command {
	m := metricsFlags{timeout: 5 * time.Second}
	cmd := &cobra.Command{
		Use:   "metrics HOST[:PORT]...",
		Short: "Print the metrics of servers for Prometheus",
		Long: `Metrics prints, in the text format of Prometheus, what status shows: servers of the memory pool
and their nodes. docs/run/operations.md lists the metrics.

With --output it replaces a file at once, for the textfile collector of node_exporter.

A server that cannot be read is softroce_pool_up 0. The other servers are printed all the same.
The exit code is 2 if a server could not be read.

It needs a device that an agent serves (softroce-xdp attach --nic), as an engine of this command
would keep other programs from opening theirs.`,
		Example: `  softroce-pool metrics --output /var/lib/prometheus/node-exporter/softroce-pool.prom 10.0.0.2`,
		Args:    cli.Takes(1, cli.Many),
		RunE:    func(cmd *cobra.Command, args []string) error { return m.run(a, cmd, args) },
	}
	f := cmd.Flags()
	f.StringVar(&m.device.Iface, "dev", "", "the attached interface; may be left out if there is one")
	f.StringVarP(&m.output, "output", "o", "", "file that is replaced, mode 0644, instead of standard output")
	f.VarP(cli.SpanVar(&m.timeout, time.Millisecond, time.Hour), "timeout", "W", "how long to wait for a server")
	_ = cmd.RegisterFlagCompletionFunc("dev", a.CompleteAttached)
	return cmd
}

func (m *metricsFlags) run(a *host.App, cmd *cobra.Command, args []string) error {
	var servers []string
	for _, arg := range args {
		at, err := serverAddress(arg)
		if err != nil {
			return err
		}
		if slices.Contains(servers, at) {
			return cli.Usagef("%s stands twice", at)
		}
		servers = append(servers, at)
	}
	if i, err := os.Lstat(m.output); err == nil && !i.Mode().IsRegular() {
		return cli.Usagef("--output %s: it is no regular file, and would be replaced: leave --output out to print", m.output)
	}
	ctx, stop := cli.Interruptible(cmd.Context())
	defer stop()
	var set samples
	err := m.servers(ctx, a, &set, servers)
	if ctx.Err() != nil {
		return errors.Join(err, ctx.Err()) // the servers that were not asked are not down
	}
	if m.output != "" {
		return errors.Join(err, files.WriteStateMode(m.output, set.Text(), 0o644))
	}
	_, failed := cmd.OutOrStdout().Write(set.Text())
	return errors.Join(err, failed)
}

// servers asks the servers.
func (m *metricsFlags) servers(ctx context.Context, a *host.App, set *samples, servers []string) error {
	down := func(err error) error {
		for _, at := range servers {
			set.absent(at)
		}
		return err
	}
	if m.device.Served(a) == "" {
		return down(errors.New("this needs a device that an agent serves: `softroce-xdp attach --nic IF`, and --dev IF if there are several"))
	}
	dev, _, err := m.device.OpenConnector(ctx, a)
	if err != nil {
		return down(err)
	}
	defer dev.Close()
	var errs []error
	for _, at := range servers {
		bounded, cancel := context.WithTimeout(ctx, m.timeout)
		s, err := node.Status(bounded, dev, at)
		cancel()
		if err != nil {
			set.absent(at)
			errs = append(errs, fmt.Errorf("%s: %w", at, err))
			continue
		}
		set.server(at, &s)
	}
	return errors.Join(errs...)
}
