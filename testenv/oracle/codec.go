// SPDX-License-Identifier: Apache-2.0

package oracle

// This file translates package verbs to the lines of the helper, whose numbers are those of libibverbs.
// Access rights have the same bits there and here.

import (
	"encoding/hex"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// opNames are the names of operations in commands, and in the names of cases.
var opNames = map[verbs.Op]string{
	verbs.OpSend: "send", verbs.OpSendImm: "send_imm", verbs.OpSendInv: "send_inv", verbs.OpWrite: "write",
	verbs.OpWriteImm: "write_imm", verbs.OpRead: "read", verbs.OpCompareSwap: "cmp_swap", verbs.OpFetchAdd: "fetch_add",
	verbs.OpLocalInv: "local_inv", verbs.OpBindWindow: "bind_mw",
}

// lower is the name of a service or state in commands.
func lower(s fmt.Stringer) string { return strings.ToLower(s.String()) }

// statuses are those of enum ibv_wc_status.
var statuses = map[uint64]verbs.Status{
	0: verbs.StatusSuccess, 1: verbs.StatusLocalLength, 2: verbs.StatusLocalQPOperation, 4: verbs.StatusLocalProtection,
	5: verbs.StatusWRFlushed, 6: verbs.StatusMWBindError, 7: verbs.StatusBadResponse, 8: verbs.StatusLocalAccess,
	9: verbs.StatusRemoteInvalidRequest, 10: verbs.StatusRemoteAccess, 11: verbs.StatusRemoteOperation,
	12: verbs.StatusRetryExceeded, 13: verbs.StatusRNRRetryExceeded, 16: verbs.StatusRemoteAborted, 19: verbs.StatusFatal,
}

// completed are the operations of enum ibv_wc_opcode, which has one number for all SENDs and one for
// all WRITEs of the requester.
var completed = map[uint64]verbs.Op{
	0: verbs.OpSend, 1: verbs.OpWrite, 2: verbs.OpRead, 3: verbs.OpCompareSwap, 4: verbs.OpFetchAdd,
	5: verbs.OpBindWindow, 6: verbs.OpLocalInv, 128: verbs.OpRecv, 129: verbs.OpRecvWriteImm,
}

// events are those of enum ibv_event_type that package verbs has.
var events = map[uint64]verbs.EventType{
	0: verbs.EventCQError, 1: verbs.EventQPFatal, 2: verbs.EventQPRequest, 3: verbs.EventQPAccess, 4: verbs.EventQPEstablished,
	5: verbs.EventQPDrained, 8: verbs.EventDeviceFatal, 9: verbs.EventPortActive, 10: verbs.EventPortDown,
	15: verbs.EventSRQLimit, 16: verbs.EventQPLastWQE, 18: verbs.EventGIDChange,
}

// gid is the GID of an address, in hex; IPv4 stands as ::ffff:a.b.c.d.
func gid(a netip.Addr) string {
	b := a.As16()
	return hex.EncodeToString(b[:])
}

func sglArgs(sgl []verbs.SGE) string {
	var b strings.Builder
	for _, s := range sgl {
		fmt.Fprintf(&b, " sge=%#x:%d:%#x", s.Addr, s.Len, s.LKey)
	}
	return b.String()
}

// sendArgs is a send request as the helper reads it, except for the objects that the request names:
// the address handle and the window.
func sendArgs(wr *verbs.SendWR) string {
	var b strings.Builder
	fmt.Fprintf(&b, " op=%s id=%d%s", opNames[wr.Op], wr.ID, sglArgs(wr.SGL))
	for i, name := range []string{"signaled", "solicited", "fence"} {
		if wr.Flags&(verbs.Signaled<<i) != 0 {
			fmt.Fprintf(&b, " %s=1", name)
		}
	}
	switch wr.Op {
	case verbs.OpSendImm, verbs.OpWriteImm:
		fmt.Fprintf(&b, " imm=%#x", wr.Imm)
	case verbs.OpSendInv, verbs.OpLocalInv:
		fmt.Fprintf(&b, " inv=%#x", wr.InvKey)
	}
	switch wr.Op {
	case verbs.OpWrite, verbs.OpWriteImm, verbs.OpRead, verbs.OpCompareSwap, verbs.OpFetchAdd:
		fmt.Fprintf(&b, " raddr=%#x rkey=%#x", wr.RemoteAddr, wr.RKey)
	}
	switch wr.Op {
	case verbs.OpCompareSwap:
		fmt.Fprintf(&b, " compare_add=%#x swap=%#x", wr.Compare, wr.Swap)
	case verbs.OpFetchAdd:
		fmt.Fprintf(&b, " compare_add=%#x", wr.Add)
	case verbs.OpBindWindow:
		rkey := wr.Bind.Window&^0xFF | uint32(wr.Bind.NewKey)
		fmt.Fprintf(&b, " addr=%#x len=%d access=%#x rkey=%#x", wr.Bind.Addr, wr.Bind.Length, uint8(wr.Bind.Access), rkey)
	}
	return b.String()
}

// attrArgs are attributes as the helper reads them, except for the address vector.
func attrArgs(a verbs.Attr, mask verbs.AttrMask) (string, error) {
	var b strings.Builder
	for _, f := range []struct {
		bit    verbs.AttrMask
		format string
		value  any
	}{
		{verbs.MaskState, " state=%s", lower(a.State)},
		{verbs.MaskAccess, " access=%#x", uint8(a.Access)},
		{verbs.MaskQKey, " qkey=%#x", a.QKey},
		{verbs.MaskPMTU, " mtu=%d", a.PMTU.Bytes()},
		{verbs.MaskDestQPN, " dest_qpn=%d", a.DestQPN},
		{verbs.MaskRQPSN, " rq_psn=%d", a.RQPSN},
		{verbs.MaskSQPSN, " sq_psn=%d", a.SQPSN},
		{verbs.MaskMaxRdAtomic, " rd_atomic=%d", a.MaxRdAtomic},
		{verbs.MaskMaxDestRdAtomic, " dest_rd_atomic=%d", a.MaxDestRdAtomic},
		{verbs.MaskMinRNRTimer, " min_rnr_timer=%d", a.MinRNRTimer},
		{verbs.MaskTimeout, " timeout=%d", a.Timeout},
		{verbs.MaskRetryCnt, " retry_cnt=%d", a.RetryCnt},
		{verbs.MaskRNRRetry, " rnr_retry=%d", a.RNRRetry},
	} {
		if mask&f.bit != 0 {
			fmt.Fprintf(&b, f.format, f.value)
			mask &^= f.bit
		}
	}
	if a.State == verbs.StateInit {
		b.WriteString(" pkey_index=0 port=1")
	}
	if mask &^= verbs.MaskAV; mask != 0 {
		return "", fmt.Errorf("judge: the helper has no attribute %v", mask)
	}
	return b.String(), nil
}

// parseWC reads "id:status:op:len:flags:imm:qpn:src_qp:vendor".
func parseWC(s string) (c verbs.Completion, err error) {
	parts := strings.Split(s, ":")
	n := make([]uint64, len(parts))
	for i, p := range parts {
		if n[i], err = strconv.ParseUint(p, 10, 64); err != nil {
			return c, fmt.Errorf("judge: completion %q: %w", s, err)
		}
	}
	if len(n) != 9 {
		return c, fmt.Errorf("judge: completion %q has %d fields, want 9", s, len(n))
	}
	c = verbs.Completion{WRID: n[0], QPN: uint32(n[6])}
	var ok bool
	if c.Status, ok = statuses[n[1]]; !ok {
		return c, fmt.Errorf("judge: completion %q has a status that verbs do not have", s)
	}
	if c.Status != verbs.StatusSuccess {
		return c, nil
	}
	if c.Op, ok = completed[n[2]]; !ok {
		return c, fmt.Errorf("judge: completion %q is of an unknown operation", s)
	}
	const flagGRH, flagImm, flagInv = 1, 2, 8
	c.Bytes, c.SrcQP, c.HasGRH = uint32(n[3]), uint32(n[7]), n[4]&flagGRH != 0
	switch {
	case n[4]&flagImm != 0:
		c.HasImm, c.Imm = true, uint32(n[5])
	case n[4]&flagInv != 0:
		c.HasInv, c.InvKey = true, uint32(n[5])
	}
	return c, nil
}
