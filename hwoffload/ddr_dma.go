// SPDX-License-Identifier: Apache-2.0

package hwoffload

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/softroce/softroce-xdp/hwoffload/regs"
)

// HostBuffer is memory of this host that the card reaches by DMA. It stays at its address while
// a DMA uses it: on a machine it is memory that VFIO or a kernel driver has mapped for the card.
type HostBuffer struct {
	Bytes []byte
	Addr  uint64 // bus address of the first byte
}

const (
	minDMAPart  = 4096    // bytes of a HostBuffer for a bank
	maxTransfer = 1 << 20 // bytes of a transfer
	dmaTimeout  = time.Minute
)

// DMA reads and writes the memory of a card by the DMA queues of its banks. It implements
// io.ReaderAt and io.WriterAt with DDR addresses, as DDR does, and copies through a HostBuffer.
//
// Each bank has its own queue, lock and part of the buffer: calls for different banks are
// executed at the same time, and a bank that does not answer delays no other. A call for several
// banks uses one after the other; Memory uses them at the same time.
type DMA struct {
	dev     Device
	timeout time.Duration
	banks   [Banks]dmaBank
}

// dmaBank is the driver's part of a DMA queue.
type dmaBank struct {
	lock   sync.Mutex
	buffer HostBuffer
	broken error // the card may still use the buffer
}

var (
	_ Transport = (*DMA)(nil)
	_ Transport = (*DDR)(nil)
)

// OpenDMA uses the DMA queues of a card, which must be idle. Each bank gets a quarter of the
// buffer. A transfer that the card does not end within a minute is an error, and the queue of
// its bank is not used again.
func (c *Card) OpenDMA(buffer HostBuffer) (*DMA, error) { return c.openDMA(buffer, dmaTimeout) }

func (c *Card) openDMA(buffer HostBuffer, timeout time.Duration) (*DMA, error) {
	part := uint64(len(buffer.Bytes)) / Banks &^ (minDMAPart - 1)
	if part == 0 {
		return nil, fmt.Errorf("DMA buffer of %d bytes: it needs %d at least", len(buffer.Bytes), Banks*minDMAPart)
	}
	d := &DMA{dev: c.Device, timeout: timeout}
	r := regs.DdrOf(c.Device)
	for i := range d.banks {
		accepted, completed := r.DmaAccepted(i), r.DmaCompleted(i)
		if err := c.Err(); err != nil {
			return nil, err
		}
		if accepted != completed {
			return nil, fmt.Errorf("the DMA queue of bank %d has %d transfers that have not ended: does another program use the card?", i, accepted-completed)
		}
		at := uint64(i) * part
		d.banks[i].buffer = HostBuffer{buffer.Bytes[at : at+part], buffer.Addr + at}
	}
	return d, nil
}

// ReadAt is as DDR.ReadAt.
func (d *DMA) ReadAt(p []byte, off int64) (n int, err error) {
	return readTo(DDRBytes, p, off, "address", func(p []byte, addr uint64) (int, error) { return d.each(p, addr, false) })
}

// WriteAt is as DDR.WriteAt.
func (d *DMA) WriteAt(p []byte, off int64) (n int, err error) {
	if err := checkWrite(len(p), off); err != nil {
		return 0, err
	}
	return d.each(p, uint64(off), true)
}

// each splits an access by banks, and by the size of a bank's part of the buffer.
func (d *DMA) each(p []byte, addr uint64, toCard bool) (done int, err error) {
	for done < len(p) {
		bank := Bank(addr)
		b := &d.banks[bank]
		n := min(uint64(len(p)-done), regs.DdrBankBytesReset-addr%regs.DdrBankBytesReset, uint64(len(b.buffer.Bytes)))
		if err := d.batch(bank, p[done:done+int(n)], addr, toCard); err != nil {
			return done, err
		}
		done, addr = done+int(n), addr+n
	}
	return done, nil
}

// batch moves data that has room in the buffer of a bank.
func (d *DMA) batch(bank int, p []byte, addr uint64, toCard bool) error {
	b := &d.banks[bank]
	b.lock.Lock()
	defer b.lock.Unlock()
	if b.broken != nil {
		return b.broken
	}
	if toCard {
		copy(b.buffer.Bytes, p)
	}
	if err := d.execute(bank, uint64(len(p)), addr, toCard); err != nil {
		return err
	}
	if !toCard {
		copy(p, b.buffer.Bytes)
	}
	return nil
}

// execute starts the transfers of a batch and waits until all have ended.
func (d *DMA) execute(bank int, bytes, addr uint64, toCard bool) error {
	b, r := &d.banks[bank], regs.DdrOf(d.dev)
	all := regs.DdrDmaErrors(0).WithRefused(true).WithHostError(true)
	r.SetDmaErrors(bank, all)
	want := r.DmaAccepted(bank)
	for at := uint64(0); at < bytes; {
		n := min(bytes-at, maxTransfer)
		if want-r.DmaCompleted(bank) == r.DmaDepth(bank) {
			if err := d.wait(bank, want-r.DmaDepth(bank)+1); err != nil {
				return err
			}
		}
		r.SetDmaHost(bank, b.buffer.Addr+at)
		r.SetDmaCard(bank, addr+at)
		r.SetDmaBytes(bank, uint32(n))
		r.SetDmaStart(bank, regs.DdrDmaStart(0).WithToCard(toCard).WithGo(true))
		at, want = at+n, want+1
	}
	accepted := r.DmaAccepted(bank)
	if err := d.wait(bank, accepted); err != nil {
		return err
	}
	failed := r.DmaErrors(bank)
	switch {
	case d.dev.Err() != nil:
		return d.dev.Err()
	case failed.Refused() || accepted != want:
		return fmt.Errorf("DMA queue of bank %d: it has refused %d bytes at %#x: does another program use the card?", bank, bytes, addr)
	case failed.HostError():
		return fmt.Errorf("DMA queue of bank %d: the card did not reach the host's memory at %#x: is it mapped for the card (IOMMU)?", bank, b.buffer.Addr)
	}
	return nil
}

// wait polls until the queue of a bank has completed a number of transfers, modulo 2^32.
func (d *DMA) wait(bank int, completed uint32) error {
	r := regs.DdrOf(d.dev)
	for deadline, polls := time.Now().Add(d.timeout), 0; ; polls++ {
		if int32(r.DmaCompleted(bank)-completed) >= 0 && d.dev.Err() == nil {
			return nil
		}
		err := d.dev.Err()
		if err == nil && time.Now().After(deadline) {
			err = fmt.Errorf("DMA queue of bank %d: no end of a transfer within %v: reset the card", bank, d.timeout)
		}
		if err != nil {
			d.banks[bank].broken = errors.Join(d.banks[bank].broken, err)
			return err
		}
		if polls > 100 {
			time.Sleep(20 * time.Microsecond)
		}
	}
}
