// SPDX-License-Identifier: Apache-2.0

package mr

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/softroce/softroce-xdp/rocev2/mem"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

const everything = verbs.AccessLocalWrite | verbs.AccessRemoteWrite | verbs.AccessRemoteRead | verbs.AccessRemoteAtomic | verbs.AccessBindWindows

func newTable(t testing.TB) *Table {
	t.Helper()
	table, err := New(Config{Keys: 256})
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func register(t testing.TB, table *Table, s Spec) *Region {
	t.Helper()
	r, err := table.Register(s)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func newWindow(t testing.TB, table *Table, pd uint32) *Window {
	t.Helper()
	w, err := table.AllocWindow(pd)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func wantFault(t testing.TB, what string, got, want mem.Fault) {
	t.Helper()
	if got != want {
		t.Errorf("%s: fault %v, want %v", what, got, want)
	}
}

// banks is a backend of several memories far apart, such as the card's DDR.
// Address: bank number in bits 40 and up, offset below. Touching what no bank holds, or
// beyond a bank's end, is an error; so is everything while broken is set.
type banks struct {
	mu     sync.Mutex
	bank   [4][]byte
	broken bool
	calls  int
}

var errBanks = errors.New("no memory there")

func newBanks(size int) *banks {
	b := &banks{}
	for i := range b.bank {
		b.bank[i] = make([]byte, size)
	}
	return b
}

func bankAddr(bank, off uint64) uint64 { return bank<<40 | off }

func (b *banks) piece(addr uint64, n int) ([]byte, error) {
	b.calls++
	bank, off := addr>>40, addr&(1<<40-1)
	if b.broken || bank >= 4 || off+uint64(n) > uint64(len(b.bank[bank])) {
		return nil, fmt.Errorf("%w: %#x, %d bytes", errBanks, addr, n)
	}
	return b.bank[bank][off:][:n], nil
}

func (b *banks) ReadAt(dst []byte, addr uint64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	p, err := b.piece(addr, len(dst))
	copy(dst, p)
	return err
}

func (b *banks) WriteAt(src []byte, addr uint64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	p, err := b.piece(addr, len(src))
	copy(p, src)
	return err
}

func (b *banks) CompareSwap(addr, compare, swap uint64) (uint64, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p, err := b.piece(addr, 8)
	if err != nil {
		return 0, err
	}
	old := native.Uint64(p)
	if old == compare {
		native.PutUint64(p, swap)
	}
	return old, nil
}

func (b *banks) FetchAdd(addr, add uint64) (uint64, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p, err := b.piece(addr, 8)
	if err != nil {
		return 0, err
	}
	old := native.Uint64(p)
	native.PutUint64(p, old+add)
	return old, nil
}
