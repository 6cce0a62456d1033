// SPDX-License-Identifier: Apache-2.0

package hwoffload

import (
	"fmt"
	"io"
	"os"
	"sync"
)

// Transport reads and writes the card's memory by DDR addresses: DDR through the window of the
// BAR, DMA by the queues of the banks.
type Transport interface {
	io.ReaderAt
	io.WriterAt
}

// Memory is memory of the card for an application, as an extension of that of the host (S2.1).
// It implements io.ReaderAt and io.WriterAt, with offsets from 0, and the application frees it.
// All methods may be called concurrently.
//
// An access is a copy by the Memory's Transport. The memory is not mapped into the application:
// the BAR has one window, and other users of the card switch it. What the memory has at first is
// what its last user left; an owner of secrets writes over them before it frees the memory.
type Memory struct {
	space   *Space
	through Transport
	lock    sync.RWMutex // Free waits for accesses
	freed   bool
}

// Allocator divides the card's memory. All users of the card in this process take their memory
// from it.
func (c *Card) Allocator() *Allocator { return c.alloc }

// Memory reserves interleaved memory of the card for an application. It is accessed by through;
// nil is the window.
func (c *Card) Memory(bytes uint64, through Transport) (*Memory, error) {
	if through == nil {
		through = c.DDR()
	}
	align := uint64(0)
	if bytes > Stripe {
		align = Stripe // so that large memory needs few entries of block mtt
	}
	s, err := c.alloc.Alloc(bytes, align)
	if err != nil {
		return nil, err
	}
	return &Memory{space: s, through: through}, nil
}

// Space is where the memory lies on the card.
func (m *Memory) Space() *Space { return m.space }

// Size is the size of the memory in bytes.
func (m *Memory) Size() int64 { return int64(m.space.bytes) }

// Free returns the memory to the card, after the accesses that have begun. Later accesses fail
// with os.ErrClosed.
func (m *Memory) Free() error {
	m.lock.Lock()
	defer m.lock.Unlock()
	if m.freed {
		return os.ErrClosed
	}
	m.freed = true
	return m.space.Free()
}

// ReadAt reads len(p) bytes from offset off. At the end of the memory it returns the bytes
// before the end, and io.EOF.
func (m *Memory) ReadAt(p []byte, off int64) (n int, err error) {
	return readTo(m.Size(), p, off, "offset", func(p []byte, at uint64) (int, error) { return m.each(p, at, m.through.ReadAt) })
}

// WriteAt writes p to offset off. It writes nothing if the end is outside of the memory.
func (m *Memory) WriteAt(p []byte, off int64) (n int, err error) {
	if off < 0 || off > m.Size() || int64(len(p)) > m.Size()-off {
		return 0, fmt.Errorf("card memory: %d bytes at offset %d: the memory has %d", len(p), off, m.Size())
	}
	return m.each(p, uint64(off), m.through.WriteAt)
}

// each makes an access to each range of the memory, at the same time for different banks. n is
// the number of bytes in front of the first one that failed.
func (m *Memory) each(p []byte, off uint64, do func(p []byte, addr int64) (int, error)) (n int, err error) {
	m.lock.RLock()
	defer m.lock.RUnlock()
	if m.freed {
		return 0, os.ErrClosed
	}
	type piece struct {
		at   int // offset in p
		addr uint64
		len  uint64
	}
	var banks [Banks][]piece
	at := 0
	for addr, n := range m.space.Ranges(off, uint64(len(p))) {
		banks[Bank(addr)] = append(banks[Bank(addr)], piece{at, addr, n})
		at += int(n)
	}
	var (
		wg   sync.WaitGroup
		lock sync.Mutex // guards n and err
	)
	n = len(p)
	for _, pieces := range banks {
		if len(pieces) == 0 {
			continue
		}
		wg.Go(func() {
			for _, x := range pieces {
				done, failed := do(p[x.at:x.at+int(x.len)], int64(x.addr))
				if done == int(x.len) {
					continue
				}
				lock.Lock()
				if x.at+done < n {
					n, err = x.at+done, failed
				}
				lock.Unlock()
				return
			}
		})
	}
	wg.Wait()
	return n, err
}
