// SPDX-License-Identifier: Apache-2.0

package netbench

// `bench load` drives RDMA WRITE traffic between hosts or namespaces, without
// RDMA hardware or a kernel module.
//
//	bench load server                               answer on this host's address
//	bench load client --to 10.53.0.2,10.53.0.3      send to two destinations at once

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/testenv/bench/internal/compare"
	"github.com/softroce/softroce-xdp/testenv/lab/load"
)

// common are the flags of both commands.
type common struct {
	addr     string
	interval time.Duration
	json     bool
	load.Config
}

func (c *common) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&c.addr, "addr", "", "this host's address (default: the only one, or the route's)")
	f.DurationVar(&c.interval, "interval", 100*time.Millisecond, "time between lines of output")
	f.BoolVar(&c.json, "json", false, "print one JSON object a line")
	f.Uint64Var(&c.Seed, "seed", 1, "seed of --drop and --corrupt")
}

// open starts the endpoint on --addr, or else on the address that pick finds.
func (c *common) open(pick func() (netip.Addr, error)) (*load.Endpoint, error) {
	var err error
	if c.addr != "" {
		c.Local, err = netip.ParseAddr(c.addr)
	} else {
		c.Local, err = pick()
	}
	if err != nil {
		return nil, err
	}
	ep, err := load.Open(c.Config)
	if errors.Is(err, syscall.EADDRINUSE) {
		err = fmt.Errorf("%w; another RoCEv2 endpoint (rxe or bench load) listens on %s already", err, c.Local)
	}
	if err != nil {
		return nil, compare.Failure(err)
	}
	return ep, nil
}

// LoadCommand is the subcommand of bench.
func LoadCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "load",
		Short: "Drive RoCEv2 RDMA WRITE traffic from UDP sockets",
	}
	cmd.AddCommand(newServer(), newClient())
	return cmd
}

// ownAddress returns the host's only routable address, IPv4 preferred.
func ownAddress() (netip.Addr, error) {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return netip.Addr{}, compare.Failure(err)
	}
	var v4, v6 []netip.Addr
	for _, a := range addrs {
		p, err := netip.ParsePrefix(a.String())
		switch {
		case err != nil || !p.Addr().IsGlobalUnicast():
		case p.Addr().Is4():
			v4 = append(v4, p.Addr())
		default:
			v6 = append(v6, p.Addr())
		}
	}
	candidates := v4
	if len(v4) == 0 {
		candidates = v6
	}
	if len(candidates) != 1 {
		return netip.Addr{}, fmt.Errorf("cannot choose among the addresses %v; say which with --addr", append(v4, v6...))
	}
	return candidates[0], nil
}

// sourceFor returns the address that the host would send from.
func sourceFor(to netip.Addr) (netip.Addr, error) {
	// Connecting a UDP socket looks the route up and sends nothing.
	c, err := net.Dial("udp", netip.AddrPortFrom(to, rocev2.UDPPort).String())
	if err != nil {
		return netip.Addr{}, compare.Failure(err)
	}
	defer c.Close()
	return c.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Unmap(), nil
}

func parseAddrs(list string) ([]netip.Addr, error) {
	var out []netip.Addr
	for _, s := range strings.Split(list, ",") {
		a, err := netip.ParseAddr(strings.TrimSpace(s))
		if err != nil {
			return nil, fmt.Errorf("--to %q: %w", list, err)
		}
		out = append(out, a)
	}
	return out, nil
}
