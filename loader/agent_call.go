// SPDX-License-Identifier: Apache-2.0

package loader

import (
	"fmt"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/bpf"
)

// AgentCall reads and writes live table entries in batches, by the call buffer and the agent
// call program. It has one user: the agent.
type AgentCall struct {
	Slots []bpf.AgentSlot // the call buffer itself, bpf.AgentSlots long
	prog  *ebpf.Program
	mem   []byte
}

// NewAgentCall maps the call buffer.
func (a *Attachment) NewAgentCall() (*AgentCall, error) {
	mem, err := mapMemory(a.Maps.CallBuffer)
	if err != nil {
		return nil, fmt.Errorf("call buffer: %w", err)
	}
	return &AgentCall{Slots: bpf.SlotsOf(mem), prog: a.agentCall, mem: mem}, nil
}

// Close unmaps the call buffer.
func (x *AgentCall) Close() error { return unix.Munmap(x.mem) }

// Collect moves up to len(Slots) destinations from the active queue to the slots, with a
// snapshot of their registers, and starts a new sample window for each. It returns the
// number of slots filled. A slot whose Found is 0 has the key of an entry that was deleted.
func (x *AgentCall) Collect() (int, error) { return x.run(bpf.AgentCollect, len(x.Slots)) }

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
