// SPDX-License-Identifier: Apache-2.0

package nic

import (
	"github.com/softroce/softroce-xdp/rocev2/mr"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// AllocPD makes a protection domain.
func (d *Device) AllocPD() (verbs.PD, error) {
	if err := d.alive(); err != nil {
		return nil, err
	}
	return &PD{dev: d, num: d.mem.AllocPD()}, nil
}

// Free ends the domain. The error wraps verbs.ErrBusy while an object of it exists.
func (p *PD) Free() error { return p.dev.mem.FreePD(p.num) }

// acquire takes a reference to the domain.
func (p *PD) acquire() error {
	if err := p.dev.alive(); err != nil {
		return err
	}
	return p.dev.mem.AcquirePD(p.num)
}

// RegMR registers memory of this process, which must not be moved or freed until
// the region is deregistered; memory that Go allocated with make does not move. Work requests and
// peers name its bytes by their addresses.
//
// A mapping of a file may be registered. If somebody truncates the file, accesses to
// what is gone fail as failed memory does (NAK 0x63, remote operation error) and end
// the connection, not the process; a write at the edge may be done in part.
func (p *PD) RegMR(b []byte, access verbs.Access) (verbs.MR, error) {
	r, err := p.Register(mr.Spec{Host: b, Access: access})
	if err != nil {
		return nil, err
	}
	return r, nil
}

// Register registers memory of any kind; the Spec's PD is set here. Deregister and
// Reregister are the region's own.
func (p *PD) Register(s mr.Spec) (*mr.Region, error) {
	s.PD = p.num
	return p.dev.mem.Register(s)
}

// AllocMW makes a memory window of type 2B, to be bound by a work request.
func (p *PD) AllocMW() (verbs.MW, error) {
	w, err := p.dev.mem.AllocWindow(p.num)
	if err != nil {
		return nil, err
	}
	return w, nil
}
