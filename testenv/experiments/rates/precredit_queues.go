// SPDX-License-Identifier: Apache-2.0

package rates

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/testenv/lab/topo"
)

// twoQueues makes a port of the switch a bottleneck with two queues of limit bytes each:
// packets with the DSCP wait until there are no others. Without any such packet it is one
// queue.
type twoQueues struct {
	port  netlink.Link
	sw    *topo.Host
	close []func() error
}

// The classes of the queues as a packet's priority names them, major << 16 | minor.
const (
	firstQueue = 0x1_0010
	lastQueue  = 0x1_0020
)

func newTwoQueues(top *topo.Topology, host *topo.Host, bps uint64, limit uint32, dscp uint8) (q *twoQueues, err error) {
	q = &twoQueues{sw: top.Switch()}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("two queues: %w", err), q.Close())
		}
	}()
	nl := q.sw.Netlink()
	if q.port, err = nl.LinkByName(host.Port().Name()); err != nil {
		return nil, err
	}
	dev := q.port.Attrs().Name
	kbit := fmt.Sprint(bps/1000) + "kbit"
	whole := fmt.Sprint(bps / 8 / 1000) // a millisecond's, as topo.Bottleneck
	class := func(id, parent, rate, burst, prio string) []string {
		return []string{"class", "add", "dev", dev, "parent", parent, "classid", id, "htb", "rate", rate, "ceil", kbit,
			"burst", burst, "cburst", whole, "quantum", "3000", "prio", prio}
	}
	// A class that is below its rate precedes one that is above, whatever their priorities are. So the queues have next to no
	// rate of their own, and borrow that of the port in the order of their priorities.
	const noRate, noBurst = "64bit", "1"
	for _, args := range [][]string{
		{"qdisc", "add", "dev", dev, "root", "handle", "1:", "htb", "default", "10"},
		class("1:1", "1:", kbit, whole, "0"), class("1:10", "1:1", noRate, noBurst, "0"), class("1:20", "1:1", noRate, noBurst, "1"),
		{"qdisc", "add", "dev", dev, "parent", "1:10", "bfifo", "limit", fmt.Sprint(limit)},
		{"qdisc", "add", "dev", dev, "parent", "1:20", "bfifo", "limit", fmt.Sprint(limit)},
	} {
		if out, err := q.sw.Command("tc", args...).CombinedOutput(); err != nil {
			return nil, fmt.Errorf("tc %v: %w\n%s", args, err, out)
		}
	}
	return q, q.classify(dscp)
}

// classify has HTB put packets with the DSCP into the last queue: it takes a class from
// the packet's priority.
func (q *twoQueues) classify(dscp uint8) error {
	const atType, atTOS, skbPriority, skbData, skbEnd = 12, 15, 32, 76, 80
	const ipv4 = int32(unix.ETH_P_IP>>8 | unix.ETH_P_IP&0xFF<<8)
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "two_queues", Type: ebpf.SchedCLS, License: "GPL",
		Instructions: asm.Instructions{
			asm.LoadMem(asm.R2, asm.R1, skbData, asm.Word),
			asm.LoadMem(asm.R3, asm.R1, skbEnd, asm.Word),
			asm.Mov.Imm(asm.R5, firstQueue),
			asm.Mov.Reg(asm.R4, asm.R2),
			asm.Add.Imm(asm.R4, atTOS+1),
			asm.JGT.Reg(asm.R4, asm.R3, "set"),
			asm.LoadMem(asm.R4, asm.R2, atType, asm.Half),
			asm.JNE.Imm(asm.R4, ipv4, "set"),
			asm.LoadMem(asm.R4, asm.R2, atTOS, asm.Byte),
			asm.RSh.Imm(asm.R4, 2),
			asm.JNE.Imm(asm.R4, int32(dscp), "set"),
			asm.Mov.Imm(asm.R5, lastQueue),
			asm.StoreMem(asm.R1, skbPriority, asm.R5, asm.Word).WithSymbol("set"),
			asm.Mov.Imm(asm.R0, -1), // TCX_NEXT
			asm.Return(),
		},
	})
	if err != nil {
		return err
	}
	q.close = append(q.close, prog.Close)
	return q.sw.Do(func() error {
		l, err := link.AttachTCX(link.TCXOptions{Program: prog, Attach: ebpf.AttachTCXEgress, Interface: q.port.Attrs().Index})
		if err == nil {
			q.close = append(q.close, l.Close)
		}
		return err
	})
}

// each calls f for both queues.
func (q *twoQueues) each(f func(class uint32, s *netlink.QdiscStatistics)) error {
	all, err := q.sw.Netlink().QdiscList(q.port)
	for _, d := range all {
		if s := d.Attrs().Statistics; d.Type() == "bfifo" && s != nil && s.Queue != nil && s.Basic != nil {
			f(d.Attrs().Parent, s)
		}
	}
	return err
}

// drops are packets that found a queue full.
func (q *twoQueues) drops() (n uint64, err error) {
	err = q.each(func(_ uint32, s *netlink.QdiscStatistics) { n += uint64(s.Queue.Drops) })
	return n, err
}

// packets are those that left by each queue.
func (q *twoQueues) packets() (first, last uint64, err error) {
	err = q.each(func(class uint32, s *netlink.QdiscStatistics) {
		if class == lastQueue {
			last += uint64(s.Basic.Packets)
		} else {
			first += uint64(s.Basic.Packets)
		}
	})
	return first, last, err
}

func (q *twoQueues) Close() error {
	var errs []error
	for i := len(q.close) - 1; i >= 0; i-- {
		errs = append(errs, q.close[i]())
	}
	return errors.Join(errs...)
}
