// SPDX-License-Identifier: Apache-2.0

package hwoffload_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/hwoffload"
	"github.com/softroce/softroce-xdp/hwoffload/card"
	"github.com/softroce/softroce-xdp/hwoffload/regs"
)

// host is the memory of a host: a buffer at a bus address.
type host struct {
	hwoffload.HostBuffer
	access func(at int64) // called before each access, if set
}

func (h *host) at(p []byte, at int64) ([]byte, error) {
	if h.access != nil {
		h.access(at)
	}
	off := uint64(at) - h.Addr
	if uint64(at) < h.Addr || off+uint64(len(p)) > uint64(len(h.Bytes)) {
		return nil, io.ErrUnexpectedEOF
	}
	return h.Bytes[off : off+uint64(len(p))], nil
}

func (h *host) ReadAt(p []byte, at int64) (int, error) {
	mem, err := h.at(p, at)
	return copy(p, mem), err
}

func (h *host) WriteAt(p []byte, at int64) (int, error) {
	mem, err := h.at(p, at)
	return copy(mem, p), err
}

const busAddr = 0x7f00_0000

func openDMA(t *testing.T, bytes int) (*card.Model, *hwoffload.Card, *host, *hwoffload.DMA) {
	t.Helper()
	m, c := open(t)
	h := &host{HostBuffer: hwoffload.HostBuffer{Bytes: make([]byte, bytes), Addr: busAddr}}
	m.SetHost(h)
	d, err := c.OpenDMA(h.HostBuffer)
	if err != nil {
		t.Fatal(err)
	}
	return m, c, h, d
}

func random(seed uint64, n int) []byte {
	r, p := rand.New(rand.NewPCG(seed, 1)), make([]byte, n)
	for i := range p {
		p[i] = byte(r.Uint32())
	}
	return p
}

// What DMA writes is read by DMA and through the window, at any alignment, across pages, banks
// and parts of the buffer.
func TestDMA(t *testing.T) {
	_, c, _, d := openDMA(t, 4*8192)
	for _, at := range []int64{0, 4093, 4<<30 - 5000, 12<<30 - 1, 16<<30 - 40_000} {
		p, got := random(uint64(at), 40_000), make([]byte, 40_000)
		if n, err := d.WriteAt(p, at); n != len(p) || err != nil {
			t.Fatalf("write at %#x: %d, %v", at, n, err)
		}
		for name, from := range map[string]io.ReaderAt{"DMA": d, "window": c.DDR()} {
			clear(got)
			if n, err := from.ReadAt(got, at); n != len(p) || err != nil || !bytes.Equal(p, got) {
				t.Errorf("read by %s at %#x: %d, %v", name, at, n, err)
			}
		}
	}
	p := make([]byte, 8)
	if n, err := d.ReadAt(p, 16<<30-3); n != 3 || err != io.EOF {
		t.Errorf("read across the end: %d, %v", n, err)
	}
	if _, err := d.ReadAt(p, -1); err == nil || err == io.EOF {
		t.Errorf("read at -1: %v", err)
	}
	if n, err := d.WriteAt(p, 16<<30-3); n != 0 || err == nil {
		t.Errorf("write across the end: %d, %v", n, err)
	}
}

// A bank that does not answer delays no other: transfers of the other banks end while it is
// held, and its own ends after it.
func TestBlockedBank(t *testing.T) {
	m, _, _, d := openDMA(t, 4*4096)
	for blocked := range int64(hwoffload.Banks) {
		release := m.HoldBank(int(blocked))
		ended := make(chan error, 1)
		p := random(uint64(blocked), 10_000)
		go func() {
			_, err := d.WriteAt(p, blocked<<32|77)
			ended <- err
		}()
		for regs.DdrOf(m).DmaAccepted(int(blocked)) == regs.DdrOf(m).DmaCompleted(int(blocked)) {
			select { // until its transfer waits
			case err := <-ended:
				t.Fatalf("the transfer of bank %d has ended while it was held: %v", blocked, err)
			case <-time.After(time.Millisecond):
			}
		}
		for bank := range int64(hwoffload.Banks) {
			if bank == blocked {
				continue
			}
			q, got := random(uint64(bank), 20_000), make([]byte, 20_000)
			if _, err := d.WriteAt(q, bank<<32); err != nil {
				t.Fatal(err)
			}
			if _, err := d.ReadAt(got, bank<<32); err != nil || !bytes.Equal(q, got) {
				t.Fatalf("bank %d while bank %d is held: %v", bank, blocked, err)
			}
		}
		select {
		case err := <-ended:
			t.Fatalf("the transfer of bank %d has ended while it was held: %v", blocked, err)
		default:
		}
		release()
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		got := make([]byte, len(p))
		if _, err := d.ReadAt(got, blocked<<32|77); err != nil || !bytes.Equal(p, got) {
			t.Errorf("bank %d after it was released: %v", blocked, err)
		}
	}
}

