// SPDX-License-Identifier: Apache-2.0

package netbench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/testenv/lab/rxepeer"
)

type rxeBench struct {
	rxeOptions
	client, server *rxepeer.VM
	route          rxepeer.Route
}

const (
	reads        = 16 // at a time: what perf of the product keeps outstanding
	perftestPort = 18515
	enginePort   = 18516
	iface        = "eth0"
	rxeProduct   = "softroce-xdp"
)

// rxe measures all rows with perftest.
func (b *rxeBench) rxe(ctx context.Context) (bps []float64, err error) {
	for _, r := range rxeRows() {
		argv := []string{
			"ib_" + r.op + "_bw", "-s", strconv.Itoa(r.size), "-m", strconv.Itoa(b.pmtu), "-t", strconv.Itoa(b.depthOf(r.size)),
			"-D", strconv.Itoa(b.seconds), "-u", "17", "--report_gbits", "-F",
		}
		if r.op == "read" {
			argv = append(argv, "-o", strconv.Itoa(reads))
		}
		x := rxepeer.Exchange{
			Name: r.op, Ready: rxepeer.Readiness{TCPPort: perftestPort}, Timeout: 2 * time.Minute,
			Server: append(append([]string{}, argv...), "-x", strconv.Itoa(b.route.ServerGID)),
			Client: append(append([]string{}, argv...), "-x", strconv.Itoa(b.route.ClientGID), b.route.Control.String()),
		}
		out, err := b.server.Exchange(ctx, b.client, x)
		if err != nil {
			return nil, err
		}
		gbits, err := rxepeer.PerftestFigure(out.Client.Stdout, strconv.Itoa(r.size), 3) // the average
		if err != nil {
			return nil, fmt.Errorf("%s of %d: %w", r.op, r.size, err)
		}
		bps = append(bps, gbits*1e9)
	}
	return bps, nil
}

// engine attaches the product with these flags in both machines, measures all rows, and detaches it.
func (b *rxeBench) engine(ctx context.Context, flags ...string) (bps []float64, err error) {
	for _, vm := range []*rxepeer.VM{b.server, b.client} {
		argv := append([]string{rxeProduct, "attach", iface}, flags...)
		if _, err := vm.Run(ctx, argv...); err != nil {
			return nil, err
		}
		defer func() {
			_, derr := vm.Run(context.WithoutCancel(ctx), rxeProduct, "detach", iface)
			err = errors.Join(err, derr)
		}()
	}
	server, err := b.server.StartCmd(ctx, rxepeer.Cmd{Argv: []string{rxeProduct, "perf", "server"}, Timeout: time.Hour})
	if err != nil {
		return nil, err
	}
	defer func() { // before detach
		_ = server.Signal(unix.SIGINT)
		_, werr := server.Wait(context.WithoutCancel(ctx))
		err = errors.Join(err, werr)
	}()
	if err := server.AwaitReady(ctx, rxepeer.Readiness{TCPPort: enginePort}); err != nil {
		return nil, err
	}
	for _, r := range rxeRows() {
		res, err := b.client.RunCmd(ctx, rxepeer.Cmd{Timeout: 2 * time.Minute, Argv: []string{
			rxeProduct, "perf", r.op, b.route.Control.String(), "--size", strconv.Itoa(r.size), "--mtu", strconv.Itoa(b.pmtu),
			"--depth", strconv.Itoa(b.depthOf(r.size)), "--duration", (time.Duration(b.seconds) * time.Second).String(),
			"--warmup", warmup.String(), "--timeout", "17", "--json",
		}})
		if err != nil {
			out, errOut := server.Output()
			return nil, fmt.Errorf("%w\nthe server said:\n%s%s", err, out, errOut)
		}
		var got struct {
			Bps  uint64 `json:"bits_per_second"`
			PMTU int    `json:"path_mtu"`
		}
		if err := json.Unmarshal([]byte(res.Stdout), &got); err != nil {
			return nil, fmt.Errorf("%w in %q", err, res.Stdout)
		}
		if got.PMTU != b.pmtu {
			return nil, fmt.Errorf("the path MTU was %d, not %d", got.PMTU, b.pmtu)
		}
		bps = append(bps, float64(got.Bps))
		if b.verbose {
			table, _ := b.client.Run(ctx, rxeProduct, "table", iface, "--json")
			fmt.Printf("%s %d\n%s\n%s\n", r.op, r.size, res.Stdout, table.Stdout)
		}
	}
	return bps, nil
}
