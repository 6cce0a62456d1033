// SPDX-License-Identifier: Apache-2.0

package self

import (
	"context"
	"fmt"
	"math/bits"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/testenv/oracle"
)

type queuePair struct {
	s *Side
	q verbs.QP
}

var types = map[oracle.Service]verbs.QPType{oracle.RC: verbs.RC, oracle.UC: verbs.UC, oracle.UD: verbs.UD}

func (d domain) NewQP(_ context.Context, c oracle.QPConfig) (oracle.QP, error) {
	send, ok1 := c.SendCQ.(completionQueue)
	recv, ok2 := c.RecvCQ.(completionQueue)
	if !ok1 || !ok2 {
		return nil, fmt.Errorf("%s: the completion queues of a QP must be of the same side", d.s.Name())
	}
	init := verbs.QPInit{
		Type: types[c.Service], SendCQ: send.q, RecvCQ: recv.q, MaxSend: c.SendWR, MaxRecv: c.RecvWR,
		MaxSendSGE: max(1, c.SendSGE), MaxRecvSGE: max(1, c.RecvSGE), MaxInline: c.Inline,
	}
	if c.SRQ != nil {
		init.SRQ = c.SRQ.(*sharedQueue).q
	}
	x, err := d.pd.CreateQP(init)
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

func (q *queuePair) ToInit(_ context.Context, a oracle.InitAttr) error {
	return q.modify(verbs.Attr{State: verbs.StateInit, Access: rightsOf(a.Rights), QKey: a.QKey})
}

func (q *queuePair) ToRTR(_ context.Context, a oracle.RTRAttr) error {
	attr := verbs.Attr{State: verbs.StateRTR}
	if a.Service != oracle.UD {
		src, err := q.s.Addr(a.Peer.Is6())
		if err != nil {
			return err
		}
		attr.AV = verbs.AddressVector{Src: src, Dst: a.Peer}
		attr.DestQPN, attr.RQPSN = a.DestQPN, rocev2.PSN(a.PSN)
		attr.PMTU = rocev2.PMTU(bits.Len(uint(a.PMTU)) - 8) // 256 is 1
	}
	attr.MaxDestRdAtomic, attr.MinRNRTimer = uint8(a.DestRdAtomic), uint8(a.MinRNRTimer)
	return q.modify(attr)
}

func (q *queuePair) ToRTS(_ context.Context, a oracle.RTSAttr) error {
	return q.modify(verbs.Attr{
		State: verbs.StateRTS, SQPSN: rocev2.PSN(a.PSN), MaxRdAtomic: uint8(a.RdAtomic),
		Timeout: uint8(a.Timeout), RetryCnt: uint8(a.RetryCnt), RNRRetry: uint8(a.RNRRetry),
	})
}

// modify sets the attributes that the step to a.State needs.
func (q *queuePair) modify(a verbs.Attr) error {
	return q.q.Modify(a, verbs.RequiredMask(q.q.Type(), a.State))
}

var states = map[oracle.State]verbs.State{
	oracle.Reset: verbs.StateReset, oracle.Init: verbs.StateInit, oracle.RTR: verbs.StateRTR, oracle.RTS: verbs.StateRTS,
	oracle.SQD: verbs.StateSQD, oracle.SQE: verbs.StateSQE, oracle.Err: verbs.StateErr,
}

func (q *queuePair) To(_ context.Context, s oracle.State) error {
	attr := verbs.Attr{}
	attr.State = states[s]
	return q.q.Modify(attr, verbs.MaskState)
}

func (q *queuePair) State(context.Context) (oracle.State, error) {
	now := q.q.State()
	for theirs, ours := range states {
		if ours == now {
			return theirs, nil
		}
	}
	return 0, fmt.Errorf("%s: QP %d is in state %v", q.s.Name(), q.QPN(), now)
}

var operations = map[oracle.Op]verbs.Op{
	oracle.Send: verbs.OpSend, oracle.SendImm: verbs.OpSendImm, oracle.SendInv: verbs.OpSendInv, oracle.Write: verbs.OpWrite,
	oracle.WriteImm: verbs.OpWriteImm, oracle.Read: verbs.OpRead, oracle.CompareSwap: verbs.OpCompareSwap,
	oracle.FetchAdd: verbs.OpFetchAdd, oracle.LocalInv: verbs.OpLocalInv, oracle.BindMW: verbs.OpBindWindow,
}

// sendWR translates a work request.
func sendWR(wr oracle.SendWR) (*verbs.SendWR, error) {
	out := &verbs.SendWR{
		ID: wr.ID, Op: operations[wr.Op], Imm: wr.Imm, InvKey: wr.Inv, RemoteAddr: wr.RemoteAddr, RKey: wr.RKey,
	}
	switch wr.Op {
	case oracle.CompareSwap:
		out.Compare, out.Swap = wr.CompareAdd, wr.Swap
	case oracle.FetchAdd:
		out.Add = wr.CompareAdd
	}
	for flag, on := range map[verbs.Flags]bool{
		verbs.Signaled: !wr.Unsignaled, verbs.Solicited: wr.Solicited, verbs.Fence: wr.Fence, verbs.Inline: wr.Inline,
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
		out.AH, out.RemoteQPN, out.RemoteQKey = wr.UD.AH.(addressHandle).a, wr.UD.QPN, wr.UD.QKey
	}
	if b := wr.Bind; b != nil {
		out.Bind = verbs.Bind{
			Window: b.MW.RKey(), Region: b.MR.LKey(), Addr: b.MR.Addr() + uint64(b.Off), Length: uint64(b.Len),
			Access: rightsOf(b.Rights), NewKey: uint8(b.RKey),
		}
	}
	return out, nil
}

func (q *queuePair) PostSend(_ context.Context, wrs ...oracle.SendWR) error {
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

func (q *queuePair) PostRecv(_ context.Context, wrs ...oracle.RecvWR) error {
	return postRecv(q.q.PostRecv, wrs)
}
