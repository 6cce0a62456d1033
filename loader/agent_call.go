// SPDX-License-Identifier: Apache-2.0

package loader

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/bpf"
)

// AgentCall reads and writes live table entries in batches, by the call buffer and the agent
// call program. It has one user: the agent.
type AgentCall struct {
	slots []bpf.AgentSlot // the call buffer itself
	dests *ebpf.Map
	prog  *ebpf.Program
	mem   []byte

	rests    *atomic.Uint32 // the map agent_rests; nil in an attachment of an earlier version
	restsMem []byte
}

// NewAgentCall maps the call buffer.
func (a *Attachment) NewAgentCall() (*AgentCall, error) {
	mem, err := mapMemory(a.Maps.CallBuffer)
	if err != nil {
		return nil, fmt.Errorf("call buffer: %w", err)
	}
	x := &AgentCall{slots: bpf.SlotsOf(mem), dests: a.Maps.DestTable, prog: a.agentCall, mem: mem}
	if a.Maps.AgentRests != nil {
		if x.restsMem, err = mapMemory(a.Maps.AgentRests); err != nil {
			return nil, errors.Join(fmt.Errorf("agent_rests: %w", err), x.Close())
		}
		x.rests = bpf.WordOf(x.restsMem)
	}
	return x, nil
}

// Close unmaps the call buffer.
func (x *AgentCall) Close() error {
	err := unix.Munmap(x.mem)
	if x.restsMem != nil {
		x.rests.Store(0)
		err = errors.Join(err, unix.Munmap(x.restsMem))
	}
	return err
}

// Rest has the data plane send bpf.EventActive when a destination becomes active, once, or not. If none
// is in the active queue afterwards, the event is certain. It returns false if the programs cannot send it.
func (x *AgentCall) Rest(on bool) bool {
	if x.rests == nil {
		return false
	}
	v := uint32(0)
	if on {
		v = 1
	}
	if x.rests.Load() != v {
		x.rests.Store(v)
	}
	return on
}

// Slots returns the slots of the call buffer, of which there are bpf.AgentSlots.
func (x *AgentCall) Slots() []bpf.AgentSlot { return x.slots }

// Collect moves up to len(Slots()) destinations from the active queue to the slots, with a
// snapshot of their registers, and starts a new sample window for each. It returns the
// number of slots filled. A slot whose Found is 0 has the key of an entry that was deleted.
func (x *AgentCall) Collect() (int, error) { return x.run(bpf.AgentCollect, len(x.slots)) }

// Apply writes, for the first n slots, the fields that their Op names.
func (x *AgentCall) Apply(n int) error {
	_, err := x.run(bpf.AgentApply, n)
	return err
}

// Read snapshots the entries of the first n slots' keys.
func (x *AgentCall) Read(n int) error {
	_, err := x.run(bpf.AgentRead, n)
	return err
}

// Lookup reads the registers of a destination. It returns false if there is no entry.
func (x *AgentCall) Lookup(key bpf.DestKey, d *bpf.DestRegs) (bool, error) {
	err := x.dests.Lookup(key, d)
	if errors.Is(err, ebpf.ErrKeyNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read the destination table: %w", err)
	}
	return true, nil
}

func (x *AgentCall) run(op uint32, n int) (int, error) {
	return bpf.RunAgentCall(x.prog, op, n)
}

// mapMemory maps a whole BPF_F_MMAPABLE array into memory.
func mapMemory(m *ebpf.Map) ([]byte, error) {
	stride := (int(m.ValueSize()) + 7) &^ 7
	page := unix.Getpagesize()
	size := (stride*int(m.MaxEntries()) + page - 1) / page * page
	return unix.Mmap(m.FD(), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
}

// LiveConfig is the config map in memory: the data plane and all processes that map it see
// every change at once.
type LiveConfig struct {
	*bpf.Config
	mem []byte
}

// LiveConfig maps the config map.
func (a *Attachment) LiveConfig() (*LiveConfig, error) {
	mem, err := mapMemory(a.Maps.Config)
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	return &LiveConfig{bpf.ConfigOf(mem), mem}, nil
}

// Close unmaps the config.
func (c *LiveConfig) Close() error { return unix.Munmap(c.mem) }
