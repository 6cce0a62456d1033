// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/nic"
	"github.com/softroce/softroce-xdp/rocev2/qp"
	"github.com/softroce/softroce-xdp/testenv/topo"
)

const (
	oneIn      = 20   // packets is lost
	lossTarget = 1.15 // packets sent for one that is delivered
)

// loss measures what it costs to lose packets: between two engines, through a switch
// whose ports drop every 20th at random, in both directions.
func loss(_ context.Context, w *world, c config, r *report) (err error) {
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

	r.table("5 % of the packets lost in each direction, 64 KB messages, two engines of ours (SACK)",
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
		drop, err := dropAtPorts(w.top)
		if err != nil {
			return err
		}
		before := [2]map[string]uint64{counters(devs[0]), counters(devs[1])}
		f, err := p.run(stream{op: o.op, size: 64 << 10, under: 8}, 0, max(2*c.each, time.Second), nil, nil)
		dropped, closeErr := drop()
		if err = errors.Join(err, closeErr); err != nil {
			return fmt.Errorf("%s: %w\n%s", o.name, err, moved(devs, before))
		}
		delta := func(i int, name string) uint64 { return counters(devs[i])[name] - before[i][name] }
		from, to := 0, 1
		if o.op == qp.OpRead {
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

// dropAtPorts has the switch drop at random what comes from both hosts, and returns
// how to end that, which tells how many packets it were.
func dropAtPorts(top *topo.Topology) (end func() (uint64, error), err error) {
	var closers []func() error
	stop := func() error {
		var errs []error
		for _, c := range closers {
			errs = append(errs, c())
		}
		return errors.Join(errs...)
	}
	count, err := ebpf.NewMap(&ebpf.MapSpec{Name: "dropped", Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: 1})
	if err != nil {
		return nil, err
	}
	closers = append(closers, count.Close)
	const pass, drop = 2, 1
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "lose", Type: ebpf.XDP, License: "GPL", Flags: unix.BPF_F_XDP_HAS_FRAGS,
		Instructions: asm.Instructions{
			// if (bpf_get_prandom_u32() >= 2^32 / oneIn) return XDP_PASS;
			asm.FnGetPrandomU32.Call(),
			asm.LoadImm(asm.R1, (1<<32)/oneIn, asm.DWord),
			asm.JGE.Reg(asm.R0, asm.R1, "pass"),
			// dropped[0]++; return XDP_DROP;
			asm.StoreImm(asm.RFP, -4, 0, asm.Word),
			asm.Mov.Reg(asm.R2, asm.RFP),
			asm.Add.Imm(asm.R2, -4),
			asm.LoadMapPtr(asm.R1, count.FD()),
			asm.FnMapLookupElem.Call(),
			asm.JEq.Imm(asm.R0, 0, "pass"),
			asm.Mov.Imm(asm.R1, 1),
			asm.StoreXAdd(asm.R0, asm.R1, asm.DWord),
			asm.Mov.Imm(asm.R0, drop),
			asm.Return(),
			asm.Mov.Imm(asm.R0, pass).WithSymbol("pass"),
			asm.Return(),
		},
	})
	if err != nil {
		return nil, errors.Join(err, stop())
	}
	closers = append(closers, prog.Close)
	sw := top.Switch()
	for _, h := range top.Hosts() {
		port, err := sw.Netlink().LinkByName(h.Port().Name())
		if err == nil {
			err = sw.Do(func() error {
				l, err := link.AttachXDP(link.XDPOptions{Program: prog, Interface: port.Attrs().Index, Flags: link.XDPDriverMode})
				if err == nil {
					closers = append([]func() error{l.Close}, closers...)
				}
				return err
			})
		}
		if err != nil {
			return nil, errors.Join(err, stop())
		}
	}
	return func() (n uint64, err error) {
		err = count.Lookup(uint32(0), &n)
		return n, errors.Join(err, stop())
	}, nil
}
