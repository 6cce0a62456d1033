// SPDX-License-Identifier: Apache-2.0

package ooobench

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/loader"
	"github.com/softroce/softroce-xdp/rocev2/nic"
	"github.com/softroce/softroce-xdp/testenv/lab/engines"
	"github.com/softroce/softroce-xdp/testenv/lab/faults"
	"github.com/softroce/softroce-xdp/testenv/lab/topo"
)

// network is two hosts with attached interfaces and engines, and the middle box between them.
type network struct {
	hosts []*engines.Host
	box   *faults.Box // box between the hosts, or nil
	undo  []func() error
}

// newNetwork makes one.
func newNetwork(c disorderConfig, seed uint64) (_ *network, err error) {
	n := &network{}
	defer func() {
		if err != nil {
			err = errors.Join(err, n.close())
		}
	}()
	dir, err := os.MkdirTemp("", "disorderbench-")
	if err != nil {
		return nil, err
	}
	n.later(func() error { return os.RemoveAll(dir) })
	top, err := topo.New(topo.Spec{Hosts: topo.Hosts(2), StaticNeighbours: true})
	if err != nil {
		return nil, err
	}
	n.later(top.Close)
	if !c.direct {
		if n.box, err = faults.NewDisorder(top, seed); err != nil {
			return nil, err
		}
		n.later(n.box.Close)
	}
	hosts, detach, err := engines.Attach(top, c.bin, dir, "--rate", fmt.Sprint(uint64(c.rate*1e6)), "--policy", "mode=fixed")
	n.later(detach)
	if err != nil {
		return nil, err
	}
	n.hosts = hosts
	for _, h := range hosts {
		if _, err := h.Open(nic.Options{}); err != nil {
			return nil, err
		}
	}
	return n, nil
}

// set sets the faults; without a box there are none.
func (n *network) set(f faults.Spec) {
	if n.box != nil {
		n.box.Set(f)
	}
}

// packets is how many RoCEv2 packets have come to the box, of both directions.
func (n *network) packets() uint64 {
	if n.box == nil {
		return 0
	}
	return n.box.Counts().Packets
}

func (n *network) later(f func() error) { n.undo = append(n.undo, f) }

// close takes all of it back, the last thing first.
func (n *network) close() error {
	var errs []error
	for i := len(n.undo) - 1; i >= 0; i-- {
		errs = append(errs, n.undo[i]())
	}
	n.undo = nil
	return errors.Join(errs...)
}

// announceSACK has the engines of both hosts announce SACK, or not. HELLO tells the peer within seconds.
func (n *network) announceSACK(on bool) error {
	for _, h := range n.hosts {
		a, err := loader.Open(topo.IfName, h.LoaderOptions())
		if err != nil {
			return err
		}
		cfg, err := a.LiveConfig()
		if err == nil {
			if on {
				atomic.OrUint32(&cfg.Caps, uint32(bpf.CapSACK))
			} else {
				atomic.AndUint32(&cfg.Caps, ^uint32(bpf.CapSACK))
			}
			err = cfg.Close()
		}
		a.Close()
		if err != nil {
			return err
		}
	}
	return nil
}
