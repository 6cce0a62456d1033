// SPDX-License-Identifier: Apache-2.0

package nic

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/cm"
	"github.com/softroce/softroce-xdp/rocev2/mad"
	"github.com/softroce/softroce-xdp/rocev2/nic/internal/cmservice"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// The communication manager of a device: package cmservice runs it, mad_path.go carries its messages. It
// begins with the first session.

var _ cm.Connector = (*Device)(nil)

// cmState is what a device has of its communication manager.
type cmState struct {
	mu     sync.Mutex // guards the beginning and the end
	closed bool
	svc    atomic.Pointer[cmservice.Service] // nil before the first session
	port   atomic.Pointer[madPort]           // port used by svc
}

// OpenCM implements cm.Connector. On an attached interface, messages for the listeners and
// connections of the sessions come to this device, all others to the kernel stack. A loopback device
// connects its own queue pairs.
func (d *Device) OpenCM() (cm.Session, error) {
	svc, err := d.startCM()
	if err != nil {
		return nil, err
	}
	s, err := svc.Open()
	if err != nil || len(d.allow) == 0 {
		return s, err
	}
	return allowedSession{s, d}, nil
}

// cmSteered is how many keys of a kind the data plane has room for (bpf/lib/maps.h). Requests that
// were refused are remembered in addition to the connections.
const cmSteered = 1 << 16

// ackDelay is the longest time until an ACK of the engine, for the peer's communication manager: 4.096 us *
// 2^ackDelay, 1 ms. The transport sends an ACK after 0.5 ms at the latest, and the loop has as long to wake up.
const ackDelay = 8

func (d *Device) startCM() (*cmservice.Service, error) {
	c := &d.cm
	c.mu.Lock()
	defer c.mu.Unlock()
	if svc := c.svc.Load(); svc != nil {
		return svc, nil
	}
	if err := d.alive(); err != nil {
		return nil, err
	}
	if c.closed {
		return nil, verbs.ErrClosed
	}
	if err := d.dataplane.Steer(mad.QPN); err != nil {
		return nil, fmt.Errorf("nic: communication manager: %w", err)
	}
	const answered = 1024
	pmtu, _ := rocev2.PMTUForMTU(d.mtu)
	port := newMADPort(d)
	svc := cmservice.New(port, cm.Config{
		Alone: d.alone(), AckDelay: ackDelay, MaxPMTU: pmtu, MaxConns: cmSteered - 2*answered, MaxAnswered: answered,
	})
	if err := d.do(func() error { d.eng.core.StartMADs(svc); return nil }); err != nil {
		svc.Close()
		return nil, errors.Join(err, d.dataplane.Unsteer(mad.QPN))
	}
	c.port.Store(port)
	c.svc.Store(svc)
	go func() {
		d.followKernelCM()
		svc.Close()
	}()
	return svc, nil
}

// closeCM ends the communication manager while its messages still leave: the peers of connections are
// told.
func (d *Device) closeCM() {
	c := &d.cm
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	if svc := c.svc.Load(); svc != nil {
		svc.Close()
		_ = d.do(func() error { return nil }) // the iteration that sends them
	}
}

// firstRequest is called in the engine's thread when a queue pair has received its first request.
func (d *Device) firstRequest(x *QP) {
	if svc := d.cm.svc.Load(); svc != nil {
		svc.Arrived(x.core.QPN())
	}
}

// pairEncrypted says that a queue pair takes encrypted packets only.
func (d *Device) pairEncrypted(x *QP) {
	if svc := d.cm.svc.Load(); svc != nil {
		svc.Encrypted(x.core.QPN())
	}
}

// pairDestroyed ends the connections of a queue pair.
func (d *Device) pairDestroyed(x *QP) {
	if svc := d.cm.svc.Load(); svc != nil {
		svc.Destroyed(x.core.QPN())
	}
}
