// SPDX-License-Identifier: Apache-2.0

package hwoffload_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/softroce/softroce-xdp/hwoffload"
	"github.com/softroce/softroce-xdp/hwoffload/card"
	"github.com/softroce/softroce-xdp/hwoffload/regs"
)

const window = 256 << 20

func open(t testing.TB) (*card.Model, *hwoffload.Card) {
	t.Helper()
	m := card.New()
	c, err := hwoffload.Open(m)
	if err != nil {
		t.Fatal(err)
	}
	return m, c
}

// S2.5: bits 28 to 33 of a DDR address select the window, bits 0 to 27 are the offset in it.
func TestDDRWindows(t *testing.T) {
	m, c := open(t)
	p := make([]byte, 8)
	for w := range int64(64) {
		copy(p, fmt.Sprintf("win %3d ", w))
		if _, err := c.DDR().WriteAt(p, w<<28|0xabcdef8); err != nil {
			t.Fatal(err)
		}
		if got := regs.DdrOf(c).Window().Select(); got != uint32(w) {
			t.Errorf("window %d is selected for address %#x, want %d", got, w<<28|0xabcdef8, w)
		}
	}
	for w := range uint32(64) {
		regs.DdrOf(m).SetWindow(regs.DdrWindow(0).WithSelect(w))
		if got, want := m.R64(regs.DdrWindowBaseReset+0xabcdef8), fmt.Sprintf("win %3d ", w); string(binaryLE(got)) != want {
			t.Errorf("window %d has %q, want %q", w, binaryLE(got), want)
		}
	}
}

func binaryLE(v uint64) []byte {
	b := make([]byte, 8)
	for i := range b {
		b[i] = byte(v >> (8 * i))
	}
	return b
}

// Every alignment of start and end, in one window and across the border of two windows and
// two banks: the bytes arrive, and no byte next to them changes.
func TestDDRAlignments(t *testing.T) {
	for _, border := range []int64{window, 16 * window, 5000} {
		_, c := open(t)
		d := c.DDR()
		const span = 64
		start := border - span/2
		want := bytes.Repeat([]byte{0xee}, span)
		if _, err := d.WriteAt(want, start); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, span)
		for first := 8; first < 40; first++ {
			for n := 0; first+n < 56; n++ {
				p := want[first : first+n]
				for i := range p {
					p[i] = byte(first*n + i)
				}
				if done, err := d.WriteAt(p, start+int64(first)); done != n || err != nil {
					t.Fatalf("%d bytes at %d: wrote %d: %v", n, first, done, err)
				}
				if _, err := d.ReadAt(got, start); err != nil || !bytes.Equal(got, want) {
					t.Fatalf("%d bytes at %d: %v\n% x\n% x", n, first, err, got, want)
				}
				if done, err := d.ReadAt(got[:n], start+int64(first)); done != n || err != nil || !bytes.Equal(got[:n], p) {
					t.Fatalf("read of %d bytes at %d: %d, %v", n, first, done, err)
				}
			}
		}
	}
}

func TestDDREnds(t *testing.T) {
	_, c := open(t)
	d := c.DDR()
	end := d.Size()
	if end != 16<<30 {
		t.Fatalf("%d bytes, want 16 GB", end)
	}
	if n, err := d.WriteAt([]byte("abc"), end-3); n != 3 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	p := make([]byte, 8)
	if n, err := d.ReadAt(p, end-3); n != 3 || err != io.EOF || string(p[:3]) != "abc" {
		t.Errorf("read across the end: %d, %v, %q", n, err, p[:n])
	}
	for _, off := range []int64{end, end + 1, 1 << 62} {
		if n, err := d.ReadAt(p, off); n != 0 || err != io.EOF {
			t.Errorf("read at %#x: %d, %v", off, n, err)
		}
	}
	if n, err := d.ReadAt(p, -1); n != 0 || err == nil || err == io.EOF {
		t.Errorf("read at -1: %d, %v", n, err)
	}
	for _, off := range []int64{end - 2, end, end + 1, -1, -1 << 63, 1<<63 - 1} {
		if n, err := d.WriteAt([]byte("abc"), off); n != 0 || err == nil {
			t.Errorf("write at %#x: %d, %v", off, n, err)
		}
	}
	if n, err := d.ReadAt(p, 7<<30); n != 8 || err != nil || !bytes.Equal(p, make([]byte, 8)) {
		t.Errorf("memory that was not written: %d, %v, % x", n, err, p)
	}
}

// Users of several windows at the same time read what they wrote. Each has its own addresses,
// in all windows, at the same offsets as the others.
func TestDDRConcurrently(t *testing.T) {
	_, c := open(t)
	var wg sync.WaitGroup
	for user := range 8 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(user), 1))
			p, got := make([]byte, 48), make([]byte, 48)
			for range 300 {
				for i := range p {
					p[i] = byte(r.Uint32())
				}
				// The windows of a user are its own; half of the accesses cross into the next one.
				at := int64(user*8+r.IntN(7))<<28 + window - 24
				if r.IntN(2) == 0 {
					at -= 4096
				}
				if _, err := c.DDR().WriteAt(p, at); err != nil {
					t.Error(err)
				}
				if _, err := c.DDR().ReadAt(got, at); err != nil || !bytes.Equal(p, got) {
					t.Errorf("user %d reads other bytes at %#x than it wrote (%v)", user, at, err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// stuck is a card whose window does not change.
type stuck struct{ *card.Model }

func (s stuck) W32(addr uint64, v uint32) {
	if addr != regs.DdrBase+regs.DdrWindowOffset {
		s.Model.W32(addr, v)
	}
}

func TestDDRFailures(t *testing.T) {
	m := card.New()
	c, err := hwoffload.Open(stuck{m})
	if err != nil {
		t.Fatal(err)
	}
	// The first window is accessible, so a write across its end does a part.
	if n, err := c.DDR().WriteAt(make([]byte, 100), window-40); n != 40 || err == nil || !strings.Contains(err.Error(), "window 1 is selected, 0 reads back") {
		t.Errorf("%d, %v", n, err)
	}
	dead := errors.New("the card is gone")
	m.Set(dead)
	if n, err := c.DDR().ReadAt(make([]byte, 8), 0); n != 0 || !errors.Is(err, dead) {
		t.Errorf("%d, %v", n, err)
	}
}

// The memory of the card is read and written by address. The fourth bank begins at 12 GB.
func ExampleDDR() {
	c, err := hwoffload.Open(card.New())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	const bank3 = 12 << 30
	if _, err := c.DDR().WriteAt([]byte("hello"), bank3-2); err != nil {
		fmt.Println(err)
		return
	}
	p := make([]byte, 3)
	n, err := c.DDR().ReadAt(p, bank3)
	fmt.Println(n, err, string(p))
	// Output: 3 <nil> llo
}
