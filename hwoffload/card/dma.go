// SPDX-License-Identifier: Apache-2.0

package card

import (
	"io"

	"github.com/softroce/softroce-xdp/hwoffload/regs"
)

// HostMemory is the memory of the host as the card reaches it by DMA. Offsets are bus
// addresses. Its methods are called concurrently, by one goroutine for each bank.
type HostMemory interface {
	io.ReaderAt
	io.WriterAt
}

// SetHost gives the card the memory of the host. Without it, each DMA transfer ends with
// host_error.
func (m *Model) SetHost(h HostMemory) {
	m.lock.Lock()
	defer m.lock.Unlock()
	m.dma.host = h
}

// HoldBank stops the DMA queue of a bank until the function that it returns is called, as a bank
// would that does not answer. A transfer that the bank executes ends first.
func (m *Model) HoldBank(bank int) (release func()) {
	hold := make(chan struct{})
	m.lock.Lock()
	defer m.lock.Unlock()
	m.dma.queues[bank].gate = hold
	return func() {
		m.lock.Lock()
		defer m.lock.Unlock()
		if m.dma.queues[bank].gate == hold {
			m.dma.queues[bank].gate = nil
			close(hold)
		}
	}
}

// dma are the DMA queues of the banks. The lock of the model guards them.
type dma struct {
	host   HostMemory // nil: there is none
	queues [regs.DdrBanksReset]dmaQueue
}

type dmaQueue struct {
	transfers []transfer    // the first is being executed
	running   bool          // a goroutine executes them
	gate      chan struct{} // gate of the queue, or nil: the queue waits until it is closed
}

type transfer struct {
	host, card uint64 // addresses
	bytes      uint32
	toCard     bool
}

// startDMA executes a write to dma_start of a bank: it puts a transfer into the queue, or
// refuses it. The model's lock is held.
func (m *Model) startDMA(bank int, v regs.DdrDmaStart) {
	if !v.Go() {
		return
	}
	q, r := &m.dma.queues[bank], regs.DdrOf(inside{m})
	t := transfer{r.DmaHost(bank), r.DmaCard(bank), r.DmaBytes(bank), v.ToCard()}
	last := t.card + uint64(t.bytes) - 1
	if t.bytes == 0 || last < t.card || t.card>>bankBits != uint64(bank) || last>>bankBits != uint64(bank) || len(q.transfers) == regs.DdrDmaDepthReset {
		m.dmaError(bank, regs.DdrDmaErrors(0).WithRefused(true))
		return
	}
	q.transfers = append(q.transfers, t)
	m.count(bank, regs.DdrDmaAcceptedOffset)
	if !q.running {
		q.running = true
		go m.runDMA(bank)
	}
}

// runDMA executes the transfers of a bank until there are none.
func (m *Model) runDMA(bank int) {
	q := &m.dma.queues[bank]
	for {
		m.lock.Lock()
		if len(q.transfers) == 0 {
			q.running = false
			m.lock.Unlock()
			return
		}
		t, hold, host := q.transfers[0], q.gate, m.dma.host
		m.lock.Unlock()
		if hold != nil {
			<-hold
			continue
		}
		ok := m.transfer(host, &t)
		m.lock.Lock()
		if !ok {
			m.dmaError(bank, regs.DdrDmaErrors(0).WithHostError(true))
		}
		q.transfers = q.transfers[1:]
		m.count(bank, regs.DdrDmaCompletedOffset)
		m.lock.Unlock()
	}
}

// transfer copies the bytes of a transfer page by page. No lock of the model is held. It
// reports whether the host's memory could be reached.
func (m *Model) transfer(host HostMemory, t *transfer) bool {
	if host == nil {
		return false
	}
	var page [pageSize]byte
	for done := uint64(0); done < uint64(t.bytes); {
		part := page[:min(pageSize, uint64(t.bytes)-done)]
		at := int64(t.host + done)
		if at < 0 {
			return false
		}
		if t.toCard {
			if n, _ := host.ReadAt(part, at); n != len(part) {
				return false
			}
			m.ddr.write(part, t.card+done)
		} else {
			m.ddr.read(part, t.card+done)
			if n, _ := host.WriteAt(part, at); n != len(part) {
				return false
			}
		}
		done += uint64(len(part))
	}
	return true
}

// dmaAddr is the address of a DMA register of a bank.
func dmaAddr(bank int, offset uint64) uint64 {
	return regs.DdrBase + offset + uint64(bank)*regs.DdrDmaStartStride
}

func (m *Model) dmaError(bank int, e regs.DdrDmaErrors) {
	addr := dmaAddr(bank, regs.DdrDmaErrorsOffset)
	m.put(addr, m.read(addr)|uint32(e))
}

// count adds 1 to a counter of a bank.
func (m *Model) count(bank int, offset uint64) {
	addr := dmaAddr(bank, offset)
	m.put(addr, m.read(addr)+1)
}

// ddrCommand executes the commands of block ddr.
func (m *Model) ddrCommand(offset uint64, bits uint32) {
	if bits == 0 || offset < regs.DdrDmaStartOffset || (offset-regs.DdrDmaStartOffset)%regs.DdrDmaStartStride != 0 {
		return
	}
	if i := (offset - regs.DdrDmaStartOffset) / regs.DdrDmaStartStride; i < regs.DdrDmaStartCount {
		m.startDMA(int(i), regs.DdrDmaStart(bits))
	}
}
