// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/loader"
	"github.com/softroce/softroce-xdp/testenv/lab/load"
	"github.com/softroce/softroce-xdp/testenv/lab/require"
	"github.com/softroce/softroce-xdp/testenv/lab/topo"
)

// fan is a host that sends to some of four others.
type fan struct {
	t      *testing.T
	top    *topo.Topology
	link   float64              // bit/s
	tables []*loader.Attachment // attachments of each host
	ends   []*load.Endpoint
	stops  [4]context.CancelFunc
	done   [4]chan error
}

func newFan(t *testing.T, flags ...string) *fan {
	x := &fan{t: t, link: 100e6, top: topo.ForTest(t, topo.Spec{Hosts: topo.Hosts(5), MTU: 4300, StaticNeighbours: true})}
	for i, h := range x.top.Hosts() {
		ep, err := load.Open(load.Config{Local: h.IPv4(), Do: h.Do})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { ep.Close() })
		x.ends = append(x.ends, ep)
		n := newNode(t, h)
		args := []string{"attach", topo.IfName, "--rate", "100M"}
		if i == 0 {
			args = append(args, flags...)
		}
		n.must(t, args...)
		x.tables = append(x.tables, n.open(t))
	}
	t.Cleanup(func() { x.send() })
	return x
}

// send has exactly these of the four destinations be sent to.
func (x *fan) send(to ...int) {
	want := [4]bool{}
	for _, i := range to {
		want[i] = true
	}
	for i := range x.stops {
		switch {
		case want[i] && x.stops[i] == nil:
			ctx, cancel := context.WithCancel(context.Background())
			done := make(chan error, 1)
			x.stops[i], x.done[i] = cancel, done
			go func() {
				_, err := x.ends[0].Send(ctx, load.Flow{
					To: x.top.Host(i + 2).IPv4(), PMTU: 4096, Window: 128, SendBuffer: 64 * 2300, MinRTO: time.Second, GiveUp: testkit.Patience,
				})
				done <- err
			}()
		case !want[i] && x.stops[i] != nil:
			x.stops[i]()
			if err := <-x.done[i]; err != nil {
				x.t.Errorf("flow to destination %d: %v", i+1, err)
			}
			x.stops[i] = nil
		}
	}
}

// row is what a host's table, of those from 1 on, says of another host.
func (x *fan) row(host, of int) bpf.DestRegs {
	r, _, err := x.tables[host-1].Lookup(x.top.Host(of).IPv4())
	if err != nil {
		x.t.Fatal(err)
	}
	return r.Regs
}

// arrived is what each destination has got, in bits of L2 frames.
func (x *fan) arrived() (frames [4]uint64) {
	for i := range frames {
		r := x.row(i+2, 1)
		frames[i] = 8 * (r.RxBytes + 14*r.RxPackets)
	}
	return frames
}

// even has these be sent to, and waits until all have the same part of the link, by their
// registers and in what arrives, of which a machine that is busy makes less.
func (x *fan) even(to ...int) {
	x.t.Helper()
	x.send(to...)
	want := x.link / float64(len(to))
	var rates []uint64
	testkit.Eventually(x.t, "even rates", func() bool {
		rates = rates[:0]
		same := true
		for _, i := range to {
			rate := x.row(1, i+2).RateBps
			rates = append(rates, rate)
			same = same && float64(rate) >= .95*want && float64(rate) <= 1.05*want
		}
		return same
	})
	const tries = 10
	begin := time.Now()
	for try := 1; ; try++ {
		start := time.Now()
		before := x.arrived()
		time.Sleep(2 * time.Second)
		after, took := x.arrived(), time.Since(start).Seconds()
		least, sum := 1.0, 0.0
		for _, i := range to {
			part := float64(after[i]-before[i]) / took / x.link
			least, sum = min(least, part), sum+part
		}
		x.t.Logf("%d destinations, rates %d: the least has %.3f of the link, all have %.3f", len(to), rates, least, sum)
		even := least >= .85*sum/float64(len(to))
		switch {
		case even && sum >= .9 && sum <= 1.05:
			return
		case even && sum < .9 && try >= require.Tries(tries):
			require.Missed(x.t, "%d destinations: only %.2f of the link is used", len(to), sum)
			return
		case time.Since(begin) > testkit.Patience: // until then, a host that did not run for a while catches up
			x.t.Fatalf("%d destinations: the least has %.3f of the link, all have %.3f", len(to), least, sum)
		}
	}
}

// Destinations come and go: each has an even share of the link, and their sum is the link
// (S1.2).
func TestEvenShareOfTheLink(t *testing.T) {
	for name, flags := range map[string][]string{
		"fixed":  {"--policy", "mode=fixed", "--policy", "initial-rate=100M"},
		"robust": {"--policy", "target=5ms", "--policy", "target-max=20ms"}, // hosts that share two cores are late
	} {
		t.Run(name, func(t *testing.T) {
			x := newFan(t, flags...)
			x.even(0)
			x.even(0, 1, 2, 3)
			x.even(2, 3)
			x.even(2)
		})
	}
}
