// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"fmt"
	"slices"

	"github.com/softroce/softroce-xdp/hwoffload/regs"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// AH is an address handle. A card has address handles in the queue pair that sends, so there is one
// in each that has used the AH.
type AH struct {
	pd *PD
	av verbs.AddressVector

	users map[*QP]struct{} // queue pairs that use the handle; guarded by the device's lock
}

// CreateAH implements verbs.PD.
func (p *PD) CreateAH(av verbs.AddressVector) (verbs.AH, error) {
	if err := p.d.err(); err != nil {
		return nil, err
	}
	if err := p.d.source(&av); err != nil {
		return nil, err
	}
	if p.d.config.Resolve != nil {
		if _, err := p.d.config.Resolve(av.Dst); err != nil {
			return nil, err
		}
	}
	a := &AH{pd: p, av: av, users: map[*QP]struct{}{}}
	if err := p.d.add(a, &p.uses); err != nil {
		return nil, err
	}
	return a, nil
}

// handle returns the entry of an AH in the table of the card, and writes it when it is used first.
// The lock of the queue pair must be held.
func (q *QP) handle(ah verbs.AH) (int, error) {
	a, ok := ah.(*AH)
	if !ok || a.pd != q.pd {
		return 0, fmt.Errorf("%w: make it with CreateAH of the PD of the queue pair", verbs.ErrAH)
	}
	if i, ok := q.ahs[a]; ok {
		return i, nil
	}
	i, err := q.newHandle(&a.av)
	if err != nil {
		return 0, err
	}
	q.d.lock.Lock()
	defer q.d.lock.Unlock()
	if a.users == nil {
		return 0, firstOf(q.freeHandle(i), fmt.Errorf("card: the address handle %w", verbs.ErrDestroyed))
	}
	a.users[q] = struct{}{}
	q.ahs[a] = i
	return i, nil
}

// newHandle writes an address to the table of the card.
func (q *QP) newHandle(av *verbs.AddressVector) (int, error) {
	hop, err := q.d.resolve(av)
	if err != nil {
		return 0, err
	}
	i := slices.Index(q.used, false)
	if i < 0 {
		return 0, fmt.Errorf("card: all %d address handles of queue pair %d are taken: destroy some", len(q.used), q.num)
	}
	h := regs.AddressHandle(make([]byte, regs.AddressHandleBytes))
	high, low := regs.AddrWords(av.Src)
	h.SetSrcAddr(high)
	h.SetSrcAddrLow(low)
	high, low = regs.AddrWords(av.Dst)
	h.SetDstAddr(high)
	h.SetDstAddrLow(low)
	h.SetMac(regs.MACWord(hop.MAC))
	h.SetNode(uint32(hop.Node))
	h.SetPort(uint32(hop.Port))
	h.SetTclass(uint32(av.TClass))
	h.SetHopLimit(uint32(av.HopLimit))
	h.SetAhPd(q.pd.num)
	h.SetValid(true)
	q.used[i] = true
	return i, q.writeHandle(i, h)
}

func (q *QP) writeHandle(i int, h regs.AddressHandle) error {
	_, err := q.d.card.DDR().WriteAt(h, int64(q.table.base)+int64(i)*regs.AddressHandleBytes)
	return err
}

// freeHandle clears an entry of the table. Work requests that the card has read keep it.
func (q *QP) freeHandle(i int) error {
	q.used[i] = false
	return q.writeHandle(i, make([]byte, regs.AddressHandleBytes))
}

// Destroy implements verbs.AH.
func (a *AH) Destroy() error {
	d := a.pd.d
	if err := d.remove(a, "address handle", nil); err != nil {
		return err
	}
	d.release(&a.pd.uses)
	return a.close()
}

func (a *AH) order() int { return orderAH }

func (a *AH) close() (failed error) {
	d := a.pd.d
	d.lock.Lock()
	users := a.users
	a.users = nil
	d.lock.Unlock()
	for q := range users {
		q.lock.Lock()
		if i, ok := q.ahs[a]; ok && !q.gone {
			failed = firstOf(failed, q.freeHandle(i))
		}
		delete(q.ahs, a)
		q.lock.Unlock()
	}
	return failed
}
