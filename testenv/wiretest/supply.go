// SPDX-License-Identifier: Apache-2.0

package wiretest

import (
	"fmt"

	"github.com/softroce/softroce-xdp/rocev2/engine"
	"github.com/softroce/softroce-xdp/rocev2/qp"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Supply is an SRQ and the application that fills it.
type Supply struct {
	SRQ engine.SRQ
	*Receives
}

func newSupply(n *Node, s *Settings) *Supply {
	r := newReceives(n, srqPD, s.Receives, maxMessage+verbs.GRHLen)
	u := &Supply{Receives: r}
	u.SRQ.Init(qp.SRQConfig{PD: srqPD, Max: s.Receives, MaxSGE: maxSGE})
	r.Shared, r.Delay = true, s.RecvDelay
	r.post = u.recv
	if s.Type == verbs.RC { // the others may have taken one for a message that was lost
		r.length = func() int { return int(uint32(r.nextID) - u.SRQ.Done()) }
	}
	return u
}

// recv puts a receive on the SRQ. engine.SRQ takes a refused one for one that has left the queue.
func (u *Supply) recv(wr *verbs.RecvWR) error {
	u.SRQ.SetView(nil) // Done shows all receives that have left the queue until now
	done := u.SRQ.Done()
	u.SRQ.Recv(wr)
	if u.SRQ.Done() != done {
		return fmt.Errorf("the SRQ refused receive %#x", wr.ID)
	}
	return nil
}

const srqPD = 100