// All banks access the host's memory at the same time: the access of each waits until those of
// all others have begun.
func TestBanksWorkInParallel(t *testing.T) {
	_, c, h, d := openDMA(t, 4*4096)
	var lock sync.Mutex
	banks, all := map[int64]bool{}, make(chan struct{})
	begun := sync.OnceFunc(func() { close(all) })
	h.access = func(at int64) {
		lock.Lock()
		banks[(at-busAddr)/4096] = true
		if len(banks) == hwoffload.Banks {
			begun()
		}
		lock.Unlock()
		select {
		case <-all:
		case <-time.After(30 * time.Second): // less than the timeout of a transfer
			t.Error("a bank has waited for half a minute for the others")
			begun()
		}
	}
	mem, err := c.Memory(4*hwoffload.Stripe, d)
	if err != nil {
		t.Fatal(err)
	}
	p, got := random(1, 4*hwoffload.Stripe), make([]byte, 4*hwoffload.Stripe)
	if _, err := mem.WriteAt(p, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := mem.ReadAt(got, 0); err != nil || !bytes.Equal(p, got) {
		t.Error("other bytes than were written", err)
	}
}

// DMA and the window access the same bytes, and new pages of the same bank, at the same time.
// The race detector checks the locks of the model.
func TestDMAAndWindow(t *testing.T) {
	const part = 64 << 10
	_, c, h, d := openDMA(t, 4*part)
	h.access = func(int64) { time.Sleep(50 * time.Microsecond) } // so that the other user comes between two pages
	var wg sync.WaitGroup
	use := func(through hwoffload.Transport, seed uint64) {
		p, got := random(seed, part), make([]byte, part)
		for i := range int64(10) {
			if _, err := through.WriteAt(p, int64(seed)<<20+i*part); err != nil { // pages of its own
				t.Error(err)
			}
			if _, err := through.ReadAt(got, int64(seed)<<20+i*part); err != nil || !bytes.Equal(p, got) {
				t.Errorf("user %d reads other bytes than it wrote (%v)", seed, err)
			}
			if _, err := through.WriteAt(p, 0); err != nil { // pages of both
				t.Error(err)
			}
			if _, err := through.ReadAt(got, 0); err != nil {
				t.Error(err)
			}
		}
	}
	wg.Go(func() { use(d, 1) })
	wg.Go(func() { use(c.DDR(), 2) })
	wg.Wait()
}

func TestDMAFailures(t *testing.T) {
	m, c := open(t)
	if _, err := c.OpenDMA(hwoffload.HostBuffer{Bytes: make([]byte, 16383)}); err == nil || !strings.Contains(err.Error(), "DMA buffer of 16383 bytes: it needs 16384 at least") {
		t.Errorf("a short buffer: %v", err)
	}
	buffer := hwoffload.HostBuffer{Bytes: make([]byte, 16384), Addr: busAddr}
	d, err := c.OpenDMA(buffer)
	if err != nil {
		t.Fatal(err)
	}
	// The card has no host memory, then memory elsewhere.
	for range 2 {
		if n, err := d.WriteAt([]byte("abc"), 0); n != 0 || err == nil || !strings.Contains(err.Error(), "bank 0: the card did not reach the host's memory at 0x7f000000") {
			t.Errorf("%d, %v", n, err)
		}
		m.SetHost(&host{HostBuffer: hwoffload.HostBuffer{Bytes: buffer.Bytes, Addr: busAddr + 1<<20}})
	}
	m.SetHost(&host{HostBuffer: buffer})
	if _, err := d.WriteAt([]byte("abc"), 0); err != nil {
		t.Errorf("after the memory could be reached: %v", err)
	}
	if d, err = c.OpenDMAFor(buffer, 5*time.Second); err != nil {
		t.Fatal(err)
	}
	release := m.HoldBank(1)
	for range 2 { // the second does not wait
		if n, err := d.ReadAt(make([]byte, 3), 4<<30-1); n != 1 || err == nil || !strings.Contains(err.Error(), "DMA queue of bank 1: no end of a transfer within 5s") {
			t.Errorf("%d, %v", n, err)
		}
	}
	if _, err := c.OpenDMA(buffer); err == nil || !strings.Contains(err.Error(), "the DMA queue of bank 1 has 1 transfers that have not ended") {
		t.Errorf("queues in use: %v", err)
	}
	release()
	dead := errors.New("the card is gone")
	m.Set(dead)
	if _, err := d.ReadAt(make([]byte, 3), 0); !errors.Is(err, dead) {
		t.Errorf("%v", err)
	}
	if _, err := c.OpenDMA(buffer); !errors.Is(err, dead) {
		t.Errorf("%v", err)
	}
}

// The card refuses a transfer that is not inside of the bank, and one beyond the queue's depth.
func TestDMARefuses(t *testing.T) {
	m, _, _, _ := openDMA(t, 4*4096)
	r := regs.DdrOf(m)
	refused := func(bank int) bool {
		was := r.DmaErrors(bank).Refused()
		r.SetDmaErrors(bank, r.DmaErrors(bank))
		return was
	}
	start := func(bank int, addr uint64, bytes uint32) {
		r.SetDmaHost(bank, busAddr)
		r.SetDmaCard(bank, addr)
		r.SetDmaBytes(bank, bytes)
		r.SetDmaStart(bank, regs.DdrDmaStart(0).WithToCard(true).WithGo(true))
	}
	defer m.HoldBank(2)()
	for _, x := range []struct {
		addr  uint64
		bytes uint32
	}{{2 << 32, 0}, {3 << 32, 1}, {3<<32 - 1, 2}, {2<<32 - 1, 1}, {1 << 63, 1}, {^uint64(0), 2}} {
		if start(2, x.addr, x.bytes); !refused(2) {
			t.Errorf("%d bytes at %#x are not refused", x.bytes, x.addr)
		}
	}
	for i := range uint32(regs.DdrDmaDepthReset) {
		if start(2, 3<<32-1, 1); refused(2) || r.DmaAccepted(2) != i+1 {
			t.Fatalf("transfer %d is refused", i)
		}
	}
	if start(2, 2<<32, 1); !refused(2) || r.DmaAccepted(2) != regs.DdrDmaDepthReset {
		t.Error("a transfer beyond the queue's depth is not refused")
	}
}

// Memory for applications is like a file of its size, by DMA and through the window, and ends
// with Free.
func TestMemory(t *testing.T) {
	_, c, _, d := openDMA(t, 4*4096)
	for name, through := range map[string]hwoffload.Transport{"window": nil, "DMA": d} {
		const size = 3*hwoffload.Stripe + 100
		other, err := c.Memory(size, through)
		if err != nil {
			t.Fatal(err)
		}
		m, err := c.Memory(size, through)
		if err != nil || m.Size() != size || m.Space().Size() != size {
			t.Fatalf("%s: %v", name, err)
		}
		zero := make([]byte, size)
		if _, err := other.WriteAt(zero, 0); err != nil {
			t.Fatal(err)
		}
		p, got := random(7, size), make([]byte, size)
		for at := 0; at < size; at += 50_000 {
			if n, err := m.WriteAt(p[at:min(at+50_000, size)], int64(at)); n != min(50_000, size-at) || err != nil {
				t.Fatalf("%s: write at %d: %d, %v", name, at, n, err)
			}
		}
		if n, err := m.ReadAt(got, 0); n != size || err != nil || !bytes.Equal(p, got) {
			t.Errorf("%s: read %d, %v", name, n, err)
		}
		if n, err := other.ReadAt(got, 0); n != size || err != nil || !bytes.Equal(zero, got) {
			t.Errorf("%s: other memory has changed: %d, %v", name, n, err)
		}
		if n, err := m.ReadAt(got, 10); n != size-10 || err != io.EOF || !bytes.Equal(got[:n], p[10:]) {
			t.Errorf("%s: read across the end: %d, %v", name, n, err)
		}
		for _, off := range []int64{size, 1 << 40} {
			if n, err := m.ReadAt(got, off); n != 0 || err != io.EOF {
				t.Errorf("%s: read at %d: %d, %v", name, off, n, err)
			}
		}
		for _, off := range []int64{size - 2, size + 1, -1} {
			if n, err := m.WriteAt([]byte("abc"), off); n != 0 || err == nil {
				t.Errorf("%s: write at %d: %d, %v", name, off, n, err)
			}
		}
		if _, err := m.ReadAt(got, -1); err == nil || err == io.EOF {
			t.Errorf("%s: read at -1: %v", name, err)
		}
		if m.Free() != nil || other.Free() != nil || m.Free() != os.ErrClosed || c.Allocator().Available() != allFree {
			t.Errorf("%s: not free: %v", name, c.Allocator().Available())
		}
		if _, err := m.WriteAt(p[:1], 0); err != os.ErrClosed {
			t.Errorf("%s: write after Free: %v", name, err)
		}
	}
	if _, err := c.Memory(17<<30, nil); err == nil {
		t.Error("17 GB of 16")
	}
}

// lame fails in each bank from a DDR address on.
type lame struct {
	*hwoffload.DDR
	from [hwoffload.Banks]int64
}

var errLame = errors.New("beyond")

func (l *lame) WriteAt(p []byte, off int64) (int, error) {
	from := l.from[hwoffload.Bank(uint64(off))]
	if off+int64(len(p)) <= from {
		return l.DDR.WriteAt(p, off)
	}
	n, _ := l.DDR.WriteAt(p[:max(from-off, 0)], off)
	return n, errLame
}

// n is the number of bytes in front of the first one that failed, in whichever banks.
func TestMemoryPartialFailure(t *testing.T) {
	const size = 8 * hwoffload.Stripe
	_, c := open(t)
	r := rand.New(rand.NewPCG(1, 1))
	for range 30 {
		l := &lame{DDR: c.DDR(), from: [hwoffload.Banks]int64{1 << 40, 1 << 40, 1 << 40, 1 << 40}}
		m, err := c.Memory(size, l)
		if err != nil {
			t.Fatal(err)
		}
		first := uint64(size)
		for range 3 {
			at := r.Uint64N(size)
			addr := m.Space().Address(at)
			if bank := hwoffload.Bank(addr); l.from[bank] == 1<<40 {
				l.from[bank], first = int64(addr), min(first, at)
			}
		}
		if n, err := m.WriteAt(make([]byte, size), 0); n != int(first) || err != errLame {
			t.Fatalf("failures %#x: %d, %v, want %d", l.from, n, err, first)
		}
		if err := m.Free(); err != nil {
			t.Fatal(err)
		}
	}
}

// Memory of the card extends that of the host: 256 KB are interleaved over the four banks.
func ExampleCard_Memory() {
	c, err := hwoffload.Open(card.New())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	m, err := c.Memory(256<<10, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer m.Free()
	if _, err := m.WriteAt([]byte("hello"), 64<<10-2); err != nil {
		fmt.Println(err)
		return
	}
	p := make([]byte, 5)
	n, err := m.ReadAt(p, 64<<10-2)
	fmt.Println(n, err, string(p))
	fmt.Println(hwoffload.Bank(m.Space().Address(64<<10-1)), hwoffload.Bank(m.Space().Address(64<<10)))
	// Output:
	// 5 <nil> hello
	// 0 1
}
