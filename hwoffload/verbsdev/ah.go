// SPDX-License-Identifier: Apache-2.0

package verbsdev

import (
	"fmt"

	"github.com/softroce/softroce-xdp/hwoffload/queue"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// AH is an address handle. A card has address handles in the queue pair that sends, so there is one
// in each that has used the AH.
type AH struct {
	pd *PD
	av verbs.AddressVector

	users map[*QP]struct{} // under the device's lock
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

// handle returns the handle of the card for an AH, and makes it when it is used first. The lock of
// the queue pair must be held.
func (q *QP) handle(ah verbs.AH) (*queue.AH, error) {
	a, ok := ah.(*AH)
	if !ok || a.pd != q.pd {
		return nil, fmt.Errorf("%w: make it with CreateAH of the PD of the queue pair", verbs.ErrAH)
	}
	if h := q.ahs[a]; h != nil {
		return h, nil
	}
	h, err := q.q.CreateAH(a.av)
	if err != nil {
		return nil, err
	}
	q.d.lock.Lock()
	defer q.d.lock.Unlock()
	if a.users == nil {
		return nil, firstOf(h.Destroy(), fmt.Errorf("card: the address handle %w", verbs.ErrDestroyed))
	}
	a.users[q] = struct{}{}
	q.ahs[a] = h
	return h, nil
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
		if h := q.ahs[a]; h != nil && !q.gone {
			failed = firstOf(failed, h.Destroy())
		}
		delete(q.ahs, a)
		q.lock.Unlock()
	}
	return failed
}
