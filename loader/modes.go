// SPDX-License-Identifier: Apache-2.0

package loader

import "golang.org/x/sys/unix"

// XDPMode is the XDP hook of the ingress program. Its values are those of the command line
// and of the state file, like those of EgressHook and StampClock.
type XDPMode string

// The XDP modes.
const (
	XDPAuto    XDPMode = "auto" // native if the driver can; only in Options
	XDPNative  XDPMode = "native"
	XDPGeneric XDPMode = "generic"
)

// XDPModes lists all modes.
var XDPModes = []XDPMode{XDPAuto, XDPNative, XDPGeneric}

// EgressHook is the hook of the egress program.
type EgressHook string

// The egress hooks.
const (
	EgressAuto   EgressHook = "auto" // TCX if the kernel can; only in Options
	EgressTCX    EgressHook = "tcx"
	EgressClsact EgressHook = "clsact"
)

// EgressHooks lists all hooks.
var EgressHooks = []EgressHook{EgressAuto, EgressTCX, EgressClsact}

// StampClock is the clock of the timestamp option and of the times in the table.
type StampClock string

// The clocks.
const (
	ClockMonotonic StampClock = "monotonic"
	ClockTAI       StampClock = "tai" // for hosts that are synchronised by PTP
)

// StampClocks lists all clocks.
var StampClocks = []StampClock{ClockMonotonic, ClockTAI}

// Offset returns the clock minus the monotonic clock, in nanoseconds.
func (c StampClock) Offset() uint64 {
	if c != ClockTAI {
		return 0
	}
	return Clock(unix.CLOCK_TAI) - Monotonic()
}
