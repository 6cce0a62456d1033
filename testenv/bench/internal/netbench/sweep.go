// SPDX-License-Identifier: Apache-2.0

package netbench

// `bench sweep` runs `softroce-xdp perf` between two hosts of a topology over many combinations of
// operation, service, size, MTU, PMTU, queue pairs and depth. Every run must end within its bound, and a
// reliable one must send at most MostSent packets for each that is delivered. UC and UD send every packet
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

// MostSent is how many packets may be sent for one that is delivered.
const MostSent = 1.05

// fewPackets is how many packets sent again are no verdict, whatever the ratio: probes of a run that
// sends hardly anything on a machine that stops it.
const fewPackets = 50

// Result is what came of a case.
type Result struct {
	Case     Case
	Took     time.Duration
	Messages uint64
	Gbps     float64
	Packets  uint64  // data packets, both hosts
	Again    uint64  // packets of Packets that were sent before
	Arrived  float64 // share of the messages; less than 1 with UC and UD only
	Err      error
}

// Sent is the number of packets sent for one that is delivered.
func (r *Result) Sent() float64 {
	if r.Packets <= r.Again {
		return 1
	}
	return float64(r.Packets) / float64(r.Packets-r.Again)
}

// Miss says what is wrong with the result; nil: nothing.
func (r *Result) Miss() error {
	switch {
	case r.Err != nil:
		return r.Err
	case r.Messages == 0:
		return errors.New("no message was counted")
	case r.Sent() > MostSent && r.Again > fewPackets:
		return fmt.Errorf("%.3f packets sent for one delivered, %.2f are allowed", r.Sent(), MostSent)
	}
	return nil
}

// Options say how to run the cases.
type Options struct {
	Bin      string        // the product's binary
	Duration time.Duration // duration of the measurement
	Bound    time.Duration // longest time of the whole run, from process start to end
}

// RunSweep runs the cases in their order and hands each result to report. Cases of one MTU in a row share
// their hosts.
func RunSweep(ctx context.Context, o Options, cases []Case, report func(Result)) (err error) {
	for len(cases) > 0 {
		n := 1
		for n < len(cases) && cases[n].MTU == cases[0].MTU {
			n++
		}
		if err := o.runMTU(ctx, cases[:n], report); err != nil {
			return err
		}
		cases = cases[n:]
	}
	return nil
}

func (o Options) runMTU(ctx context.Context, cases []Case, report func(Result)) (err error) {
	dir, err := os.MkdirTemp("", "sweep-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	top, err := topo.New(topo.Spec{Hosts: topo.Hosts(2), StaticNeighbours: true, MTU: cases[0].MTU})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, top.Close()) }()
	hosts, detach, err := engines.Attach(top, o.Bin, dir, "--rate", "40G")
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
func (o Options) one(ctx context.Context, hosts []*engines.Host, dir string, c Case) (r Result, err error) {
	r.Case = c
	ctx, cancel := context.WithTimeout(ctx, o.Bound)
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
			r.Err = fmt.Errorf("the server did not start within %v", o.Bound)
			return r, nil
		case <-time.After(10 * time.Millisecond):
		}
	}
	start := time.Now()
	client := o.command(ctx, hosts[0], c.args(hosts[1].IPv4().String(), o.Duration)...)
	out, err := client.Output()
	r.Took = time.Since(start)
	switch {
	case ctx.Err() != nil:
		r.Err = fmt.Errorf("it has not ended within %v", o.Bound)
	case err != nil:
		r.Err = failure(err)
	default:
		r.Err = r.parse(out)
	}
	return r, nil
}

// listening reports whether the server has said that it listens.
func listening(log string) bool {
	b, _ := os.ReadFile(log)
	return strings.Contains(string(b), "clients come to")
}

// command is one of the product's on a host; it is killed when ctx ends.
func (o Options) command(ctx context.Context, h *engines.Host, args ...string) *topo.Cmd {
	l := h.LoaderOptions()
	return h.CommandContext(ctx, o.Bin, append(args, "--pin-root", l.PinRoot, "--run-dir", l.RunDir)...)
}

func (c Case) args(server string, d time.Duration) []string {
	args := []string{
		"perf", c.Op, server, "--json", "--qps", fmt.Sprint(c.QPs), "--depth", fmt.Sprint(c.Depth), "--mtu", fmt.Sprint(c.PMTU),
		"--duration", d.String(), "--warmup", "0s",
	}
	if c.Op != "fetch-add" && c.Op != "compare-swap" {
		args = append(args, "--size", fmt.Sprint(c.Size), "--service", c.Service)
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
func (r *Result) parse(out []byte) error {
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
	r.Messages, r.Gbps, r.Arrived = p.Messages, float64(p.Bps)/1e9, float64(p.Received)/float64(max(p.Sent, 1))
	for _, side := range []map[string]uint64{p.Counters, p.PeerCount} {
		r.Packets += side["tx_data_pkts"]
		r.Again += side["tx_retransmits"]
	}
	return nil
}
