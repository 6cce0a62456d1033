// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"fmt"

	"github.com/cilium/ebpf"
)

// EngineSync calls the engine_sync program: it reports the packets that the engine sent to
// some destinations, and receives their rates. It has one user at a time.
type EngineSync struct {
	prog    *ebpf.Program
	in, out engineMessage
}

// engineMessage is a call and its slots.
type engineMessage struct {
	callHeader
	slots [EngineSlots]EngineSlot
}

// NewEngineSync prepares calls of the program.
func NewEngineSync(prog *ebpf.Program) *EngineSync { return &EngineSync{prog: prog} }

// Run reports the slots, at most EngineSlots, and writes the answers into them.
// Destinations without an entry get one, as from egress.
func (e *EngineSync) Run(slots []EngineSlot) error {
	if len(slots) == 0 {
		return nil
	}
	n := copy(e.in.slots[:], slots)
	if n < len(slots) {
		return fmt.Errorf("engine sync: %d destinations, at most %d fit", len(slots), EngineSlots)
	}
	e.in.op, e.in.count = engineSync, uint32(n)
	done, err := call(e.prog, "engine sync", e.in.bytes(n), e.out.bytes(n))
	if err != nil {
		return err
	}
	if done != n {
		return fmt.Errorf("engine sync program: did %d of %d destinations", done, n)
	}
	copy(slots, e.out.slots[:n])
	return nil
}
