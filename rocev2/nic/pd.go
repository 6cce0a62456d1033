// SPDX-License-Identifier: Apache-2.0

package nic

import (
	"fmt"

	"github.com/softroce/softroce-xdp/rocev2/mem"
	"github.com/softroce/softroce-xdp/rocev2/mr"
)

// PD is a protection domain: what may be used together (IBTA 10.2.3).
type PD struct {
	dev *Device
	num uint32
}

// AllocPD makes a protection domain.
func (d *Device) AllocPD() (*PD, error) {
	if err := d.alive(); err != nil {
		return nil, err
	}
	return &PD{d, d.mem.AllocPD()}, nil
}

// Num is the number by which work goes to the engine.
func (p *PD) Num() uint32 { return p.num }

// Free ends the domain. The error wraps mr.ErrBusy while something is in it.
func (p *PD) Free() error { return p.dev.mem.FreePD(p.num) }

// acquirePD takes a reference to a domain of this device.
func (d *Device) acquirePD(pd *PD) error {
	if err := d.alive(); err != nil {
		return err
	}
	if pd == nil || pd.dev != d {
		return fmt.Errorf("nic: a protection domain of this device is needed")
	}
	return d.mem.HoldPD(pd.num)
}

// RegMR registers memory of this process, which must not be moved or freed until
// the region is deregistered; memory that Go allocated with make does not move. Work requests and
// peers name its bytes by their addresses.
//
// A mapping of a file may be registered. If somebody truncates the file, accesses to
// what is gone fail as failed memory does (NAK 0x63, remote operation error) and end
// the connection, not the process; a write at the edge may be done in part.
func (p *PD) RegMR(b []byte, access mem.Access) (*mr.Region, error) {
	return p.Register(mr.Spec{Host: b, Access: access})
}

// Register registers memory of any kind; the Spec's PD is set here. Deregister and
// Reregister are the region's own.
func (p *PD) Register(s mr.Spec) (*mr.Region, error) {
	s.PD = p.num
	return p.dev.mem.Register(s)
}

// AllocMW makes a memory window of type 2B, to be bound by a work request.
func (p *PD) AllocMW() (*mr.Window, error) { return p.dev.mem.AllocWindow(p.num) }
