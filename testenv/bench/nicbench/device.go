// SPDX-License-Identifier: Apache-2.0

package nicbench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/nic"
	"github.com/softroce/softroce-xdp/rocev2/rdma/client"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/testenv/bench/internal/status"
)

// Targets of the device that an agent serves.
const (
	serverTarget = 0.85 // of the goodput of an engine in the same process
	ringsTarget  = 1.5  // us from work request to completion, both sides polling
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

// serverRow is one size, by the agents and by engines in this process.
type serverRow struct {
	size        int
	server, own []float64 // bytes a second
	two         []float64 // rates by engines of two processes
}

// throughDevice compares the device that agents serve with engines in this process.
func throughDevice(ctx context.Context, w *world, c config, r *report) error {
	rows := []*serverRow{{size: 4 << 10}, {size: 64 << 10}, {size: 1 << 20}}
	var rings, loops []float64
	for range c.rounds {
		err := w.withEngines(nic.Options{}, func(devs [2]*nic.Device) error {
			for _, x := range rows {
				v, err := streamOf(devs, w, x.size, c.each)
				if err != nil {
					return err
				}
				x.own = append(x.own, v)
			}
			return loopTrips(devs[0], w, c.each, &loops)
		})
		if err != nil {
			return err
		}
		err = w.withTwoProcesses(func(dev *nic.Device, p *peer) error {
			for _, x := range rows {
				v, err := p.stream(w, dev, x.size, c.each)
				if err != nil {
					return err
				}
				x.two = append(x.two, v)
			}
			return nil
		})
		if err != nil {
			return err
		}
		err = w.withServers(func() error {
			devs, closeAll, err := w.clients(ctx)
			if err != nil {
				return err
			}
			for _, x := range rows {
				v, err := streamOf(devs, w, x.size, c.each)
				if err != nil {
					return errors.Join(err, closeAll())
				}
				x.server = append(x.server, v)
			}
			return errors.Join(loopTrips(devs[0], w, c.each, &rings), closeAll())
		})
		if err != nil {
			return err
		}
	}
	r.table("Device that an agent serves, WRITE", "ON THE VETH PAIR\tGBIT/S\tENGINES IN ONE PROCESS\tSHARE\tTARGET\t\tIN TWO PROCESSES\tSHARE")
	for _, x := range rows {
		share := status.Median(ratios(x.server, x.own))
		r.row("%s\t%.2f\t%.2f\t%.2f\t%s\t%.2f\t%.2f", bytes(x.size), status.Median(x.server)*8/1e9, status.Median(x.own)*8/1e9, share, r.atLeast(share, serverTarget, "%.2f"),
			status.Median(x.two)*8/1e9, status.Median(ratios(x.server, x.two)))
	}
	r.end(
		"Both agents are processes of their own, of niceness -10 as always. An engine in this process, of this process's",
		"niceness, serves both hosts, or only one of them and another process the other one.",
	)
	r.table("From work request to completion on one host, 8 bytes, polling", "BY\tP50 US\tMIN TO MAX\tTARGET\t\t")
	r.row("rings\t%.2f\t%s\t%s", status.Median(rings), span(rings, "%.2f"), r.atMost(status.Median(rings), ringsTarget, "%.1f"))
	r.row("engine in the process\t%.2f\t%s\t%s", status.Median(loops), span(loops, "%.2f"), none)
	r.end()
	return nil
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

// loopTrips adds the median of the times from work request to completion between two queue pairs of
// one device.
func loopTrips[D verbs.Device](d D, w *world, length time.Duration, to *[]float64) error {
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
	slices.Sort(all)
	*to = append(*to, float64(all[len(all)/2])/1e3)
	return nil
}
