// SPDX-License-Identifier: Apache-2.0

package nicbench

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/nic"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/testenv/bench/internal/status"
)

// latencyTarget is how much longer a message may take than raw AF_XDP there and
// back, both spinning or both sleeping.
const latencyTarget = 1.5

// frame8 is what a WRITE of 8 bytes takes on the wire, with its stamp.
const frame8 = 14 + 20 + rocev2.MinUDPLen + rocev2.RETHLen + 8 + rocev2.StampLen

// trips are the medians and 99th percentiles of rounds, in us.
type trips struct {
	name     string
	p50, p99 []float64
}

func (t *trips) add(all []time.Duration) {
	slices.Sort(all)
	t.p50 = append(t.p50, us(all[len(all)/2]))
	t.p99 = append(t.p99, us(all[len(all)*99/100]))
}

func us(d time.Duration) float64 { return float64(d) / 1e3 }

// latency compares one message at a time with a frame that goes there and back, and
// with TCP.
func latency(ctx context.Context, w *world, c config, r *report) error {
	modes := []struct {
		name string
		spin bool
	}{{"spinning", true}, {"sleeping", false}}
	for _, m := range modes {
		raw, tcp := &trips{name: "raw AF_XDP there and back"}, &trips{name: "TCP there and back"}
		ops := []*trips{{name: "WRITE of 8 B"}, {name: "READ of 8 B"}}
		options := nic.Options{Spin: -1}
		if m.spin {
			options.Spin = time.Hour
		}
		for range c.rounds {
			l, err := PingPong(ctx, w.ends, PingPongSpec{Size: frame8, Duration: c.each, Sleep: !m.spin})
			if err != nil {
				return err
			}
			raw.p50, raw.p99 = append(raw.p50, us(l.P50)), append(raw.p99, us(l.P99))
			t, err := tcpPingPong(w, 8, c.each, m.spin)
			if err != nil {
				return err
			}
			tcp.add(t)
			err = w.withEngines(options, func(devs [2]*nic.Device) error {
				for i, op := range []verbs.Op{verbs.OpWrite, verbs.OpRead} {
					t, err := roundTrips(devs, w, op, c.each, m.spin)
					if err != nil {
						return fmt.Errorf("%s: %w", ops[i].name, err)
					}
					ops[i].add(t)
				}
				return nil
			})
			if err != nil {
				return err
			}
		}
		r.table("Latency, everybody "+m.name, "8 BYTES\tP50 US\tMIN TO MAX\tP99 US\tMIN TO MAX\tP50 OVER RAW\tP99 OVER RAW\tP50 OVER TCP\tTARGET\t\t")
		r.limit(raw.p50)
		for _, t := range append([]*trips{raw, tcp}, ops...) {
			over, verdict := status.Median(ratios(t.p50, raw.p50)), none
			if t != raw && t != tcp {
				verdict = r.atMost(over, latencyTarget, "%.1f")
			}
			r.row("%s\t%.1f\t%s\t%.1f\t%s\t%.2f\t%.2f\t%.2f\t%s", t.name, status.Median(t.p50), span(t.p50, "%.1f"), status.Median(t.p99), span(t.p99, "%.1f"),
				over, status.Median(ratios(t.p99, raw.p99)), status.Median(ratios(t.p50, tcp.p50)), verdict)
		}
		r.end("The target is for p50.")
	}
	return nil
}

// roundTrips times single messages on a pair of its own.
func roundTrips(devs [2]*nic.Device, w *world, op verbs.Op, length time.Duration, spin bool) ([]time.Duration, error) {
	p, err := newPair(devs, w.addrs, pairSpec{qps: 1, depth: 4, memory: 4096, pmtu: rocev2.PMTU1024})
	if err != nil {
		return nil, err
	}
	all, err := p.roundTrips(op, 8, length, spin)
	return all, errors.Join(err, p.close())
}

// roundTrips times single messages, over one queue pair after the other.
func (p *pair) roundTrips(op verbs.Op, size int, length time.Duration, spin bool) ([]time.Duration, error) {
	runtime.LockOSThread() // like the raw ping-pong's threads
	defer runtime.UnlockOSThread()
	ctx, cancel := context.WithTimeout(context.Background(), length+patience)
	defer cancel()
	all := make([]time.Duration, 0, 1<<20)
	for begin, next := time.Now(), 0; time.Since(begin) < length; next++ {
		start := time.Now()
		if err := p.post(next%len(p.qps[0]), op, 0, size); err != nil {
			return nil, err
		}
		if _, err := p.wait(ctx, 0, p.batch[:], spin); err != nil {
			return nil, err
		}
		all = append(all, time.Since(start))
	}
	return all[len(all)/10:], nil // the rest warmed up
}
