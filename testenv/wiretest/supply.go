// SPDX-License-Identifier: Apache-2.0

package wiretest

import (
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
	r.post = func(wr *verbs.RecvWR) error { u.SRQ.Recv(wr); return nil }
	if s.Type == verbs.RC { // the others may have taken one for a message that was lost
		r.length = func() int { return int(uint32(r.nextID) - u.SRQ.Done()) }
	}
	return u
}

const srqPD = 100
