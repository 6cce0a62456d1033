// SPDX-License-Identifier: Apache-2.0

package loader

import (
	"fmt"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/bpf"
)

// Exchange reads and writes live table entries in batches, through the mailbox
// map and the exchange program. It has one user at a time: the agent.
type Exchange struct {
	Slots []bpf.ExchangeSlot // the mailbox itself, bpf.ExchangeSlots long
	prog  *ebpf.Program
	mem   []byte
}

// NewExchange maps the mailbox.
func (a *Attachment) NewExchange() (*Exchange, error) {
	mem, err := mapMemory(a.Maps.Mailbox)
	if err != nil {
		return nil, fmt.Errorf("mailbox: %w", err)
	}
	return &Exchange{Slots: bpf.SlotsOf(mem), prog: a.exchange, mem: mem}, nil
}

// Close unmaps the mailbox.
func (x *Exchange) Close() error { return unix.Munmap(x.mem) }

// Collect takes up to len(Slots) destinations off the active queue into the
// slots, snapshots their registers and starts a new sample window. A slot whose
// Found is 0 belongs to an entry that has been deleted.
func (x *Exchange) Collect() (int, error) { return x.run(bpf.ExchangeCollect, len(x.Slots)) }

// Apply writes, for the first n slots, the fields that their Op names.
func (x *Exchange) Apply(n int) error {
	_, err := x.run(bpf.ExchangeApply, n)
	return err
}

// Read snapshots the entries of the first n slots' keys.
func (x *Exchange) Read(n int) error {
	_, err := x.run(bpf.ExchangeRead, n)
	return err
}

func (x *Exchange) run(op uint32, n int) (int, error) {
	return bpf.RunExchange(x.prog, op, n)
}

// mapMemory maps a whole BPF_F_MMAPABLE array into memory.
func mapMemory(m *ebpf.Map) ([]byte, error) {
	stride := (int(m.ValueSize()) + 7) &^ 7
	page := unix.Getpagesize()
	size := (stride*int(m.MaxEntries()) + page - 1) / page * page
	return unix.Mmap(m.FD(), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
}

// LiveConfig is the config map in memory: what is written into it, the data plane
// and every other process see at once.
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
