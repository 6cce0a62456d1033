// SPDX-License-Identifier: Apache-2.0

package netbench

// `bench sweep` runs `softroce-xdp perf` between two hosts of a topology over many combinations of
// operation, service, size, MTU, PMTU, queue pairs and depth. Every run must end within its bound, and a
// reliable one must send at most mostSent packets for each that is delivered. UC and UD send every packet
// once; what arrives of that is shown and not judged, as nothing tells them that a receiver is too slow.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/testenv/lab/engines"
	"github.com/softroce/softroce-xdp/testenv/lab/topo"
)

// mostSent is how many packets may be sent for one that is delivered.
const mostSent = 1.05

// fewPackets is how many packets sent again are no verdict, whatever the ratio: probes of a run that
// sends hardly anything on a machine that stops it.
const fewPackets = 50

// sweepResult is what came of a case.
type sweepResult struct {
	sweepCase
	took     time.Duration
	messages uint64
	gbps     float64
	packets  uint64  // data packets of both hosts
	again    uint64  // data packets that were sent before
	arrived  float64 // share of the messages; less than 1 with UC and UD only
	err      error
}

// sent is the number of packets sent for one that is delivered.
func (r *sweepResult) sent() float64 {
	if r.packets <= r.again {
		return 1
	}
	return float64(r.packets) / float64(r.packets-r.again)
}

// miss says what is wrong with the result; nil: nothing.
func (r *sweepResult) miss() error {
	switch {
	case r.err != nil:
		return r.err
	case r.messages == 0:
		return errors.New("no message was counted")
	case r.sent() > mostSent && r.again > fewPackets:
		return fmt.Errorf("%.3f packets sent for one delivered, %.2f are allowed", r.sent(), mostSent)
	}
	return nil
}

// sweepOptions say how to run the cases.
type sweepOptions struct {
	bin      string        // the product's binary
	duration time.Duration // time of the measurement
	bound    time.Duration // limit of the whole run, from process start to end
}

// sweep runs the cases in their order and hands each result to report. Cases of one MTU in a row share
// their hosts.
func sweep(ctx context.Context, o sweepOptions, cases []sweepCase, report func(sweepResult)) (err error) {
	for len(cases) > 0 {
		n := 1
		for n < len(cases) && cases[n].mtu == cases[0].mtu {
			n++
		}
		if err := o.runMTU(ctx, cases[:n], report); err != nil {
			return err
		}
		cases = cases[n:]
	}
	return nil
}

func (o sweepOptions) runMTU(ctx context.Context, cases []sweepCase, report func(sweepResult)) (err error) {
	dir, err := os.MkdirTemp("", "sweep-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	top, err := topo.New(topo.Spec{Hosts: topo.Hosts(2), StaticNeighbours: true, MTU: cases[0].mtu})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, top.Close()) }()
	hosts, detach, err := engines.Attach(top, o.bin, dir, "--rate", "40G")
	defer func() { err = errors.Join(err, detach()) }()
	if err != nil {
		return err
	}
	for _, c := range cases {
		if err := ctx.Err(); err != nil {
			return err
		}
		r, err := o.one(ctx, hosts, dir, c)
		if err != nil {
			return err
		}
		report(r)
	}
	return nil
}

// one runs a case against a server of its own: what one run leaves behind is none of the next.
func (o sweepOptions) one(ctx context.Context, hosts []*engines.Host, dir string, c sweepCase) (r sweepResult, err error) {
	r.sweepCase = c
	ctx, cancel := context.WithTimeout(ctx, o.bound)
	defer cancel()
	log, err := os.Create(filepath.Join(dir, "server.log"))
	if err != nil {
		return r, err
	}
	defer log.Close()
	server := o.command(ctx, hosts[1], "perf", "server")
	server.Stdout, server.Stderr = log, log
	if err := server.Start(); err != nil {
		return r, err
	}
	defer func() {
		_ = server.Process.Signal(unix.SIGTERM)
		_ = server.Wait()
	}()
	for !listening(log.Name()) {
		select {
		case <-ctx.Done():
			r.err = fmt.Errorf("the server did not start within %v", o.bound)
			return r, nil
		case <-time.After(10 * time.Millisecond):
		}
	}
	start := time.Now()
	client := o.command(ctx, hosts[0], c.args(hosts[1].IPv4().String(), o.duration)...)
	out, err := client.Output()
	r.took = time.Since(start)
	switch {
	case ctx.Err() != nil:
		r.err = fmt.Errorf("it has not ended within %v", o.bound)
	case err != nil:
		r.err = failure(err)
	default:
		r.err = r.parse(out)
	}
	return r, nil
}

// listening reports whether the server has said that it listens.
func listening(log string) bool {
	b, _ := os.ReadFile(log)
	return strings.Contains(string(b), "clients come to")
}

// command is one of the product's on a host; it is killed when ctx ends.
func (o sweepOptions) command(ctx context.Context, h *engines.Host, args ...string) *topo.Cmd {
	l := h.LoaderOptions()
	return h.CommandContext(ctx, o.bin, append(args, "--pin-root", l.PinRoot, "--run-dir", l.RunDir)...)
}

func (c sweepCase) args(server string, d time.Duration) []string {
	args := []string{
		"perf", c.op, server, "--json", "--qps", fmt.Sprint(c.qps), "--depth", fmt.Sprint(c.depth), "--mtu", fmt.Sprint(c.pmtu),
		"--duration", d.String(), "--warmup", "0s",
	}
	if c.op != "fetch-add" && c.op != "compare-swap" {
		args = append(args, "--size", fmt.Sprint(c.size), "--service", c.service)
	}
	return args
}

// failure is what the product said.
func failure(err error) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		lines := strings.Split(strings.TrimSpace(string(exit.Stderr)), "\n")
		return fmt.Errorf("%w: %s", err, lines[len(lines)-1])
	}
	return err
}

// parse takes what perf --json prints.
func (r *sweepResult) parse(out []byte) error {
	var p struct {
		Messages  uint64            `json:"messages"`
		Bps       uint64            `json:"bits_per_second"`
		Sent      uint64            `json:"sent"`
		Received  uint64            `json:"received"`
		Counters  map[string]uint64 `json:"counters"`
		PeerCount map[string]uint64 `json:"peer_counters"`
	}
	if err := json.Unmarshal(out, &p); err != nil {
		return fmt.Errorf("perf printed no JSON: %w", err)
	}
	r.messages, r.gbps, r.arrived = p.Messages, float64(p.Bps)/1e9, float64(p.Received)/float64(max(p.Sent, 1))
	for _, side := range []map[string]uint64{p.Counters, p.PeerCount} {
		r.packets += side["tx_data_pkts"]
		r.again += side["tx_retransmits"]
	}
	return nil
}
