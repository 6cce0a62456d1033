// SPDX-License-Identifier: Apache-2.0

package nicbench

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/nic"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/testenv/lab/faults"
	"github.com/softroce/softroce-xdp/testenv/lab/topo"
)

const (
	oneIn      = 20   // packets is lost
	lossTarget = 1.15 // packets sent for one that is delivered
)

// underLoss measures what it costs to lose packets: between two engines, through a switch
// whose ports drop every 20th at random, in both directions.
func underLoss(_ context.Context, w *world, c config, r *report) (err error) {
	detach, err := w.attach(topo.IfName)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, detach()) }()
	devs, closeAll, err := w.devices(topo.IfName, nic.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeAll()) }()
	addrs := [2]netip.Addr{w.top.Host(1).IPv4(), w.top.Host(2).IPv4()}

	r.table("5 % of the packets lost in each direction, 64 KB messages, two engines (SACK)",
		"OPERATION\tMESSAGES\tSENT\tLOST BY THE SWITCH\tSENT FOR ONE DELIVERED\tTARGET\t\tGBIT/S\tSACKS\tTIMEOUTS\t")
	for _, o := range operations {
		p, err := newPair(devs, addrs, pairSpec{qps: 1, depth: 16, memory: 1 << 20, pmtu: rocev2.PMTU1024})
		if err != nil {
			return err
		}
		// HELLO needs some packets and milliseconds to tell what the peer understands.
		if _, err := p.run(stream{op: o.op, size: 64 << 10, under: 8}, 0, 300*time.Millisecond, nil, nil); err != nil {
			return err
		}
		sw, err := faults.NewLoss(w.top)
		if err != nil {
			return err
		}
		if err := sw.Lose(1. / oneIn); err != nil {
			return errors.Join(err, sw.Close())
		}
		before := [2]map[string]uint64{counters(devs[0]), counters(devs[1])}
		f, err := p.run(stream{op: o.op, size: 64 << 10, under: 8}, 0, max(2*c.each, time.Second), nil, nil)
		dropped, countErr := sw.Lost()
		if err = errors.Join(err, countErr, sw.Close()); err != nil {
			return fmt.Errorf("%s: %w\n%s", o.name, err, moved(devs, before))
		}
		delta := func(i int, name string) uint64 { return counters(devs[i])[name] - before[i][name] }
		from, to := 0, 1
		if o.op == verbs.OpRead {
			from, to = 1, 0
		}
		sent := delta(from, "tx_data_pkts")
		delivered := sent - delta(from, "tx_retransmits")
		per := float64(sent) / float64(delivered)
		r.row("%s\t%d\t%d\t%d\t%.3f\t%s\t%.2f\t%d\t%d", o.name, f.messages, sent, dropped, per, r.atMost(per, lossTarget, "%.2f"),
			f.perSecond()*(64<<10)*8/1e9, delta(to, "sack_sent"), delta(0, "local_ack_timeout_err"))
		if err := p.close(); err != nil {
			return err
		}
	}
	r.end(fmt.Sprintf("Nothing can do with less than %.3f. Sent are packets with data; all that were sent a first time were delivered in the end.", 1/(1-1.0/oneIn)))
	return nil
}
