// SPDX-License-Identifier: Apache-2.0

package wiretest

import (
	"github.com/softroce/softroce-xdp/rocev2/qp"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Supply is an SRQ and the application that fills it.
type Supply struct {
	SRQ *qp.SRQ
	*Receives
}

func newSupply(n *Node, s *Settings) *Supply {
	srq := qp.NewSRQ(qp.SRQConfig{PD: srqPD, Max: s.Receives, MaxSGE: maxSGE})
	r := newReceives(n, srqPD, s.Receives, maxMessage+verbs.GRHLen)
	r.Shared, r.Delay, r.post = true, s.RecvDelay, srq.PostRecv
	if s.Type == verbs.RC { // the others may have taken one for a message that was lost
		r.length = srq.Len
	}
	return &Supply{srq, r}
}

const srqPD = 100
