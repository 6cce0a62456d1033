// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"slices"
	"sync"
	"testing"

	"github.com/softroce/softroce-xdp/internal/testkit"
)

// watcher collects its calls.
type watcher struct {
	mu             sync.Mutex
	room           int
	lost, squeezed []int64
}

func (w *watcher) Room(pages int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.room = pages
}

func (w *watcher) Lost(list []int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lost = append(w.lost, list...)
}

func (w *watcher) Squeezed(list []int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.squeezed = append(w.squeezed, list...)
}

// wait waits until the watcher was told something.
func (w *watcher) wait(t *testing.T, what string, ok func() bool) {
	t.Helper()
	testkit.Eventually(t, what, func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return ok()
	})
}

// A watcher gets room, pages that find no room while their slab must be returned, and those that
// are lost. A page that is forgotten in time is neither.
func TestWatcher(t *testing.T) {
	dev, at := pool(t, 2, testkit.Patience)
	n := join(t, dev, at, "a", 2*slabBytes)
	w := &watcher{}
	s, data := newStore(t, n, Config{Demand: 2 * slabBytes, Watcher: w})
	w.wait(t, "room for two slabs", func() bool { return w.room == 2*slabPages })
	for page := range int64(2 * slabPages) {
		testkit.Must(t, access(s.WritePages, page, data))
	}
	join(t, dev, at, "b", 2*slabBytes)
	w.wait(t, "pages without room", func() bool { return len(w.squeezed) > 0 })
	w.mu.Lock()
	forgotten := w.squeezed[0]
	w.mu.Unlock()
	s.Forget(forgotten, 1000)
	for _, l := range n.Lease().Slabs {
		if !l.Return.IsZero() { // as at the end of the time for it
			testkit.Must(t, n.Return(testkit.Context(t), l.Number))
		}
	}
	w.wait(t, "lost pages", func() bool { return len(w.lost) > 0 })
	w.mu.Lock()
	defer w.mu.Unlock()
	if slices.Contains(w.lost, forgotten) {
		t.Errorf("page %d was forgotten, and is lost", forgotten)
	}
	for _, page := range w.lost {
		if !slices.Contains(w.squeezed, page) {
			t.Errorf("page %d is lost, and nobody was told that it has no room", page)
		}
	}
}

// Forget frees the place of a page.
func TestForget(t *testing.T) {
	dev, at := pool(t, 1, testkit.Patience)
	s, data := newStore(t, join(t, dev, at, "a", slabBytes), Config{Demand: slabBytes})
	for page := range int64(slabPages) {
		testkit.Must(t, access(s.WritePages, page, data))
	}
	if err := access(s.WritePages, 100, data); err == nil {
		t.Fatal("a WRITE without room succeeds")
	}
	if !s.Placed(3) || s.Placed(100) {
		t.Error("the page without room has a place, or a page that was written has none")
	}
	s.Forget(3)
	if s.Placed(3) {
		t.Error("a page that was forgotten has a place")
	}
	testkit.Must(t, access(s.WritePages, 100, data))
	if err := access(s.ReadPages, 3, data); err == nil {
		t.Error("a page that was forgotten is read")
	}
}
