// SPDX-License-Identifier: Apache-2.0

package nicbench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/nic"
	"github.com/softroce/softroce-xdp/rocev2/rdma/client"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/testenv/bench/internal/compare"
)

// Targets of the device that an agent serves.
var (
	serverTarget = compare.AtLeast(0.85, "%.2f") // share of the goodput of an engine in the same process
	ringsTarget  = compare.AtMost(1.5, "%.1f")   // us from work request to completion, both sides polling
)

// withServers has the agents of both hosts serve a device on the cable, and takes them back after f.
func (w *world) withServers(f func() error) (err error) {
	detach, err := w.attach(cableName, "--nic", "--nic-mode", "0666")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, detach()) }()
	return f()
}

// clients opens the devices of both agents as one process.
func (w *world) clients(ctx context.Context) (devs [2]*client.Device, closeAll func() error, err error) {
	return openClients(ctx, [2]string{w.options(w.top.Host(1)).RunDir, w.options(w.top.Host(2)).RunDir})
}

func openClients(ctx context.Context, dirs [2]string) (devs [2]*client.Device, closeAll func() error, err error) {
	closeAll = func() error {
		var errs []error
		for _, d := range devs {
			if d != nil {
				errs = append(errs, d.Close())
			}
		}
		return errors.Join(errs...)
	}
	for i, dir := range dirs {
		if devs[i], err = client.Open(ctx, cableName, client.Config{RunDir: dir}); err != nil {
			return devs, nil, errors.Join(err, closeAll())
		}
	}
	return devs, closeAll, nil
}

// serverSizes are the bytes of messages.
var serverSizes = []int{4 << 10, 64 << 10, 1 << 20}

// served is what a kind of device has carried.
type served struct {
	goodput []float64 // Gbit/s of each of serverSizes
	loop    float64   // us from work request to completion on one host
}

// throughDevice compares the device that agents serve with engines in this process, and with one in this and one in
// another process.
func throughDevice(ctx context.Context, w *world, c config, r *compare.Report) error {
	runs, err := compare.Turns(ctx, c.rounds,
		compare.Candidate[served]{Name: "engines in one process", Measure: func(context.Context) (s served, err error) {
			err = w.withEngines(nic.Options{}, func(devs [2]*nic.Device) error { return serve(&s, devs, w, c) })
			return s, err
		}},
		compare.Candidate[served]{Name: "engines in two processes", Measure: func(context.Context) (s served, err error) {
			err = w.withTwoProcesses(func(dev *nic.Device, p *peer) error {
				for _, size := range serverSizes {
					v, err := p.stream(w, dev, size, c.each)
					if err != nil {
						return err
					}
					s.goodput = append(s.goodput, v/gbit)
				}
				return nil
			})
			return s, err
		}},
		compare.Candidate[served]{Name: "device of an agent", Measure: func(ctx context.Context) (s served, err error) {
			err = w.withServers(func() error {
				devs, closeAll, err := w.clients(ctx)
				if err != nil {
					return err
				}
				return errors.Join(serve(&s, devs, w, c), closeAll())
			})
			return s, err
		}},
	)
	if err != nil {
		return err
	}
	t := r.Titled("Device that an agent serves, WRITE", "ON THE VETH PAIR\tGBIT/S\tENGINES IN ONE PROCESS\tSHARE\tTARGET\t\tIN TWO PROCESSES\tSHARE\t")
	for i, size := range serverSizes {
		goodput := func(s served) float64 { return s.goodput[i] }
		own, two, server := runs[0].Series(goodput), runs[1].Series(goodput), runs[2].Series(goodput)
		share := server.Over(own)
		t.Row("%s\t%.2f\t%.2f\t%.2f\t%s\t%.2f\t%.2f", bytes(size), server.Median(), own.Median(), share.Median(), t.Median(serverTarget, share),
			two.Median(), server.Over(two).Median())
	}
	t.End(
		"Both agents are processes of their own, of niceness -10 as always. An engine in this process, of this process's",
		"niceness, serves both hosts, or only one of them and another process the other one.",
	)
	t = r.Titled("From work request to completion on one host, 8 bytes, polling", "BY\tP50 US\tMIN TO MAX\tTARGET\t\t")
	loop := func(s served) float64 { return s.loop }
	own, rings := runs[0].Series(loop), runs[2].Series(loop)
	t.Row("rings\t%.2f\t%s\t%s", rings.Median(), rings.Span("%.2f"), t.Median(ringsTarget, rings))
	t.Row("engine in the process\t%.2f\t%s\t%s", own.Median(), own.Span("%.2f"), compare.None)
	t.End()
	return nil
}

// serve measures devices of this process.
func serve[D verbs.Device](s *served, devs [2]D, w *world, c config) error {
	for _, size := range serverSizes {
		v, err := streamOf(devs, w, size, c.each)
		if err != nil {
			return err
		}
		s.goodput = append(s.goodput, v/gbit)
	}
	return loopTrips(devs[0], w, c.each, &s.loop)
}

// streamOf measures WRITEs of a size, in bytes a second.
func streamOf[D verbs.Device](devs [2]D, w *world, size int, length time.Duration) (float64, error) {
	under := max(2, bytesInFlight/size)
	p, err := newPair(devs, w.addrs, pairSpec{qps: 1, depth: under, memory: bytesInFlight, pmtu: rocev2.PMTU4096})
	if err != nil {
		return 0, err
	}
	f, err := p.run(stream{op: verbs.OpWrite, size: size, under: under}, length/4, length, nil, nil)
	return f.perSecond() * float64(size), errors.Join(err, p.close())
}

// loopTrips measures the median of the times from work request to completion between two queue pairs of
// one device, in us.
func loopTrips[D verbs.Device](d D, w *world, length time.Duration, to *float64) error {
	addrs := w.addrs
	addrs[1] = addrs[0]
	p, err := newPair([2]D{d, d}, addrs, pairSpec{qps: 1, depth: 4, memory: 4096, pmtu: rocev2.PMTU1024})
	if err != nil {
		return err
	}
	all, err := p.roundTrips(verbs.OpWrite, 8, length, true)
	if err = errors.Join(err, p.close()); err != nil {
		return err
	}
	if len(all) == 0 {
		return fmt.Errorf("no message completed in %v", length)
	}
	*to = tripsOf(all).p50
	return nil
}
