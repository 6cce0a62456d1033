// SPDX-License-Identifier: Apache-2.0

package ooo

import (
	"errors"
	"fmt"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/mem"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Time is a moment or a duration in nanoseconds on the engine's monotonic clock. The moment zero
// means no moment.
type Time int64

// Units of Time.
const (
	Microsecond Time = 1000
	Millisecond      = 1000 * Microsecond
	Second           = 1000 * Millisecond
)

// Limits of Config.
const (
	MinWindow   = 64
	MaxWindow   = 1 << 15
	MaxMessages = 1 << 11 // half of the range in which a target finds repeated message ids
	MaxPaths    = 64
	MaxRails    = 8
	MinPayload  = 256
	MaxPayload  = 4096
)

// Config is fixed for the life of a queue pair. Zero values stand for the defaults that are
// given in parentheses.
type Config struct {
	QPN, PeerQPN     uint32
	PD               uint32
	SendPSN, RecvPSN rocev2.PSN // first PSN of each direction
	PMTU             rocev2.PMTU

	// Payload is the most data of one packet in bytes, 256..4096 and a multiple of 4, the same at both
	// ends (that of PMTU). Each packet has its own length, so that it need not be a power of two: see
	// PayloadForMTU. PMTU has no other use then.
	Payload int

	// Window is the number of packets after the first missing one that this side accepts, a power
	// of two in 64..32768 (256). PeerWindow is that of the peer (Window). InFlight bounds the
	// unanswered packets of this side (PeerWindow).
	Window, PeerWindow, InFlight int

	Messages  int // outstanding messages of this side, a power of two up to 2048 (64)
	Responses int // responses that wait for NextAck, and READ responses of each rail for NextData (Window)

	Paths int    // UDP source ports in use, 1..64 (16)
	Rails int    // interfaces that the paths are on, in turn, 1..8 and at most Paths (1)
	Seed  uint64 // seed for the choice of ports; any value

	Tries         int  // transmissions of one packet before the queue pair fails, 1..255 (16)
	NotReadyTries int  // refusals of one notification before its message fails, 1..65535 (1000)
	NotReadyDelay Time // time until a refused notification is repeated (100 us)
	InitialRTO    Time // RTO before the first RTT sample (4 ms)
	MinRTO        Time // RTO without later answers of the same path (1 ms)
	MinReorder    Time // the least time that reordering may take (20 us)
	MinQueueing   Time // the least delay of a queue that shrinks the window of a path (MinReorder)

	Memory mem.Memory
	Queues *Queues // queues of notifications; nil: every notification is refused
	// Deliver takes the notifications in place of Queues, or is nil. It returns 0, or why it takes
	// none: after ONakNotReady the source repeats it.
	Deliver  func(queue uint32, n Notification) rocev2.ONakCode
	Complete func(verbs.Completion) // callback of completions, or nil; called in the engine's thread
	Count    *Counters              // counters, or nil; shared by the queue pairs of an engine
}

// PayloadForMTU returns the largest Config.Payload whose packets fit an interface of mtu bytes of IP,
// with the stamp option; ok is false if not even MinPayload fits. Ends whose interfaces have different
// MTUs take the lesser one. An MTU of 1500 has room for 1392 bytes, and the largest PMTU that fits it
// is 1024.
func PayloadForMTU(mtu int, ipv6 bool) (payload int, ok bool) {
	payload = min((mtu-Overhead(ipv6)-rocev2.StampLen)&^3, MaxPayload)
	return payload, payload >= MinPayload
}

// Overhead returns the bytes of a packet besides its data, from the IP header on and without the stamp option.
func Overhead(ipv6 bool) int {
	const udp, ipv4Len, ipv6Len = 8, 20, 40
	if ipv6 {
		return ipv6Len + udp + rocev2.BTHLen + rocev2.OETHLen + rocev2.ICRCLen
	}
	return ipv4Len + udp + rocev2.BTHLen + rocev2.OETHLen + rocev2.ICRCLen
}

// CheckPayload returns an error if Config.Payload may not be n.
func CheckPayload(n int) error {
	if n < MinPayload || n > MaxPayload || n%4 != 0 {
		return fmt.Errorf("%w: Payload is %d: choose a multiple of 4 in %d..%d", ErrConfig, n, MinPayload, MaxPayload)
	}
	return nil
}

// ErrConfig is what New wraps.
var ErrConfig = errors.New("ooo: impossible configuration")

func (c *Config) setDefaults() error {
	def := func(v *int, value int) {
		if *v == 0 {
			*v = value
		}
	}
	defTime := func(v *Time, value Time) {
		if *v == 0 {
			*v = value
		}
	}
	def(&c.Window, 256)
	def(&c.PeerWindow, c.Window)
	def(&c.InFlight, c.PeerWindow)
	def(&c.Messages, 64)
	def(&c.Responses, c.Window)
	def(&c.Paths, 16)
	def(&c.Rails, 1)
	def(&c.Tries, 16)
	def(&c.NotReadyTries, 1000)
	defTime(&c.NotReadyDelay, 100*Microsecond)
	defTime(&c.InitialRTO, 4*Millisecond)
	defTime(&c.MinRTO, Millisecond)
	defTime(&c.MinReorder, 20*Microsecond)
	defTime(&c.MinQueueing, c.MinReorder)
	if c.Count == nil {
		c.Count = new(Counters)
	}
	c.InFlight = min(c.InFlight, c.PeerWindow)
	def(&c.Payload, c.PMTU.Bytes())
	return c.check()
}

func (c *Config) check() error {
	for _, l := range []struct {
		name            string
		value, min, max int
		power           bool
	}{
		{"Window", c.Window, MinWindow, MaxWindow, true},
		{"PeerWindow", c.PeerWindow, 1, MaxWindow, false},
		{"InFlight", c.InFlight, 1, MaxWindow, false},
		{"Messages", c.Messages, 1, MaxMessages, true},
		{"Responses", c.Responses, 1, MaxWindow, false},
		{"Paths", c.Paths, 1, MaxPaths, false},
		{"Rails", c.Rails, 1, min(MaxRails, c.Paths), false},
		{"Tries", c.Tries, 1, 255, false},
		{"NotReadyTries", c.NotReadyTries, 1, 1<<16 - 1, false},
	} {
		if l.value < l.min || l.value > l.max {
			return fmt.Errorf("%w: %s is %d: choose %d..%d", ErrConfig, l.name, l.value, l.min, l.max)
		}
		if l.power && l.value&(l.value-1) != 0 {
			return fmt.Errorf("%w: %s is %d: choose a power of two", ErrConfig, l.name, l.value)
		}
	}
	for _, t := range []Time{c.NotReadyDelay, c.InitialRTO, c.MinRTO, c.MinReorder, c.MinQueueing} {
		if t <= 0 || t > 60*Second {
			return fmt.Errorf("%w: a time of %d ns: choose 1 ns to 60 s", ErrConfig, t)
		}
	}
	switch {
	case !c.PMTU.Valid():
		return fmt.Errorf("%w: PMTU %d: choose 1..5", ErrConfig, c.PMTU)
	case c.Memory == nil:
		return fmt.Errorf("%w: no Memory", ErrConfig)
	case (c.QPN | c.PeerQPN | uint32(c.SendPSN) | uint32(c.RecvPSN)) > rocev2.PSNMask:
		return fmt.Errorf("%w: queue pair numbers and PSNs have 24 bits", ErrConfig)
	}
	return CheckPayload(c.Payload)
}
