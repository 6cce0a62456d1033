// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/softroce/softroce-xdp/cmd/softroce-xdp/internal/metrics"
	"github.com/softroce/softroce-xdp/internal/statefile"
	"github.com/softroce/softroce-xdp/loader"
	"github.com/softroce/softroce-xdp/mempool/node"
)

// metricsFlags are those of metrics.
type metricsFlags struct {
	device       engineFlags
	destinations uint32
	pools        []string
	output       string
	timeout      time.Duration
}

func newMetrics(a *app) *cobra.Command {
	m := metricsFlags{destinations: 100, timeout: 5 * time.Second}
	cmd := &cobra.Command{
		Use:   "metrics [IF...]",
		Short: "Print the metrics of this host for Prometheus",
		Long: `Metrics prints, in the text format of Prometheus, what status, table and pool status show:
interfaces, counters of the data plane and of the device that the agent serves,
destinations, and the servers of --pool with their nodes. docs/run/operations.md lists them.

With --output it replaces a file at once, for the textfile collector of node_exporter.

What cannot be read is softroce_interface_up 0, softroce_device_up 0 or softroce_pool_up 0.
Everything else is printed all the same. The exit code is 2 if an interface or a server of
--pool could not be read.

--pool needs a device that an agent serves (attach --nic), as an engine of this command
would keep other programs from opening theirs.`,
		Example: `  softroce-xdp metrics --output /var/lib/prometheus/node-exporter/softroce.prom
  softroce-xdp metrics --pool 10.0.0.2`,
		ValidArgsFunction: a.completeAttached,
		RunE:              func(cmd *cobra.Command, ifs []string) error { return m.run(a, cmd, ifs) },
	}
	f := cmd.Flags()
	f.Var(countVar{&m.destinations, 0, 1 << 24}, "destinations", "most destinations of an interface that are printed; those to which most bytes were sent come first")
	f.Var(newList(&m.pools, "a server", poolServer), "pool", "servers of the memory pool, HOST[:PORT] with commas between")
	f.StringVar(&m.device.iface, "dev", "", "the attached interface for --pool; may be left out if there is one")
	f.StringVarP(&m.output, "output", "o", "", "file that is replaced, mode 0644, instead of standard output")
	f.VarP(spanVar{&m.timeout, time.Millisecond, time.Hour}, "timeout", "W", "how long to wait for a server of --pool")
	_ = cmd.RegisterFlagCompletionFunc("dev", a.completeAttached)
	return cmd
}

func (m *metricsFlags) run(a *app, cmd *cobra.Command, ifs []string) error {
	ifs, err := a.realNames(ifs)
	if err != nil {
		return err
	}
	if i, err := os.Lstat(m.output); err == nil && !i.Mode().IsRegular() {
		return usagef("--output %s: it is no regular file, and would be replaced: leave --output out to print", m.output)
	}
	ctx, stop := interruptible(cmd.Context())
	defer stop()
	var set metrics.Set
	err = errors.Join(m.interfaces(a, &set, ifs), m.servers(ctx, a, &set))
	if ctx.Err() != nil {
		return errors.Join(err, ctx.Err()) // the servers that were not asked are not down
	}
	if m.output != "" {
		return errors.Join(err, statefile.WriteMode(m.output, set.Text(), 0o644))
	}
	_, failed := cmd.OutOrStdout().Write(set.Text())
	return errors.Join(err, failed)
}

// interfaces reads the interfaces that are named, or all that are attached.
func (m *metricsFlags) interfaces(a *app, set *metrics.Set, ifs []string) error {
	set.Host(version)
	named := len(ifs) > 0
	if !named {
		var err error
		if ifs, _, err = loader.Attached(a.options()); err != nil {
			return err
		}
	}
	var errs []error
	all, failed := a.readStatuses(ifs, named)
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
		t, err := a.readTable(s.Interface, nil, "tx-bytes")
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

// servers asks the servers of --pool.
func (m *metricsFlags) servers(ctx context.Context, a *app, set *metrics.Set) error {
	if len(m.pools) == 0 {
		return nil
	}
	down := func(err error) error {
		for _, at := range m.pools {
			set.NoPool(at)
		}
		return err
	}
	if m.device.served(a) == "" {
		return down(errors.New("--pool needs a device that an agent serves: `softroce-xdp attach --nic IF`, and --dev IF if there are several"))
	}
	dev, _, err := m.device.openConnector(ctx, a)
	if err != nil {
		return down(err)
	}
	defer dev.Close()
	var errs []error
	for _, at := range m.pools {
		bounded, cancel := context.WithTimeout(ctx, m.timeout)
		s, err := node.Status(bounded, dev, at)
		cancel()
		if err != nil {
			set.NoPool(at)
			errs = append(errs, fmt.Errorf("--pool %s: %w", at, err))
			continue
		}
		set.Pool(at, &s)
	}
	return errors.Join(errs...)
}
