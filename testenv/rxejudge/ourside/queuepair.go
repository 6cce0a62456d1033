// SPDX-License-Identifier: Apache-2.0

package ourside

import (
	"context"
	"fmt"
	"math/bits"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/mem"
	"github.com/softroce/softroce-xdp/rocev2/nic"
	"github.com/softroce/softroce-xdp/rocev2/qp"
	"github.com/softroce/softroce-xdp/testenv/rxejudge"
)

type queuePair struct {
	s *Side
	q *nic.QP
}

var types = map[rxejudge.Service]qp.Type{rxejudge.RC: qp.RC, rxejudge.UC: qp.UC, rxejudge.UD: qp.UD}

func (d domain) NewQP(_ context.Context, c rxejudge.QPConfig) (rxejudge.QP, error) {
	send, ok1 := c.SendCQ.(completionQueue)
	recv, ok2 := c.RecvCQ.(completionQueue)
	if !ok1 || !ok2 {
		return nil, fmt.Errorf("%s: the completion queues of a QP must be of the same side", d.s.Name())
	}
	init := nic.QPInit{
		Type: types[c.Service], SendCQ: send.q, RecvCQ: recv.q, MaxSend: c.SendWR, MaxRecv: c.RecvWR,
		MaxSendSGE: max(1, c.SendSGE), MaxRecvSGE: max(1, c.RecvSGE), MaxInline: c.Inline,
	}
	if c.SRQ != nil {
		init.SRQ = c.SRQ.(*sharedQueue).q
	}
	x, err := d.s.Dev.CreateQP(d.pd, init)
	if err != nil {
		return nil, err
	}
	q := &queuePair{d.s, x}
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

func (q *queuePair) ToInit(_ context.Context, a rxejudge.InitAttr) error {
	attr, mask := nic.Attr{}, qp.MaskAccess
	if q.q.Type() == qp.UD {
		mask = qp.MaskQKey
	}
	attr.State, attr.Access, attr.QKey = qp.Init, rightsOf(a.Rights), a.QKey
	return q.q.Modify(attr, qp.MaskState|mask)
}

func (q *queuePair) ToRTR(_ context.Context, a rxejudge.RTRAttr) error {
	attr, mask := nic.Attr{}, qp.MaskState
	attr.State = qp.RTR
	if a.Service != rxejudge.UD {
		src, err := q.s.Addr(a.Peer.Is6())
		if err != nil {
			return err
		}
		attr.Src, attr.Dst = src, a.Peer
		attr.DestQPN, attr.RQPSN = a.DestQPN, rocev2.PSN(a.PSN)
		attr.PMTU = rocev2.PMTU(bits.Len(uint(a.PMTU)) - 8) // 256 is 1
		mask |= nic.MaskPath | qp.MaskDestQPN | qp.MaskRQPSN | qp.MaskPMTU
	}
	if a.Service == rxejudge.RC {
		attr.MaxDestRdAtomic, attr.MinRNRTimer = uint8(a.DestRdAtomic), uint8(a.MinRNRTimer)
		mask |= qp.MaskMaxDestRdAtomic | qp.MaskMinRNRTimer
	}
	return q.q.Modify(attr, mask)
}

func (q *queuePair) ToRTS(_ context.Context, a rxejudge.RTSAttr) error {
	attr, mask := nic.Attr{}, qp.MaskState|qp.MaskSQPSN
	attr.State, attr.SQPSN = qp.RTS, rocev2.PSN(a.PSN)
	if a.Service == rxejudge.RC {
		attr.Timeout, attr.RetryCnt, attr.RNRRetry = uint8(a.Timeout), uint8(a.RetryCnt), uint8(a.RNRRetry)
		attr.MaxRdAtomic = uint8(a.RdAtomic)
		mask |= qp.MaskTimeout | qp.MaskRetryCnt | qp.MaskRNRRetry | qp.MaskMaxRdAtomic
	}
	return q.q.Modify(attr, mask)
}

var states = map[rxejudge.State]qp.State{
	rxejudge.Reset: qp.Reset, rxejudge.Init: qp.Init, rxejudge.RTR: qp.RTR, rxejudge.RTS: qp.RTS,
	rxejudge.SQD: qp.SQD, rxejudge.SQE: qp.SQE, rxejudge.Err: qp.Err,
}

func (q *queuePair) To(_ context.Context, s rxejudge.State) error {
	attr := nic.Attr{}
	attr.State = states[s]
	return q.q.Modify(attr, qp.MaskState)
}

func (q *queuePair) State(context.Context) (rxejudge.State, error) {
	now := q.q.State()
	for theirs, ours := range states {
		if ours == now {
			return theirs, nil
		}
	}
	return 0, fmt.Errorf("%s: QP %d is in state %v", q.s.Name(), q.QPN(), now)
}

var operations = map[rxejudge.Op]qp.Operation{
	rxejudge.Send: qp.OpSend, rxejudge.SendImm: qp.OpSendImm, rxejudge.SendInv: qp.OpSendInv, rxejudge.Write: qp.OpWrite,
	rxejudge.WriteImm: qp.OpWriteImm, rxejudge.Read: qp.OpRead, rxejudge.CompareSwap: qp.OpCompareSwap,
	rxejudge.FetchAdd: qp.OpFetchAdd, rxejudge.LocalInv: qp.OpLocalInv, rxejudge.BindMW: qp.OpBindWindow,
}

// sendWR translates a work request.
func sendWR(wr rxejudge.SendWR) (*qp.SendWR, error) {
	out := &qp.SendWR{
		ID: wr.ID, Op: operations[wr.Op], Imm: wr.Imm, InvKey: wr.Inv, RemoteAddr: wr.RemoteAddr, RKey: wr.RKey,
	}
	switch wr.Op {
	case rxejudge.CompareSwap:
		out.Compare, out.Swap = wr.CompareAdd, wr.Swap
	case rxejudge.FetchAdd:
		out.Add = wr.CompareAdd
	}
	for flag, on := range map[qp.Flags]bool{
		qp.Signaled: !wr.Unsignaled, qp.Solicited: wr.Solicited, qp.Fence: wr.Fence, qp.Inline: wr.Inline,
	} {
		if on {
			out.Flags |= flag
		}
	}
	if !wr.Inline {
		out.SGL = sgl(wr.SGEs)
	} else {
		for _, s := range wr.SGEs {
			b, err := s.MR.(*region).part(s.Off, s.Len)
			if err != nil {
				return nil, err
			}
			out.Data = append(out.Data, b...)
		}
	}
	if wr.UD != nil {
		out.AH = wr.UD.AH.(addressHandle).a.To(wr.UD.QPN, wr.UD.QKey)
	}
	if b := wr.Bind; b != nil {
		out.Bind = mem.Bind{
			Window: b.MW.RKey(), Region: b.MR.LKey(), Addr: b.MR.Addr() + uint64(b.Off), Length: uint64(b.Len),
			Access: rightsOf(b.Rights), NewKey: uint8(b.RKey),
		}
	}
	return out, nil
}

func (q *queuePair) PostSend(_ context.Context, wrs ...rxejudge.SendWR) error {
	for _, wr := range wrs {
		out, err := sendWR(wr)
		if err == nil {
			err = q.q.PostSend(out)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (q *queuePair) PostRecv(_ context.Context, wrs ...rxejudge.RecvWR) error {
	return postRecv(q.q.PostRecv, wrs)
}
