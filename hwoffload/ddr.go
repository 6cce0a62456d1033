// SPDX-License-Identifier: Apache-2.0

package hwoffload

import (
	"encoding/binary"
	"fmt"
	"io"
	"sync"

	"github.com/softroce/softroce-xdp/hwoffload/regs"
)

// DDRBytes is the size of the card's memory: four banks of 4 GB (S2.1).
const DDRBytes = regs.DdrBanksReset * regs.DdrBankBytesReset

const (
	windowBits = 28 // S2.5: bits 0 to 27 are the offset
	windowSize = 1 << windowBits
	wordSize   = 8
)

// DDR reads and writes the memory of a card through the window in its BAR (S2.5). It
// implements io.ReaderAt and io.WriterAt. Offsets are DDR addresses in bytes: bits 0 to 27
// are the offset in a window, bits 28 to 33 the window, and bits 32 and 33 the bank.
//
// Methods may be called concurrently. One lock covers the selection of a window and the
// accesses through it, so that no access goes to the window of another caller. An access that
// crosses windows is several such steps, and is not atomic.
//
// All banks share the window, so a bank that does not answer delays all. DMA has a queue for
// each bank.
//
// The window is accessed in words of 8 bytes. A write whose start or end is not aligned reads
// the word there and writes it back, including the bytes that are not part of the write. The
// card must not write these bytes at the same time.
type DDR struct {
	dev  Device
	lock sync.Mutex
}

var (
	_ io.ReaderAt = (*DDR)(nil)
	_ io.WriterAt = (*DDR)(nil)
)

// Size is the size of the memory in bytes.
func (d *DDR) Size() int64 { return DDRBytes }

// ReadAt reads len(p) bytes from DDR address off. At the end of the memory it returns the
// bytes before the end, and io.EOF.
func (d *DDR) ReadAt(p []byte, off int64) (n int, err error) {
	return readTo(DDRBytes, p, off, "address", func(p []byte, addr uint64) (int, error) { return d.each(p, addr, d.readWindow) })
}

// readTo does io.ReaderAt for memory of size bytes: read is called with what is inside of it. what
// names off.
func readTo(size int64, p []byte, off int64, what string, read func(p []byte, at uint64) (int, error)) (n int, err error) {
	if off < 0 {
		return 0, fmt.Errorf("card memory: negative %s %d", what, off)
	}
	if off >= size {
		return 0, io.EOF
	}
	if int64(len(p)) > size-off {
		p, err = p[:size-off], io.EOF
	}
	n, failed := read(p, uint64(off))
	if failed != nil {
		return n, failed
	}
	return n, err
}

// WriteAt writes p to DDR address off. It writes nothing if the end is outside of the memory.
func (d *DDR) WriteAt(p []byte, off int64) (n int, err error) {
	if err := checkWrite(len(p), off); err != nil {
		return 0, err
	}
	return d.each(p, uint64(off), d.writeWindow)
}

// checkWrite reports a write of n bytes that does not end inside of the memory.
func checkWrite(n int, off int64) error {
	if off < 0 || off > DDRBytes || int64(n) > DDRBytes-off {
		return fmt.Errorf("card memory: %d bytes at %#x: the memory ends at %#x", n, off, int64(DDRBytes))
	}
	return nil
}

// each splits an access at the borders of windows. It returns how many bytes were done.
func (d *DDR) each(p []byte, addr uint64, do func(p []byte, at uint64)) (done int, err error) {
	for done < len(p) {
		part := p[done:min(len(p), done+int(windowSize-addr%windowSize))]
		if err := d.through(addr, part, do); err != nil {
			return done, err
		}
		done += len(part)
		addr += uint64(len(part))
	}
	return done, nil
}

// through selects the window of a DDR address and calls do with the place in BAR space.
func (d *DDR) through(addr uint64, p []byte, do func(p []byte, at uint64)) error {
	d.lock.Lock()
	defer d.lock.Unlock()
	window := uint32(addr >> windowBits)
	r := regs.DdrOf(d.dev)
	r.SetWindow(regs.DdrWindow(0).WithSelect(window))
	got := r.Window().Select() // the selection has arrived when this returns
	if err := d.dev.Err(); err != nil {
		return err
	}
	if got != window {
		return fmt.Errorf("card memory: window %d is selected, %d reads back: does another program use the card?", window, got)
	}
	do(p, regs.DdrWindowBaseReset+addr%windowSize)
	return d.dev.Err()
}

// readWindow reads from an address in the window.
func (d *DDR) readWindow(p []byte, at uint64) {
	var words [wordsAhead]uint64
	var word [wordSize]byte
	for len(p) > 0 {
		skip := at % wordSize
		some := words[:min((skip+uint64(len(p))+wordSize-1)/wordSize, wordsAhead)]
		ReadWords(d.dev, at-skip, some)
		for _, w := range some {
			binary.LittleEndian.PutUint64(word[:], w)
			n := copy(p, word[at%wordSize:])
			p, at = p[n:], at+uint64(n)
		}
	}
}

// writeWindow writes to an address in the window. The data has arrived when it returns, so
// that the card may be told to use it.
func (d *DDR) writeWindow(p []byte, at uint64) {
	var word [wordSize]byte
	for len(p) > 0 {
		skip := at % wordSize
		if skip != 0 || len(p) < wordSize {
			binary.LittleEndian.PutUint64(word[:], d.dev.R64(at-skip))
		}
		n := copy(word[skip:], p)
		d.dev.W64(at-skip, binary.LittleEndian.Uint64(word[:]))
		p, at = p[n:], at+uint64(n)
	}
	flush(d.dev)
}
