// SPDX-License-Identifier: Apache-2.0

package loader

import (
	"time"

	"github.com/softroce/softroce-xdp/cc/fourcase"
	"github.com/softroce/softroce-xdp/cc/priority"
)

// Options say how to attach. The zero value of a field means its default.
type Options struct {
	PinRoot  string // DefaultPinRoot
	RunDir   string // DefaultRunDir
	Version  string // of the product, for status
	XDPMode  string // auto, native or generic
	Egress   string // auto, tcx or clsact
	Pacer    string // auto, edt, htb, police or none
	Clock    string // monotonic or tai
	RateBps  uint64 // link rate; 0 asks the driver
	MaxDests uint32 // size of the destination table
	Node     uint32 // this node's number, 0 = none
	NodeFile string

	HelloRate uint32 // HELLOs answered per second and CPU
	Heartbeat time.Duration

	// Control is held by the caller for the interface; nil has each call take it.
	Control  *Control
	Patience time.Duration // with changes of other processes; DefaultPatience

	// Policy overrides what the link's rate gives.
	Policy func(*fourcase.Params)

	Priority priority.Params

	// WindowOff has rates alone limit what the engine sends.
	WindowOff bool
}

// Defaults of Options.
const (
	DefaultMaxDests  = 65536
	DefaultHelloRate = 1000
	DefaultHeartbeat = 3 * time.Second
)

func (o Options) withDefaults() Options {
	def := func(s *string, v string) {
		if *s == "" {
			*s = v
		}
	}
	def(&o.PinRoot, DefaultPinRoot)
	def(&o.RunDir, DefaultRunDir)
	def(&o.XDPMode, "auto")
	def(&o.Egress, "auto")
	def(&o.Pacer, "auto")
	def(&o.Clock, "monotonic")
	if o.MaxDests == 0 {
		o.MaxDests = DefaultMaxDests
	}
	if o.HelloRate == 0 {
		o.HelloRate = DefaultHelloRate
	}
	if o.Heartbeat == 0 {
		o.Heartbeat = DefaultHeartbeat
	}
	if o.Patience == 0 {
		o.Patience = DefaultPatience
	}
	return o
}
