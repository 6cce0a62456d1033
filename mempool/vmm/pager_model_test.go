// SPDX-License-Identifier: Apache-2.0

package vmm

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// model is a pager that is used at random, and the values that its pages must have.
type model struct {
	*rig
	rnd     *rand.Rand
	want    []byte
	waiting []waiter // accesses that have not ended
	pinned  []int64
	broken  map[int64]bool // a READ of the page has failed, or an access has waited too long
}

type waiter struct {
	f    *fault
	page int64
	mode mode
}

var errModel = errors.New("the store has failed")

// Accesses of many threads at random, in regions and maps, while READs and WRITEs complete in any order, fail,
// or do not complete before the deadline. At each step all local pages, and the pages in the store that are not
// local, have the value that was written last. Each access ends at its deadline at the latest, and each error has
// its cause. When the store works again, all pages can be had that were not lost, and no state is left over.
func TestPagerModel(t *testing.T) {
	for _, isMap := range []bool{false, true} {
		for seed := range uint64(60) {
			t.Run(fmt.Sprintf("map=%v/%d", isMap, seed), func(t *testing.T) {
				rnd := rand.New(rand.NewPCG(seed, 11))
				local := 16 + rnd.IntN(30)
				m := &model{
					rig: newRig(t, 200, local, 1+rnd.IntN(local/4), isMap), rnd: rnd, want: make([]byte, 200), broken: map[int64]bool{},
				}
				for range 3000 {
					m.step()
					m.verify()
				}
				m.end()
			})
		}
	}
}

// page picks a page: one of all, of a few, or the one after the last.
func (m *model) page() int64 {
	switch m.rnd.IntN(4) {
	case 0:
		return int64(m.rnd.IntN(10))
	case 1:
		return (m.keep + 1) % int64(len(m.want))
	default:
		return int64(m.rnd.IntN(len(m.want)))
	}
}

// step does one thing that may happen.
func (m *model) step() {
	n := m.page()
	switch m.rnd.IntN(12) {
	case 0, 1, 2, 3:
		m.use(n, mode(m.rnd.IntN(2)))
	case 4: // a map writes without a fault where it may
		if m.m.isMap && m.m.writable[n] && m.rig.pages[n].state == stateResident {
			m.write(n)
		}
	case 5:
		m.regionOnly(n)
	case 6, 7:
		m.completeRead(m.rnd.IntN(8) == 0)
	case 8, 9:
		m.completeWrite(m.rnd.IntN(4) == 0)
	default:
		m.now = m.now.Add(time.Duration(m.rnd.IntN(60)) * time.Millisecond)
		m.expire(m.now)
		m.collect()
	}
	m.wake()
}

// regionOnly does what only a region can: writes of whole pages, reads in advance, and pins.
func (m *model) regionOnly(n int64) {
	if m.m.isMap {
		return
	}
	switch m.rnd.IntN(4) {
	case 0:
		if m.overwrite(n, []byte{m.want[n] + 1}, m.now) {
			m.want[n]++
		}
	case 1:
		m.request(n, min(n+int64(m.rnd.IntN(5)), int64(len(m.want)-1)))
	case 2:
		if m.rig.pages[n].state == stateResident && len(m.pinned) < 4 {
			m.rig.pages[n].pins++
			m.pinned = append(m.pinned, n)
		}
	case 3:
		if len(m.pinned) > 0 {
			m.rig.pages[m.pinned[0]].pins--
			m.pinned = m.pinned[1:]
		}
	}
	m.collect()
}

func (m *model) write(n int64) {
	m.want[n]++
	m.m.pages[n] = m.want[n]
}

// use accesses a page.
func (m *model) use(n int64, how mode) {
	f, err := m.get(n, how)
	switch {
	case err != nil:
		m.failed(n, err)
	case f != nil:
		m.waiting = append(m.waiting, waiter{f, n, how})
	case how == forWrite:
		m.write(n)
	}
}

// wake has accesses go on whose fault has ended.
func (m *model) wake() {
	var ended []waiter
	m.waiting = slices.DeleteFunc(m.waiting, func(w waiter) bool {
		if w.f.finished {
			ended = append(ended, w)
		} else if !m.now.Before(w.f.deadline) {
			m.t.Fatalf("page %d: an access still waits at its deadline", w.page)
		}
		return w.f.finished
	})
	for _, w := range ended {
		if w.f.err != nil {
			m.failed(w.page, w.f.err)
		} else {
			m.use(w.page, w.mode)
		}
	}
}

