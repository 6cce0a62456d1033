// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/softroce/softroce-xdp/cmd/internal/cli"
	"github.com/softroce/softroce-xdp/loader/engine"
	"github.com/softroce/softroce-xdp/rocev2/cm"
	"github.com/softroce/softroce-xdp/rocev2/nic"
	"github.com/softroce/softroce-xdp/rocev2/rdma"
	"github.com/softroce/softroce-xdp/rocev2/rdma/client"
	"github.com/softroce/softroce-xdp/rocev2/rdma/proto"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// EngineFlags are the flags of commands that open an engine.
type EngineFlags struct {
	Iface     string
	Rails     []string
	Spin      time.Duration
	Precredit bool
	LargeDSCP uint32
}

// Flags adds the flags.
func (e *EngineFlags) Flags(a *App, cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&e.Iface, "dev", "", "the attached interface; may be left out if there is one")
	e.Spin = 20 * time.Microsecond
	f.Var(cli.SpanVar(&e.Spin, 0, time.Second), "spin", "how long the idle engine polls before it sleeps: latency against CPU time")
	f.BoolVar(&e.Precredit, "precredit", false, "grant pre-credit to peers whose engine has it too, and send first round trips on theirs")
	f.Var(cli.CountVar(&e.LargeDSCP, 0, 63), "large-dscp", "with --precredit: DSCP of large flows, for switches with a queue that they serve last; 0 for none")
	_ = cmd.RegisterFlagCompletionFunc("dev", a.CompleteAttached)
}

// Served returns the interface whose agent serves its engine: the one that was named, or the only one;
// "" if there is none. It needs no privileges.
func (e *EngineFlags) Served(a *App) string {
	names := []string{e.Iface}
	if e.Iface == "" {
		names = proto.Served(a.RunDir)
	}
	if len(names) != 1 {
		return ""
	}
	if _, err := os.Stat(proto.SocketPath(a.RunDir, names[0])); err != nil {
		return ""
	}
	return names[0]
}

// OpenServed opens the device that the agent of an interface serves.
func (e *EngineFlags) OpenServed(ctx context.Context, a *App, name string) (verbs.Device, error) {
	spin := e.Spin
	if spin == 0 {
		spin = -1
	}
	return rdma.Open(ctx, name, rdma.WithConfig(client.Config{RunDir: a.RunDir, Spin: spin}))
}

// Open opens a device on the interface, and returns the name of the interface.
func (e *EngineFlags) Open(ctx context.Context, a *App) (verbs.Device, string, error) {
	if name := e.Served(a); name != "" {
		if len(e.Rails) > 0 {
			return nil, "", cli.Usage(fmt.Errorf("the agent of %s serves its engine, which has one interface: --rail is for an engine of this command, after `softroce-xdp attach --upgrade --nic=false %s`", name, name))
		}
		if e.Precredit || e.LargeDSCP != 0 {
			return nil, "", cli.Usage(fmt.Errorf("the agent of %s serves its engine: --precredit and --large-dscp are for an engine of this command; for all users of the device, `softroce-xdp attach --upgrade --nic-precredit %s`", name, name))
		}
		dev, err := e.OpenServed(ctx, a, name)
		return dev, name, err
	}
	var args []string
	if e.Iface != "" {
		args = []string{e.Iface}
	}
	name, err := a.One(args)
	if err != nil {
		return nil, "", err
	}
	if e.LargeDSCP != 0 && !e.Precredit {
		return nil, "", cli.Usage(errors.New("--large-dscp goes with --precredit"))
	}
	spin := e.Spin
	if spin == 0 {
		spin = -1
	}
	dev, err := rdma.Open(ctx, name, rdma.WithDriver("softroce"), rdma.WithConfig(engine.Config{
		Loader: a.Options(),
		Rails:  e.Rails,
		NIC:    nic.Options{Spin: spin, PreCredit: e.Precredit, LargeDSCP: uint8(e.LargeDSCP)},
	}))
	return dev, strings.Join(append([]string{name}, e.Rails...), " and "), err
}

// RailFlag is the flag for further interfaces.
func (e *EngineFlags) RailFlag(a *App, cmd *cobra.Command) {
	cmd.Flags().Var(cli.ListVar(&e.Rails, "an interface", cli.OneWord), "rail", "further attached interfaces for --service ooo, as many at the client as at the server: the n-th leads to the n-th")
	_ = cmd.RegisterFlagCompletionFunc("rail", a.CompleteAttached)
}

// OpenConnector opens a device that can connect.
func (e *EngineFlags) OpenConnector(ctx context.Context, a *App) (verbs.Device, string, error) {
	dev, name, err := e.Open(ctx, a)
	if err != nil {
		return nil, "", err
	}
	if err := checkDevice(dev, name); err != nil {
		return nil, "", errors.Join(err, dev.Close())
	}
	return dev, name, nil
}

// checkDevice refuses a device that cannot connect by address.
func checkDevice(dev verbs.Device, name string) error {
	if _, ok := dev.(cm.Connector); ok {
		return nil
	}
	return fmt.Errorf("the device of %s has no communication manager, which connections by address need: update the agent "+
		"(`softroce-xdp attach --nic`), or attach without --nic and run this command as root", name)
}
