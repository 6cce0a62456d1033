// SPDX-License-Identifier: Apache-2.0

package sides

// This file has what implementations of package verbs need to become an oracle.Side:
// numbers, work requests, completions, and Run.

import (
	"context"
	"fmt"
	"math/bits"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/testenv/oracle"
)

// Rights translates access rights.
func Rights(a oracle.Access) (m verbs.Access) {
	for _, r := range []struct {
		theirs oracle.Access
		ours   verbs.Access
	}{
		{oracle.LocalWrite, verbs.AccessLocalWrite}, {oracle.RemoteWrite, verbs.AccessRemoteWrite}, {oracle.RemoteRead, verbs.AccessRemoteRead},
		{oracle.RemoteAtomic, verbs.AccessRemoteAtomic}, {oracle.MWBind, verbs.AccessBindWindows},
	} {
		if a&r.theirs != 0 {
			m |= r.ours
		}
	}
	return m
}

// Types are the services.
var Types = map[oracle.Service]verbs.QPType{oracle.RC: verbs.RC, oracle.UC: verbs.UC, oracle.UD: verbs.UD}

// States are the states of queue pairs.
var States = map[oracle.State]verbs.State{
	oracle.Reset: verbs.StateReset, oracle.Init: verbs.StateInit, oracle.RTR: verbs.StateRTR, oracle.RTS: verbs.StateRTS,
	oracle.SQD: verbs.StateSQD, oracle.SQE: verbs.StateSQE, oracle.Err: verbs.StateErr,
}

var operations = map[oracle.Op]verbs.Op{
	oracle.Send: verbs.OpSend, oracle.SendImm: verbs.OpSendImm, oracle.SendInv: verbs.OpSendInv, oracle.Write: verbs.OpWrite,
	oracle.WriteImm: verbs.OpWriteImm, oracle.Read: verbs.OpRead, oracle.CompareSwap: verbs.OpCompareSwap,
	oracle.FetchAdd: verbs.OpFetchAdd, oracle.LocalInv: verbs.OpLocalInv, oracle.BindMW: verbs.OpBindWindow,
}

// SendWR translates a work request. ah is the address handle of the implementation, for UD.
func SendWR(ctx context.Context, wr oracle.SendWR, ah func(oracle.AH) verbs.AH) (*verbs.SendWR, error) {
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
		out.SGL = SGL(wr.SGEs)
	} else {
		for _, s := range wr.SGEs {
			b, err := s.MR.Peek(ctx, s.Off, s.Len)
			if err != nil {
				return nil, err
			}
			out.Data = append(out.Data, b...)
		}
	}
	if wr.UD != nil {
		out.AH, out.RemoteQPN, out.RemoteQKey = ah(wr.UD.AH), wr.UD.QPN, wr.UD.QKey
	}
	if b := wr.Bind; b != nil {
		out.Bind = verbs.Bind{
			Window: b.MW.RKey(), Region: b.MR.LKey(), Addr: b.MR.Addr() + uint64(b.Off), Length: uint64(b.Len),
			Access: Rights(b.Rights), NewKey: uint8(b.RKey),
		}
	}
	return out, nil
}

// statuses are those of enum ibv_wc_status.
var statuses = map[verbs.Status]oracle.Status{
	verbs.StatusSuccess: oracle.Success, verbs.StatusLocalLength: oracle.LocalLengthError, verbs.StatusLocalQPOperation: oracle.LocalQPOperationError,
	verbs.StatusLocalProtection: oracle.LocalProtectionError, verbs.StatusWRFlushed: oracle.Flushed, verbs.StatusMWBindError: oracle.MWBindError,
	verbs.StatusBadResponse: oracle.BadResponse, verbs.StatusLocalAccess: oracle.LocalAccessError,
	verbs.StatusRemoteInvalidRequest: oracle.RemoteInvalidRequest, verbs.StatusRemoteAccess: oracle.RemoteAccessError,
	verbs.StatusRemoteOperation: oracle.RemoteOperationError, verbs.StatusRetryExceeded: oracle.RetryExceeded,
	verbs.StatusRNRRetryExceeded: oracle.RNRRetryExceeded,
}

