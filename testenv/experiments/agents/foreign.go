// SPDX-License-Identifier: Apache-2.0

package agents

import (
	"errors"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// foreign loads a program of somebody else, which returns verdict.
func foreign(kind ebpf.ProgramType, name string, verdict int32) (*ebpf.Program, error) {
	return ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: name, Type: kind, License: "GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, verdict), asm.Return()},
	})
}

// Verdicts of TCX programs.
const (
	tcxNext = -1 // the next program runs
	tcxPass = 0  // no further program runs
)

// tcxProgram attaches a program of somebody else at the egress of the interface.
func tcxProgram(verdict int32, at link.Anchor) func(*Lab) (func() error, error) {
	return func(l *Lab) (undo func() error, err error) {
		p, err := foreign(ebpf.SchedCLS, "cil_to_netdev", verdict)
		if err != nil {
			return nil, err
		}
		defer p.Close()
		dev, err := l.A.Netlink().LinkByName(ifName)
		if err != nil {
			return nil, err
		}
		var tcx link.Link
		err = l.A.Do(func() (err error) {
			tcx, err = link.AttachTCX(link.TCXOptions{Interface: dev.Attrs().Index, Program: p, Attach: ebpf.AttachTCXEgress, Anchor: at})
			return err
		})
		if err != nil {
			return nil, err
		}
		return tcx.Close, nil
	}
}

// xdpDetached ends the link of the XDP program, as `bpftool link detach` does.
func xdpDetached(l *Lab) (undo func() error, err error) {
	return nil, l.detachXDP()
}

// xdpReplaced puts a program of somebody else in the place of the XDP program.
func xdpReplaced(l *Lab) (undo func() error, err error) {
	p, err := foreign(ebpf.XDP, "xdp_firewall", 2) // XDP_PASS
	if err != nil {
		return nil, err
	}
	defer p.Close()
	dev, err := l.A.Netlink().LinkByName(ifName)
	if err != nil {
		return nil, err
	}
	var x link.Link
	// The agent may have repaired the program before the other one is attached.
	for deadline := time.Now().Add(patience); ; {
		if err := l.detachXDP(); err != nil {
			return nil, err
		}
		err = l.A.Do(func() (err error) {
			x, err = link.AttachXDP(link.XDPOptions{Interface: dev.Attrs().Index, Program: p})
			return err
		})
		if err == nil {
			return x.Close, nil
		}
		if time.Now().After(deadline) {
			return nil, err
		}
	}
}

// detachXDP ends the link of the XDP program that is on the interface.
func (l *Lab) detachXDP() error {
	dev, err := l.A.Netlink().LinkByName(ifName)
	if err != nil {
		return err
	}
	for try := 1; ; try++ {
		var it link.Iterator
		for it.Next() {
			info, err := it.Link.Info()
			if err != nil {
				continue // it has ended meanwhile
			}
			if x := info.XDP(); x != nil && int(x.Ifindex) == dev.Attrs().Index && dev.Attrs().Xdp != nil && dev.Attrs().Xdp.ProgId == uint32(info.Program) {
				return it.Link.Detach()
			}
		}
		if err := it.Err(); !errors.Is(err, unix.EAGAIN) || try == 1000 { // another process is just making a link
			return err
		}
		time.Sleep(10 * time.Millisecond)
	}
}
