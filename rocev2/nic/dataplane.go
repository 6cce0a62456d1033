// SPDX-License-Identifier: Apache-2.0

package nic

import (
	"github.com/softroce/softroce-xdp/rocev2/cm"
	"github.com/softroce/softroce-xdp/rocev2/engine"
)

// Dataplane is the attached interface as the engine needs it. Package loader/engine
// implements it over the pinned maps. Any goroutine may call its methods.
type Dataplane interface {
	// Register puts the AF_XDP socket of a receive queue where ingress finds it.
	Register(queue, fd int) error

	// Steer has ingress hand packets for a queue pair number to the sockets, Unsteer
	// has it pass them on again. For rocev2.ControlQPN that means CREDIT_GRANT and
	// CREDIT_RETURN, which go to nothing else.
	Steer(qpn uint32) error
	Unsteer(qpn uint32) error

	// SteerMAD has ingress hand the messages of the communication manager that match a key to the
	// sockets, or pass them on again, once Steer(mad.QPN) was called.
	SteerMAD(s cm.Steer) error

	// RuntimeConfig returns the present configuration. It is called a few hundred times a second.
	RuntimeConfig() RuntimeConfig

	// Sync reports what was sent to some destinations, in their order, and fills in what is
	// known of them. It returns the number of reports that succeeded: all unless there is an
	// error. Only one call runs at a time.
	Sync(dests []DestSync) (reported int, err error)

	// Close takes back all that Register and Steer did.
	Close() error
}

// RuntimeConfig is the part of the interface's configuration that may change while the engine
// runs.
type RuntimeConfig = engine.RuntimeConfig

// DestSync is the engine's report of one destination, and the reply.
type DestSync = engine.DestSync
