// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"time"
)

// Config is what a run sets in addition to topology and scheme. Zero values are defaults.
type Config struct {
	Seed         uint64
	PayloadBytes int // payload of a full packet; 1000
	// BufferBytes is a switch's shared buffer, 32 MiB by default (a scenario sets 32 MB). Packets count
	// with preamble and gap.
	BufferBytes int64
	// Alpha: without PFC a queue may hold this times the buffer that is still
	// free (dynamic threshold); 1.
	Alpha float64
	// PFC overrides Needs.PFC.
	PFC Switch
	// PFCAlpha: an ingress queue is paused at this times the free buffer; 1/8.
	PFCAlpha  float64
	Transport Transport // default transport if the scheme does not prescribe one; GoBackN
	// ReorderPackets is how far a packet may be overtaken before a selective
	// sender takes it for lost; 0, as paths keep the order.
	ReorderPackets uint32
	RTO            time.Duration // doubled at each expiry without progress, up to 8 times; 4 ms
	// AckEvery coalesces ACKs: one for so many packets, or after AckDelay. The
	// last packet of a flow and one out of order are answered at once. 1, 20 µs.
	AckEvery int
	AckDelay time.Duration
	// AckPriority puts ACKs into the control queue that is served first. Without
	// it they queue with data: of several data queues they take the first, whatever
	// the scheme.
	AckPriority bool
	// Classes is the number of data queues of a port, 1 to 6, by default what the
	// scheme wants. Without Weights a lower class is served first, with them they share by deficit round robin.
	Classes    int
	Weights    []int
	Turnaround time.Duration // turnaround of every host, from data to ACK
}

// Switch is a setting that may be left to the scheme.
type Switch uint8

// The settings.
const (
	BySchemeDefault Switch = iota
	On
	Off
)

func (c Config) withDefaults(needs *Needs) (Config, error) {
	def := func(v *int, d int) {
		if *v == 0 {
			*v = d
		}
	}
	def(&c.PayloadBytes, 1000)
	def(&c.AckEvery, 1)
	def(&c.Classes, max(needs.Classes, 1))
	if c.BufferBytes == 0 {
		c.BufferBytes = 32 << 20
	}
	if c.Alpha == 0 {
		c.Alpha = 1
	}
	if c.PFCAlpha == 0 {
		c.PFCAlpha = 0.125
	}
	if c.RTO == 0 {
		c.RTO = 4 * time.Millisecond
	}
	if c.AckDelay == 0 {
		c.AckDelay = 20 * time.Microsecond
	}
	if needs.Transport != TransportAny {
		c.Transport = needs.Transport
	}
	if c.Transport == TransportAny {
		c.Transport = GoBackN
	}
	if c.PFC == BySchemeDefault {
		c.PFC = Off
		if needs.PFC {
			c.PFC = On
		}
	}
	return c, c.validate(needs)
}

func (c *Config) validate(needs *Needs) error {
	full := c.PayloadBytes + roceHeaders + preambleGap + needs.HeaderBytes
	switch {
	case c.PayloadBytes < 1 || full > 1<<16-1:
		return fmt.Errorf("payload of %d bytes: a packet with %d bytes of headers must fit 65535 bytes", c.PayloadBytes, full-c.PayloadBytes)
	case c.Classes < 1 || c.Classes > 6:
		return fmt.Errorf("%d data classes: use 1 to 6", c.Classes)
	case c.Weights != nil && len(c.Weights) != c.Classes:
		return fmt.Errorf("%d weights for %d data classes: give one for each", len(c.Weights), c.Classes)
	case c.BufferBytes < int64(2*full):
		return fmt.Errorf("a buffer of %d bytes holds less than two packets", c.BufferBytes)
	case c.Alpha < 0 || c.PFCAlpha < 0:
		return fmt.Errorf("alpha %g, PFC alpha %g: thresholds cannot be negative", c.Alpha, c.PFCAlpha)
	case c.AckEvery < 1 || c.AckEvery > 64:
		return fmt.Errorf("an ACK for %d packets: use 1 to 64", c.AckEvery)
	case c.RTO < 0 || c.AckDelay < 0 || c.Turnaround < 0:
		return fmt.Errorf("times cannot be negative: RTO %v, ACK delay %v, turnaround %v", c.RTO, c.AckDelay, c.Turnaround)
	case needs.HeaderBytes < 0 || needs.AckHeaderBytes < 0:
		return fmt.Errorf("scheme headers of %d and %d bytes: they cannot be negative", needs.HeaderBytes, needs.AckHeaderBytes)
	}
	for i, w := range c.Weights {
		if w < 1 {
			return fmt.Errorf("weight %d of class %d: use 1 or more", w, i)
		}
	}
	return nil
}
