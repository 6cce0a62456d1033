// SPDX-License-Identifier: Apache-2.0

package priority

import "fmt"

// Mode turns the policy on and off.
type Mode uint32

// The modes.
const (
	ModeOn  Mode = iota // where the node file gives levels, minimums or maximums
	ModeOff             // the four-case policy alone
)

var modeNames = [...]string{"on", "off"}

func (m Mode) String() string {
	if int(m) < len(modeNames) {
		return modeNames[m]
	}
	return fmt.Sprintf("mode %d", uint32(m))
}

// ParseMode is the inverse of Mode.String.
func ParseMode(s string) (Mode, error) {
	for i, name := range modeNames {
		if s == name {
			return Mode(i), nil
		}
	}
	return 0, fmt.Errorf("%q is neither on nor off", s)
}

// Params are the policy's parameters: struct priority_params of bpf/lib/policy.h,
// field by field.
type Params struct {
	CapacityBps uint64 // capacity of the link that the nodes share; 0 = the interface's rate
	Mode        Mode
	Reserved    uint32
}

// State is what the policy does at present: struct priority_state of bpf/lib/policy.h.
type State struct {
	CapacityBps uint64 // capacity that is shared
	Flags       Flags
	Level       uint32 // level in which the capacity ends, 0 = all demands fit
	Active      uint32 // destinations that it is shared among
	Held        uint32 // destinations of Active that are held below what the four-case policy allows
}

// Flags of a State.
type Flags uint32

// The flags.
const (
	On        Flags = 1 << iota // the node file gives priorities, and the mode is on
	Congested                   // the nodes want more than there is
	Scaled                      // not even the minimums fit
	Estimated                   // CapacityBps is estimated from congestion at several destinations
)

// Limit is the capacity to share on an interface of linkBps.
func (p *Params) Limit(linkBps uint64) uint64 {
	if p.CapacityBps == 0 {
		return linkBps
	}
	return min(p.CapacityBps, linkBps)
}
