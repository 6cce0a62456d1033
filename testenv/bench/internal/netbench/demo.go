// SPDX-License-Identifier: Apache-2.0

package netbench

// `bench demo` shows the product at work: two hosts in network namespaces, a
// bottleneck between them, RoCEv2 traffic, the destination table and what the
// policy decides. It needs root and leaves nothing behind. `make demo` builds all
// it needs and runs it.

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/softroce/softroce-xdp/testenv/bench/internal/compare"
	"github.com/softroce/softroce-xdp/testenv/lab/load"
	"github.com/softroce/softroce-xdp/testenv/lab/topo"
)

// Of the demonstration.
const (
	linkRate       = 1_000_000_000
	demoBottleneck = 100_000_000
	queueBytes     = 500_000 // 40 ms at the bottleneck
)

// DemoCommand is the subcommand of bench.
func DemoCommand() *cobra.Command {
	var bin string
	var seconds int
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show two hosts and a bottleneck, without the product and with it",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return compare.Failure(demoRun(cmd.Context(), bin, time.Duration(seconds)*time.Second))
		},
	}
	cmd.Flags().StringVar(&bin, "bin", "bin/softroce-xdp", "the product's binary")
	cmd.Flags().IntVar(&seconds, "seconds", 12, "how long to send with the product attached")
	return cmd
}

func demoRun(ctx context.Context, bin string, length time.Duration) (err error) {
	if os.Geteuid() != 0 {
		return errors.New("building network namespaces needs root: run `sudo make demo`")
	}
	if bin, err = filepath.Abs(bin); err != nil {
		return err
	}
	step("Two hosts, h1 and h2, and a switch whose port to h2 passes %d Mbit/s and queues %d ms.",
		demoBottleneck/1_000_000, queueBytes*8*1000/demoBottleneck)
	top, err := topo.New(topo.Spec{StaticNeighbours: true, Hosts: []topo.HostSpec{
		{NoOffload: true},
		{NoOffload: true, Bottleneck: &topo.Bottleneck{RateBPS: demoBottleneck, Limit: queueBytes}},
	}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, top.Close()) }()

	step("RDMA WRITEs from h1 to h2 without the product: the sender fills the queue.")
	result, err := send(ctx, top, 3*time.Second)
	if err != nil {
		return err
	}
	fmt.Println(result)

	step("The same with the product attached on both.")
	p := &demoProduct{bin: bin, hosts: top.Hosts()[:2]}
	if p.dir, err = os.MkdirTemp("", "softroce-demo-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.close()) }()
	if err := p.attach(); err != nil {
		return err
	}
	watching, stopWatching := context.WithCancel(ctx)
	watched := make(chan error, 1)
	go func() { watched <- p.watch(watching) }()
	result, err = send(ctx, top, length)
	stopWatching()
	if err := errors.Join(err, <-watched); err != nil {
		return err
	}
	fmt.Println("\n" + result)

	step("What bpftool shows of h1's table (its first lines).")
	if err := p.dump(); err != nil {
		return err
	}
	step("Detaching, and taking the hosts down.")
	return nil
}

func step(format string, args ...any) {
	fmt.Printf("\n--- "+format+"\n", args...)
}

// send runs one flow from h1 to h2 and reports on it.
func send(ctx context.Context, top *topo.Topology, length time.Duration) (string, error) {
	var ends [2]*load.Endpoint
	for i := range ends {
		h := top.Host(i + 1)
		ep, err := load.Open(load.Config{Local: h.IPv4(), Do: h.Do})
		if err != nil {
			return "", err
		}
		defer ep.Close()
		ends[i] = ep
	}
	port := top.Host(2).Port()
	before, err := port.Queue()
	if err != nil {
		return "", err
	}
	q := sampleQueue(port)
	report, err := ends[0].Send(ctx, load.Flow{To: top.Host(2).IPv4(), Duration: length, Window: 512})
	mean := q.stop()
	if err != nil {
		return "", err
	}
	after, err := port.Queue()
	if err != nil {
		return "", err
	}
	fill := float64(after.Sent-before.Sent) * 8 / report.Elapsed.Seconds() / demoBottleneck
	return fmt.Sprintf("%.1f Mbit/s of payload; bottleneck %.0f %% full, %.1f ms of queue there on average, %d packets dropped there, %d retransmissions",
		report.GoodputBPS/1e6, 100*fill, mean*8*1000/demoBottleneck, after.Drops-before.Drops, report.Retransmits), nil
}

// queueSampler averages a port's backlog.
type queueSampler struct {
	done chan struct{}
	mean chan float64
}

func sampleQueue(p *topo.Port) queueSampler {
	s := queueSampler{make(chan struct{}), make(chan float64, 1)}
	go func() {
		sum, n := 0.0, 0
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-s.done:
				s.mean <- sum / float64(max(n, 1))
				return
			case <-tick.C:
				if st, err := p.Queue(); err == nil {
					sum, n = sum+float64(st.Backlog), n+1
				}
			}
		}
	}()
	return s
}

// stop returns the mean backlog in bytes.
func (s queueSampler) stop() float64 {
	close(s.done)
	return <-s.mean
}

func indent(out []byte) string {
	return "  " + strings.ReplaceAll(strings.TrimRight(string(out), "\n"), "\n", "\n  ")
}
