// SPDX-License-Identifier: Apache-2.0

package sides

import (
	"context"
	"fmt"

	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/testenv/oracle"
)

type queuePair struct {
	Pair
	s *Device
	q verbs.QP
}

func (d Domain) NewQP(_ context.Context, c oracle.QPConfig) (oracle.QP, error) {
	send, ok1 := c.SendCQ.(completionQueue)
	recv, ok2 := c.RecvCQ.(completionQueue)
	if !ok1 || !ok2 {
		return nil, fmt.Errorf("%s: the completion queues of a QP must be of the same side", d.s.Name())
	}
	init := verbs.QPInit{
		Type: Types[c.Service], SendCQ: send.q, RecvCQ: recv.q, MaxSend: c.SendWR, MaxRecv: c.RecvWR,
		MaxSendSGE: max(1, c.SendSGE), MaxRecvSGE: max(1, c.RecvSGE), MaxInline: c.Inline,
	}
	if c.SRQ != nil {
		init.SRQ = c.SRQ.(*sharedQueue).q
	}
	x, err := d.PD.CreateQP(init)
	if err != nil {
		return nil, err
	}
	q := &queuePair{Pair{Q: x, Addr: d.s.Addr}, d.s, x}
	d.s.mu.Lock()
	d.s.qps[x] = q
	d.s.mu.Unlock()
	return q, nil
}

func (q *queuePair) QPN() uint32 { return q.q.QPN() }

func (q *queuePair) Destroy(context.Context) error {
	q.s.mu.Lock()
	delete(q.s.qps, q.q)
	q.s.mu.Unlock()
	return q.q.Destroy()
}

// handle returns the engine's address handle.
func handle(a oracle.AH) verbs.AH { return a.(addressHandle).a }

func (q *queuePair) PostSend(ctx context.Context, wrs ...oracle.SendWR) error {
	for _, wr := range wrs {
		out, err := SendWR(ctx, wr, handle)
		if err == nil {
			err = q.q.PostSend(out)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (q *queuePair) PostRecv(_ context.Context, wrs ...oracle.RecvWR) error {
	return PostRecv(q.q.PostRecv, wrs)
}
