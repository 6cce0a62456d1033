// SPDX-License-Identifier: Apache-2.0

package loader

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/cilium/ebpf"

	"github.com/softroce/softroce-xdp/bpf"
)

// Row is one destination and its registers.
type Row = bpf.Row

// Rows reads the destination table, ordered by node number, then address. Entries that are
// created or deleted meanwhile may or may not be included.
func (a *Attachment) Rows() ([]Row, error) {
	var rows []Row
	err := a.EachRow(func(r Row) { rows = append(rows, r) })
	slices.SortFunc(rows, func(x, y Row) int {
		// Entries without a number come last.
		return cmp.Or(cmp.Compare(x.Regs.Node-1, y.Regs.Node-1), x.Addr.Compare(y.Addr))
	})
	return rows, err
}

// rowBatch is the number of entries that are read in one call. It limits the memory for
// walking a large table.
const rowBatch = 256

// EachRow calls f for every entry, in no order.
func (a *Attachment) EachRow(f func(Row)) error {
	keys := make([]bpf.DestKey, rowBatch)
	regs := make([]bpf.DestRegs, rowBatch)
	var cursor ebpf.MapBatchCursor
	for {
		n, err := a.Maps.DestTable.BatchLookup(&cursor, keys, regs, nil)
		if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return fmt.Errorf("read the destination table: %w", err)
		}
		for i := range n {
			f(Row{Addr: bpf.AddrOf(keys[i]), Regs: regs[i]})
		}
		if err != nil {
			return nil
		}
	}
}

// Lookup reads the entry of one address.
func (a *Attachment) Lookup(addr netip.Addr) (Row, bool, error) {
	r := Row{Addr: addr.Unmap()}
	err := a.Maps.DestTable.Lookup(bpf.KeyOf(addr), &r.Regs)
	if errors.Is(err, ebpf.ErrKeyNotExist) {
		return r, false, nil
	}
	if err != nil {
		return r, false, fmt.Errorf("read the destination table: %w", err)
	}
	return r, true, nil
}

// Stat is one counter, summed over the CPUs.
type Stat struct {
	bpf.Reason
	Count uint64
}

// Stats reads all counters in the order of bpf.Reasons.
func (a *Attachment) Stats() ([]Stat, error) {
	var out []Stat
	for _, r := range bpf.Reasons() {
		var perCPU []uint64
		if err := a.Maps.Stats.Lookup(r.Number, &perCPU); err != nil {
			return nil, fmt.Errorf("read counter %s: %w", r.Name, err)
		}
		s := Stat{Reason: r}
		for _, n := range perCPU {
			s.Count += n
		}
		out = append(out, s)
	}
	return out, nil
}
