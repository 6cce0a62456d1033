// SPDX-License-Identifier: Apache-2.0

package nic

import (
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/softroce/softroce-xdp/rocev2/cm"
	"github.com/softroce/softroce-xdp/rocev2/mad"
	"github.com/softroce/softroce-xdp/rocev2/nic/internal/route"
)

// While the kernel has an RDMA device on the interface, its communication manager has the same ports as that of this device. A
// listener has its port at both then, so that the second of two programs is refused.

// kernelPorts are the ports of the listeners of a device.
type kernelPorts struct {
	take func(space mad.PortSpace, port uint16) (io.Closer, error)

	mu    sync.Mutex
	ports map[mad.ServiceID]io.Closer // nil: not taken from the kernel
}

// newKernelPorts returns the ports of a device. A loopback device has no routes, and never finds that the kernel has a device.
func newKernelPorts(routes *route.Table) *kernelPorts {
	return &kernelPorts{
		take:  func(s mad.PortSpace, p uint16) (io.Closer, error) { return routes.TakeRDMAPort(s, p) },
		ports: map[mad.ServiceID]io.Closer{},
	}
}

// listen notes a listener. If the kernel has a device, it takes the port, and its error wraps cm.ErrInUse if a program has it.
// What the kernel does not know, it does not refuse: an error of another kind is none.
func (p *kernelPorts) listen(id mad.ServiceID, kernel bool) error {
	space, port, ok := id.IP()
	if !ok {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ports[id] = nil
	if !kernel {
		return nil
	}
	taken, err := p.take(space, port)
	switch {
	case errors.Is(err, route.ErrRDMAPort):
		delete(p.ports, id)
		return fmt.Errorf("%w: %w", cm.ErrInUse, err)
	case err == nil:
		p.ports[id] = taken
	}
	return nil
}

// unlisten gives back the port of a listener that has ended.
func (p *kernelPorts) unlisten(id mad.ServiceID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if taken := p.ports[id]; taken != nil {
		_ = taken.Close()
	}
	delete(p.ports, id)
}

// follow takes the ports that are not taken if the kernel has a device now, and gives all back if it has none. A program that uses
// the kernel's manager keeps a port that it had before the device came: this device gets the requests.
func (p *kernelPorts) follow(kernel bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id, taken := range p.ports {
		switch {
		case kernel && taken == nil:
			space, port, _ := id.IP()
			if taken, err := p.take(space, port); err == nil {
				p.ports[id] = taken
			}
		case !kernel && taken != nil:
			_ = taken.Close()
			p.ports[id] = nil
		}
	}
}

// close gives all ports back.
func (p *kernelPorts) close() { p.follow(false) }
