// SPDX-License-Identifier: Apache-2.0

package rping_test

import (
	"errors"
	"testing"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/rocev2/rdma"
	"github.com/softroce/softroce-xdp/rocev2/rdma/rping"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/testenv/lab/cmpeer"
)

// stoppedDevice is a device that does not answer the end of a region of rping until it goes on.
type stoppedDevice struct {
	*cmpeer.LoopDevice
	on chan struct{}
}

func (d *stoppedDevice) AllocPD() (verbs.PD, error) {
	p, err := d.LoopDevice.AllocPD()
	return stoppedPD{p, d}, err
}

type stoppedPD struct {
	verbs.PD
	d *stoppedDevice
}

func (p stoppedPD) RegMR(b []byte, a verbs.Access) (verbs.MR, error) {
	m, err := p.PD.RegMR(b, a)
	if err != nil || len(b) != 2*rping.MaxSize {
		return m, err
	}
	return stoppedMR{m, p.d}, nil
}

type stoppedMR struct {
	verbs.MR
	d *stoppedDevice
}

func (m stoppedMR) Deregister() error {
	<-m.d.on
	return m.MR.Deregister()
}

// Close returns while the device does not answer.
func TestCloseOnStoppedDevice(t *testing.T) {
	dev := &stoppedDevice{testkit.Must1(cmpeer.Open(cmpeer.Config{}))(t), make(chan struct{})}
	t.Cleanup(func() { testkit.Must(t, dev.Close()) })
	_, dialed, accepted := pairOf(t, dev)
	defer accepted.Close()
	client := testkit.Must1(rping.NewClient(dialed))(t)
	closed := make(chan error, 1)
	go func() { closed <- client.Close() }()
	if err := testkit.Receive(t, "Close returns", closed); !errors.Is(err, rdma.ErrNoAnswer) {
		t.Error(err)
	}
	close(dev.on)
}
