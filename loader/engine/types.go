// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"github.com/softroce/softroce-xdp/rocev2/nic"
	"github.com/softroce/softroce-xdp/rocev2/xsk"
)

// Types of the software NIC.
type (
	Options = nic.Options // how the device works; a zero value is the default
	Device  = nic.Device  // the software NIC on an attached interface
	Link    = nic.Link    // the state of the interface
	Mode    = xsk.Mode    // how packets get from the driver to the device
)

// Modes. Auto asks for zero-copy, and takes copy where the driver has no other.
const (
	Auto     = xsk.Auto
	Copy     = xsk.Copy
	ZeroCopy = xsk.ZeroCopy
)

// Types for a server that lends the device to other processes, as loader/device does.
type (
	Feeder = nic.Feeder // brings the work requests of other processes
	CQ     = nic.CQ     // a completion queue
	CQSink = nic.CQSink // takes the completions of a CQ that another process polls
	Counts = nic.Counts // what happens at the queue pairs of one process
)
