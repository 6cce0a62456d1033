// SPDX-License-Identifier: Apache-2.0

package nicbench

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"time"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/nic"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/testenv/bench/internal/compare"
)

// latencyTarget is how much longer a message may take than raw AF_XDP there and
// back, both spinning or both sleeping.
var latencyTarget = compare.AtMost(1.5, "%.1f")

// frame8 is what a WRITE of 8 bytes takes on the wire, with its stamp.
const frame8 = 14 + 20 + rocev2.MinUDPLen + rocev2.RETHLen + 8 + rocev2.StampLen

// trips are the median and the 99th percentile of a round, in us.
type trips struct{ p50, p99 float64 }

func tripsOf(all []time.Duration) trips {
	slices.Sort(all)
	return trips{us(all[len(all)/2]), us(all[len(all)*99/100])}
}

func us(d time.Duration) float64 { return float64(d) / 1e3 }

// latency compares one message at a time with a frame that goes there and back, and
// with TCP.
func latency(ctx context.Context, w *world, c config, r *compare.Report) error {
	modes := []struct {
		name string
		spin bool
	}{{"spinning", true}, {"sleeping", false}}
	for _, m := range modes {
		options := nic.Options{Spin: -1}
		if m.spin {
			options.Spin = time.Hour
		}
		engine := func(name string, op verbs.Op) compare.Candidate[trips] {
			return compare.Candidate[trips]{Name: name, Measure: func(context.Context) (t trips, err error) {
				err = w.withEngines(options, func(devs [2]*nic.Device) error {
					all, err := roundTrips(devs, w, op, c.each, m.spin)
					if err == nil {
						t = tripsOf(all)
					}
					return err
				})
				return t, err
			}}
		}
		const raw, tcp = 0, 1
		all := []compare.Candidate[trips]{
			{Name: "raw AF_XDP there and back", Measure: func(ctx context.Context) (trips, error) {
				l, err := PingPong(ctx, w.ends, PingPongSpec{Size: frame8, Duration: c.each, Sleep: !m.spin})
				return trips{us(l.P50), us(l.P99)}, err
			}},
			{Name: "TCP there and back", Measure: func(context.Context) (t trips, err error) {
				all, err := tcpPingPong(w, 8, c.each, m.spin)
				if err != nil {
					return t, err
				}
				return tripsOf(all), nil
			}},
			engine("WRITE of 8 B", verbs.OpWrite),
			engine("READ of 8 B", verbs.OpRead),
		}
		runs, err := compare.Turns(ctx, c.rounds, all...)
		if err != nil {
			return err
		}
		p50 := func(i int) compare.Series { return runs[i].Series(func(t trips) float64 { return t.p50 }) }
		p99 := func(i int) compare.Series { return runs[i].Series(func(t trips) float64 { return t.p99 }) }
		t := r.Titled("Latency, everybody "+m.name, "8 BYTES\tP50 US\tMIN TO MAX\tP99 US\tMIN TO MAX\tP50 OVER RAW\tP99 OVER RAW\tP50 OVER TCP\tTARGET\t\t")
		t.Reference(p50(raw))
		for i, x := range all {
			over, verdict := p50(i).Over(p50(raw)), compare.None
			if i > tcp {
				verdict = t.Median(latencyTarget, over)
			}
			t.Row("%s\t%.1f\t%s\t%.1f\t%s\t%.2f\t%.2f\t%.2f\t%s", x.Name, p50(i).Median(), p50(i).Span("%.1f"), p99(i).Median(), p99(i).Span("%.1f"),
				over.Median(), p99(i).Over(p99(raw)).Median(), p50(i).Over(p50(tcp)).Median(), verdict)
		}
		t.End("The target is for p50.")
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