// failed checks an error of an access: it must have a cause that the test has given.
func (m *model) failed(n int64, err error) {
	m.t.Helper()
	var p *PageError
	if !errors.As(err, &p) || p.Offset != n*PageSize {
		m.t.Fatalf("page %d: %v", n, err)
	}
	if !errors.Is(err, errModel) && !errors.Is(err, ErrDeadline) && !errors.Is(err, ErrNoRoom) {
		m.t.Fatalf("page %d: an error without a cause: %v", n, err)
	}
	m.broken[n] = true
}

func (m *model) completeRead(fails bool) {
	if len(m.readQ) == 0 {
		return
	}
	i := m.rnd.IntN(len(m.readQ))
	n := m.readQ[i]
	m.readQ = slices.Delete(m.readQ, i, i+1)
	m.data[n][0] = m.store[n]
	var err error
	if fails {
		m.data[n][0], err = ^m.store[n], errModel
	}
	m.readDone(n, err, m.now)
	m.collect()
}

// completeWrite completes a WRITE. One that fails may have been done, or a part of it.
func (m *model) completeWrite(fails bool) {
	if len(m.writeQ) == 0 {
		return
	}
	i := m.rnd.IntN(len(m.writeQ))
	n := m.writeQ[i]
	m.writeQ = slices.Delete(m.writeQ, i, i+1)
	m.store[n] = m.data[n][0]
	var err error
	if fails {
		m.store[n], err = byte(m.rnd.Uint32()), errModel
	}
	m.writeDone(n, err, m.now)
	m.collect()
}

// verify checks all pages.
func (m *model) verify() {
	m.t.Helper()
	m.check()
	for n := range m.rig.pages {
		n, pg := int64(n), &m.rig.pages[n]
		value, local := m.m.pages[n]
		stored, inStore := m.store[n]
		switch {
		case local != (pg.state == stateResident):
			m.t.Fatalf("page %d is in state %d, local: %v", n, pg.state, local)
		case local && value != m.want[n]:
			m.t.Fatalf("page %d has %d, want %d", n, value, m.want[n])
		case pg.state == stateFresh && m.want[n] != 0:
			m.t.Fatalf("page %d would be read as zeroes", n)
		case (pg.state == stateRemote || pg.state == stateReading || pg.state == stateHeld) && (!inStore || stored != m.want[n]):
			m.t.Fatalf("page %d has %d in the store, want %d", n, stored, m.want[n])
		case pg.state == stateLost && (!m.broken[n] || !m.m.isMap):
			m.t.Fatalf("page %d is lost without a reason", n)
		}
	}
	for _, n := range m.pinned {
		if m.rig.pages[n].state != stateResident {
			m.t.Fatalf("page %d is pinned, and not local", n)
		}
	}
}

// end has the store work again, and accesses all pages.
func (m *model) end() {
	m.t.Helper()
	settle := func() {
		for range 1000 {
			for len(m.readQ)+len(m.writeQ) > 0 {
				m.completeRead(false)
				m.completeWrite(false)
			}
			m.wake()
			if len(m.waiting) == 0 {
				return
			}
			m.now = m.now.Add(retryWrite)
			m.expire(m.now)
			m.collect()
		}
		m.t.Fatalf("%d accesses do not end", len(m.waiting))
	}
	settle()
	clear(m.broken)
	lost := 0
	for n := range int64(len(m.want)) {
		if m.rig.pages[n].state == stateLost {
			lost++
			if _, err := m.get(n, forRead); err == nil {
				m.t.Fatalf("page %d is lost, and an access succeeds", n)
			}
			continue
		}
		m.use(n, forRead)
		settle()
		if value, ok := m.m.pages[n]; ok && value != m.want[n] || m.broken[n] {
			m.t.Fatalf("page %d has %d, want %d (failed: %v)", n, value, m.want[n], m.broken[n])
		}
	}
	if lost != m.stats.Lost {
		m.t.Errorf("%d pages are lost, %d are counted", lost, m.stats.Lost)
	}
	if len(m.rig.faults) > 0 || len(m.queue) > 0 || m.writes > 0 {
		m.t.Errorf("left over: %d faults, %d queued, %d WRITEs", len(m.rig.faults), len(m.queue), m.writes)
	}
	for _, pg := range m.rig.pages {
		if pg.state == stateQueued || pg.state == stateReading || pg.writing {
			m.t.Fatalf("a page is left as %+v", pg)
		}
	}
}
