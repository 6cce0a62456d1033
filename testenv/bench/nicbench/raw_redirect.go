// SPDX-License-Identifier: Apache-2.0

package nicbench

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/rocev2/xsk"
	"github.com/softroce/softroce-xdp/testenv/lab/topo"
)

// Redirector is an XDP program that sends every packet of an interface to the
// AF_XDP socket of its queue, and up the stack where there is none.
type Redirector struct {
	Xsks *ebpf.Map // XSKMAP, by queue
	prog *ebpf.Program
	link link.Link
}

// Redirect attaches the program to one end of a cable, in native mode and with
// support for packets of several buffers.
func Redirect(end topo.CableEnd) (_ *Redirector, err error) {
	r := &Redirector{}
	defer func() {
		if err != nil {
			r.Close()
			err = fmt.Errorf("xskbench: redirect %s: %w", end.Name, err)
		}
	}()
	r.Xsks, err = ebpf.NewMap(&ebpf.MapSpec{Name: "xsks", Type: ebpf.XSKMap, KeySize: 4, ValueSize: 4, MaxEntries: 64})
	if err != nil {
		return nil, err
	}
	r.prog, err = ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "to_xsk", Type: ebpf.XDP, License: "Dual BSD/GPL", Flags: unix.BPF_F_XDP_HAS_FRAGS,
		Instructions: asm.Instructions{
			// return bpf_redirect_map(&xsks, ctx->rx_queue_index, XDP_PASS);
			asm.LoadMem(asm.R2, asm.R1, 16, asm.Word),
			asm.LoadMapPtr(asm.R1, r.Xsks.FD()),
			asm.Mov.Imm(asm.R3, 2),
			asm.FnRedirectMap.Call(),
			asm.Return(),
		},
	})
	if err != nil {
		return nil, err
	}
	err = end.Host.Do(func() error {
		r.link, err = link.AttachXDP(link.XDPOptions{Program: r.prog, Interface: end.Index, Flags: link.XDPDriverMode})
		return err
	})
	if err != nil {
		return nil, err
	}
	return r, nil
}

// Close detaches the program.
func (r *Redirector) Close() error {
	var errs []error
	if r.link != nil {
		errs = append(errs, r.link.Detach(), r.link.Close()) // without Detach it stays for a while
	}
	if r.prog != nil {
		errs = append(errs, r.prog.Close())
	}
	if r.Xsks != nil {
		errs = append(errs, r.Xsks.Close())
	}
	return errors.Join(errs...)
}

// Open opens sockets on all queues of one end and attaches a Redirector to them.
// Ifindex and Queue of the configuration are ignored.
func Open(end topo.CableEnd, c xsk.Config) (set xsk.Set, r *Redirector, err error) {
	c.Ifindex = end.Index
	err = end.Host.Do(func() error {
		set, err = xsk.OpenAll(c)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	if r, err = Redirect(end); err != nil {
		return nil, nil, errors.Join(err, set.Close())
	}
	if err := set.Register(r.Xsks, 0); err != nil {
		return nil, nil, errors.Join(err, r.Close(), set.Close())
	}
	return set, r, nil
}
