// SPDX-License-Identifier: Apache-2.0

package loader

import (
	"cmp"
	"time"

	"github.com/softroce/softroce-xdp/cc/fourcase"
	"github.com/softroce/softroce-xdp/cc/priority"
	"github.com/softroce/softroce-xdp/loader/pacer"
)

// Options are the settings of an attachment. The zero value of a field stands for its default.
type Options struct {
	PinRoot  string // DefaultPinRoot
	RunDir   string // DefaultRunDir
	Version  string // version of the product, for status
	XDPMode  XDPMode
	Egress   EgressHook
	Pacer    PacerKind
	Clock    StampClock
	RateBps  uint64 // link rate, bits per second; 0 = as the driver reports
	MaxDests uint32 // size of the destination table
	Node     uint32 // number of this node, 0 = none
	NodeFile string

	HelloRate uint32 // HELLOs answered per second and CPU
	Heartbeat time.Duration

	// Control is the caller's control of the interface; nil = each call takes it.
	Control  *Control
	Patience time.Duration // longest wait for changes of other processes; DefaultPatience

	// Policy changes the parameters, which follow from the link's rate.
	Policy func(*fourcase.Params)

	Priority priority.Params

	// Foreground: the agent runs in the process of `attach --foreground`.
	Foreground bool

	// NIC has the agent serve an engine to other processes; nil: it does not.
	NIC *NIC

	// WindowOff: the engine is limited by rates alone.
	WindowOff bool
}

// Defaults of Options.
const (
	DefaultMaxDests  = 65536
	DefaultHelloRate = 1000
	DefaultHeartbeat = 3 * time.Second
)

func (o Options) withDefaults() Options {
	o.PinRoot = cmp.Or(o.PinRoot, DefaultPinRoot)
	o.RunDir = cmp.Or(o.RunDir, DefaultRunDir)
	o.XDPMode = cmp.Or(o.XDPMode, XDPAuto)
	o.Egress = cmp.Or(o.Egress, EgressAuto)
	o.Pacer = cmp.Or(o.Pacer, pacer.Auto)
	o.Clock = cmp.Or(o.Clock, ClockMonotonic)
	o.MaxDests = cmp.Or(o.MaxDests, DefaultMaxDests)
	o.HelloRate = cmp.Or(o.HelloRate, DefaultHelloRate)
	o.Heartbeat = cmp.Or(o.Heartbeat, DefaultHeartbeat)
	o.Patience = cmp.Or(o.Patience, DefaultPatience)
	return o
}