var kinds = map[verbs.Op]oracle.WCOp{
	verbs.OpSend: oracle.WCSend, verbs.OpSendImm: oracle.WCSend, verbs.OpSendInv: oracle.WCSend,
	verbs.OpWrite: oracle.WCWrite, verbs.OpWriteImm: oracle.WCWrite, verbs.OpRead: oracle.WCRead,
	verbs.OpCompareSwap: oracle.WCCompareSwap, verbs.OpFetchAdd: oracle.WCFetchAdd, verbs.OpBindWindow: oracle.WCBindMW,
	verbs.OpLocalInv: oracle.WCLocalInv, verbs.OpRecv: oracle.WCRecv, verbs.OpRecvWriteImm: oracle.WCRecvImm,
}

// Completion translates a completion.
func Completion(w verbs.Completion) (oracle.Completion, error) {
	c := oracle.Completion{ID: w.WRID, QPN: w.QPN}
	var ok bool
	if c.Status, ok = statuses[w.Status]; !ok {
		return c, fmt.Errorf("completion with status %v, which verbs do not have", w.Status)
	}
	if w.Status != verbs.StatusSuccess {
		return c, nil
	}
	if c.Op, ok = kinds[w.Op]; !ok {
		return c, fmt.Errorf("completion of operation %d", w.Op)
	}
	c.Len, c.GRH, c.SrcQP = int(w.Bytes), w.HasGRH, w.SrcQP
	if w.HasImm {
		c.Imm = &w.Imm
	}
	if w.HasInv {
		c.Inv = &w.InvKey
	}
	return c, nil
}

// PostRecv translates and posts receive work requests.
func PostRecv(post func(*verbs.RecvWR) error, wrs []oracle.RecvWR) error {
	for _, wr := range wrs {
		if err := post(&verbs.RecvWR{ID: wr.ID, SGL: SGL(wr.SGEs)}); err != nil {
			return err
		}
	}
	return nil
}

// SGL translates a list.
func SGL(s []oracle.SGE) (out []verbs.SGE) {
	for _, e := range s {
		out = append(out, verbs.SGE{Addr: e.MR.Addr() + uint64(e.Off), Len: uint32(e.Len), LKey: e.MR.LKey()})
	}
	return out
}

// RTR and RTS are the attributes of these steps, without the address vector.
func RTR(a oracle.RTRAttr) verbs.Attr {
	attr := verbs.Attr{State: verbs.StateRTR}
	if a.Service != oracle.UD {
		attr.AV = verbs.AddressVector{Dst: a.Peer}
		attr.DestQPN, attr.RQPSN = a.DestQPN, rocev2.PSN(a.PSN)
		attr.PMTU = rocev2.PMTU(bits.Len(uint(a.PMTU)) - 8) // 256 is 1
	}
	attr.MaxDestRdAtomic, attr.MinRNRTimer = uint8(a.DestRdAtomic), uint8(a.MinRNRTimer)
	return attr
}

// RTS is explained at RTR.
func RTS(a oracle.RTSAttr) verbs.Attr {
	return verbs.Attr{
		State: verbs.StateRTS, SQPSN: rocev2.PSN(a.PSN), MaxRdAtomic: uint8(a.RdAtomic),
		Timeout: uint8(a.Timeout), RetryCnt: uint8(a.RetryCnt), RNRRetry: uint8(a.RNRRetry),
	}
}

// State returns the oracle's name of a state.
func State(now verbs.State) (oracle.State, error) {
	for theirs, ours := range States {
		if ours == now {
			return theirs, nil
		}
	}
	return 0, fmt.Errorf("state %v", now)
}
