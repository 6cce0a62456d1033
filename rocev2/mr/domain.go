// SPDX-License-Identifier: Apache-2.0

package mr

import (
	"fmt"

	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// domains counts what each protection domain holds.
type domains struct {
	holds  map[uint32]int
	latest uint32
}

func newDomains() domains { return domains{holds: map[uint32]int{}} }

func (d *domains) acquire(pd uint32) error {
	if _, ok := d.holds[pd]; !ok {
		return fmt.Errorf("protection domain %d: %w", pd, verbs.ErrPD)
	}
	d.holds[pd]++
	return nil
}

func (d *domains) release(pd uint32) {
	if d.holds[pd] <= 0 {
		panic(fmt.Sprintf("mr: protection domain %d released more often than held", pd))
	}
	d.holds[pd]--
}

// AllocPD makes a protection domain (IBTA 11.2.1). Numbers count up from 1 and
// come again only after all others.
func (t *Table) AllocPD() uint32 {
	t.mu.Lock()
	defer t.mu.Unlock()
	d := &t.domains
	for {
		d.latest++
		if _, taken := d.holds[d.latest]; !taken && d.latest != 0 {
			d.holds[d.latest] = 0
			return d.latest
		}
	}
}

// OpenPD makes the protection domain with a number that the caller chose, if it does not exist.
func (t *Table) OpenPD(pd uint32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, exists := t.domains.holds[pd]; !exists {
		t.domains.holds[pd] = 0
	}
}

// FreePD ends a protection domain. While regions, windows or holds are left it
// fails with verbs.ErrBusy (IBTA 11.2.1).
func (t *Table) FreePD(pd uint32) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	n, ok := t.domains.holds[pd]
	if !ok {
		return fmt.Errorf("mr: protection domain %d: %w", pd, verbs.ErrPD)
	}
	if n > 0 {
		return fmt.Errorf("mr: protection domain %d: %w by %d regions, windows or queue pairs; remove those first", pd, verbs.ErrBusy, n)
	}
	delete(t.domains.holds, pd)
	return nil
}

// AcquirePD keeps the domain from being freed until ReleasePD: for queue pairs, shared
// receive queues and address handles.
func (t *Table) AcquirePD(pd uint32) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.domains.acquire(pd); err != nil {
		return fmt.Errorf("mr: %w", err)
	}
	return nil
}

// ReleasePD undoes one AcquirePD. It panics if there is none to undo.
func (t *Table) ReleasePD(pd uint32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.domains.release(pd)
}
