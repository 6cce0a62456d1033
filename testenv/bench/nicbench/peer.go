// SPDX-License-Identifier: Apache-2.0

package nicbench

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/softroce/softroce-xdp/loader"
	"github.com/softroce/softroce-xdp/loader/engine"
	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/nic"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/testenv/lab/topo"
)

// Engines of two processes: what an agent's device is compared with too, as agents are two processes. The
// second process has the engine of the host that takes the WRITEs.

// PeerCommand is what bench starts as that process. For each line with the number of a queue pair it connects
// one of its own, and prints number, address and key of memory.
func PeerCommand() *cobra.Command {
	var runDir, pinRoot string
	var addrs []string
	cmd := &cobra.Command{
		Use: "nic-peer", Hidden: true, Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) (err error) {
			if len(addrs) != 2 {
				return errors.New("nic-peer is started by `bench nic`")
			}
			var to [2]netip.Addr
			for i, a := range addrs {
				if to[i], err = netip.ParseAddr(a); err != nil {
					return err
				}
			}
			dev, err := engine.Open(cableName, loader.Options{RunDir: runDir, PinRoot: pinRoot}, nic.Options{})
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, dev.Close()) }()
			fmt.Println("ready")
			for in := bufio.NewScanner(os.Stdin); in.Scan(); {
				var number uint32
				if _, err := fmt.Sscan(in.Text(), &number); err != nil {
					return err
				}
				p := &pair{}
				x, err := p.half(dev, to[1], bytesInFlight, 64)
				if err == nil {
					err = x.connect(to[0], number)
				}
				if err != nil {
					return err
				}
				fmt.Println(x.qp.QPN(), p.mr[0].VA(), p.mr[0].RKey())
				if !in.Scan() { // until the measurement has ended
					return nil
				}
				if err := p.close(); err != nil {
					return err
				}
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&runDir, "run-dir", "", "directory of sockets and locks")
	f.StringVar(&pinRoot, "pin-root", "", "directory of pins")
	f.StringSliceVar(&addrs, "addrs", nil, "addresses of both hosts")
	return cmd
}

// half is the queue pair of a pair's side 0 whose other side is in another process.
type half struct {
	qp   verbs.QP
	addr netip.Addr
}

// half makes the objects of side 0.
func (p *pair) half(dev verbs.Device, addr netip.Addr, memory, depth int) (*half, error) {
	p.devs[0] = dev
	var err error
	if p.pd[0], err = dev.AllocPD(); err != nil {
		return nil, err
	}
	if p.mem[0], err = allocate(dev, memory); err != nil {
		return nil, err
	}
	if p.mr[0], err = p.pd[0].RegMR(p.mem[0], verbs.AccessLocalWrite|verbs.AccessRemoteWrite); err != nil {
		return nil, err
	}
	if p.cq[0], err = dev.CreateCQ(2 * depth); err != nil {
		return nil, err
	}
	x, err := p.pd[0].CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: p.cq[0], RecvCQ: p.cq[0], MaxSend: depth, MaxRecv: 1})
	if err != nil {
		return nil, err
	}
	p.qps[0] = []verbs.QP{x}
	p.local = verbs.SGE{Addr: p.mr[0].VA(), LKey: p.mr[0].LKey()}
	return &half{x, addr}, nil
}

// connect connects it, with the attributes of the other candidates.
func (h *half) connect(to netip.Addr, number uint32) error {
	attr := verbs.DefaultAttr()
	attr.PMTU, attr.MaxRdAtomic, attr.MaxDestRdAtomic = rocev2.PMTU4096, reads, reads
	const psn = 0xFFFFF0
	return verbs.Connect(h.qp, verbs.Endpoint{Addr: h.addr, QPN: h.qp.QPN(), PSN: psn}, verbs.Endpoint{Addr: to, QPN: number, PSN: psn}, attr)
}

// peer is that process.
type peer struct {
	cmd *topo.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

func (w *world) startPeer() (*peer, error) {
	h := w.top.Host(2)
	o := w.options(h)
	cmd := h.Command("/proc/self/exe", "nic-peer", "--run-dir", o.RunDir, "--pin-root", o.PinRoot, "--addrs", w.addrs[0].String()+","+w.addrs[1].String())
	cmd.Stderr = os.Stderr
	in, out, err := untilReady(cmd)
	if err != nil {
		return nil, fmt.Errorf("process with the second engine: %w", err)
	}
	return &peer{cmd, in, out}, nil
}

// end ends the process: its input has ended.
func (p *peer) end() error { return errors.Join(p.in.Close(), p.cmd.Wait()) }

// streamToPeer is streamOf towards the engine of the other process.
func (p *peer) stream(w *world, dev verbs.Device, size int, length time.Duration) (v float64, err error) {
	under := max(2, bytesInFlight/size)
	mine := &pair{}
	defer func() { err = errors.Join(err, mine.close()) }()
	x, err := mine.half(dev, w.addrs[0], bytesInFlight, under)
	if err != nil {
		return 0, err
	}
	fmt.Fprintln(p.in, x.qp.QPN())
	var number uint32
	if !p.out.Scan() {
		return 0, errors.New("the process with the second engine has ended")
	}
	if _, err := fmt.Sscan(p.out.Text(), &number, &mine.va, &mine.rkey); err != nil {
		return 0, err
	}
	if err := x.connect(w.addrs[1], number); err != nil {
		return 0, err
	}
	f, err := mine.run(stream{op: verbs.OpWrite, size: size, under: under}, length/4, length, nil, nil)
	fmt.Fprintln(p.in, "done")
	return f.perSecond() * float64(size), err
}

// withTwoProcesses attaches the product, opens an engine in this process and one in another, and takes all of
// it back after f.
func (w *world) withTwoProcesses(f func(*nic.Device, *peer) error) (err error) {
	detach, err := w.attach(cableName)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, detach()) }()
	p, err := w.startPeer()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.end()) }()
	h := w.top.Host(1)
	var dev *nic.Device
	if err := h.Do(func() (err error) {
		dev, err = engine.Open(cableName, w.options(h), nic.Options{})
		return err
	}); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dev.Close()) }()
	return f(dev, p)
}
