// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"fmt"

	"github.com/cilium/ebpf"
)

// EngineSync calls the engine_sync program: it reports what the engine sent to some
// destinations and learns their rates. It has one user at a time.
type EngineSync struct {
	prog    *ebpf.Program
	in, out engineMessage
}

// engineMessage is struct engine_ctx with the slots behind it.
type engineMessage struct {
	op, count uint32
	zero      uint64
	slots     [EngineSlots]EngineSlot
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
	done, err := e.prog.Run(&ebpf.RunOptions{Data: e.in.bytes(n), DataOut: e.out.bytes(n)})
	switch {
	case err != nil:
		return fmt.Errorf("engine sync program: %w", err)
	case int(done) != n:
		return fmt.Errorf("engine sync program: did %d of %d destinations", int32(done), n)
	}
	copy(slots, e.out.slots[:n])
	return nil
}
