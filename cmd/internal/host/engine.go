// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/softroce/softroce-xdp/cmd/internal/cli"
	"github.com/softroce/softroce-xdp/loader"
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
	Iface string
	// Peer is HOST:PORT of the server of a client. Without Iface, the interface is the one of the route to it.
	Peer      string
	Rails     []string
	Spin      time.Duration
	Precredit bool
	LargeDSCP uint32
}

// Flags adds the flags.
func (e *EngineFlags) Flags(a *App, cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&e.Iface, "dev", "", "the attached interface; default: the only one, or that of the route to the host")
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
		names = served(a.RunDir)
	}
	if len(names) != 1 {
		return ""
	}
	if _, err := os.Stat(proto.SocketPath(a.RunDir, names[0])); err != nil {
		return ""
	}
	return names[0]
}

// served returns the interfaces whose agents serve their engines. If some are in this network namespace, others
// are left out.
func served(runDir string) []string {
	all := proto.Served(runDir)
	here := slices.DeleteFunc(slices.Clone(all), func(name string) bool {
		_, err := net.InterfaceByName(name)
		return err != nil
	})
	if len(here) > 0 {
		return here
	}
	return all
}

// choose chooses an interface if none was named and there are several: the one of the route to the peer.
func (e *EngineFlags) choose(ctx context.Context, a *App) error {
	if e.Iface != "" {
		return nil
	}
	names := served(a.RunDir)
	if len(names) == 0 {
		names, _, _ = loader.Attached(a.Options()) // an error is that of Open
	}
	if len(names) < 2 {
		return nil
	}
	name, err := pick(ctx, names, e.Peer)
	e.Iface = name
	return err
}

// pick returns the one of several interfaces by which the route to a peer leads. peer is "host:port", or "" if there
// is none.
func pick(ctx context.Context, names []string, peer string) (string, error) {
	why := ""
	if peer != "" {
		name, err := routeTo(ctx, peer)
		switch {
		case err != nil:
			why = fmt.Sprintf(", and the route to %s is unknown: %v", peer, err)
		case slices.Contains(names, name):
			return name, nil
		default:
			why = fmt.Sprintf(", and the route to %s leads by %s", peer, name)
		}
	}
	return "", cli.Usagef("several interfaces are attached (%s)%s: choose one with --dev", strings.Join(names, ", "), why)
}

// routeTo returns the interface that has the source address of the route to "host:port".
func routeTo(ctx context.Context, address string) (string, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "udp", address) // sends nothing
	if err != nil {
		return "", err
	}
	defer c.Close()
	source := c.LocalAddr().(*net.UDPAddr).IP
	all, err := net.Interfaces()
	if err != nil {
		return "", err
	}
	for _, i := range all {
		addrs, _ := i.Addrs() // fails if the interface was deleted meanwhile
		if slices.ContainsFunc(addrs, func(a net.Addr) bool { n, ok := a.(*net.IPNet); return ok && n.IP.Equal(source) }) {
			return i.Name, nil
		}
	}
	return "", fmt.Errorf("no interface has its source address %s", source)
}

// OpenServed opens the device that the agent of an interface serves.
func (e *EngineFlags) OpenServed(ctx context.Context, a *App, name string) (verbs.Device, error) {
	spin := e.Spin
	if spin == 0 {
		spin = -1
	}
	return rdma.Open(ctx, name, rdma.WithConfig(client.Config{RunDir: a.RunDir, Spin: spin}))
}

// Open opens a device on the interface, and returns the name of the interface. Without Iface, it chooses one.
func (e *EngineFlags) Open(ctx context.Context, a *App) (verbs.Device, string, error) {
	if err := e.choose(ctx, a); err != nil {
		return nil, "", err
	}
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
