// SPDX-License-Identifier: Apache-2.0

package wqe

import (
	"encoding/binary"
	"fmt"

	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// bit is the value of a field of one bit.
func bit(on bool) uint64 {
	if on {
		return 1
	}
	return 0
}

// SendBytes is the length of a send entry for inline data of that many bytes, or a list of that
// many elements, whichever is longer.
func SendBytes(inline, elements int) int { return WqeBytes + max(inline, elements*SgeBytes) }

// RecvBytes is the length of a receive entry for a list of that many elements.
func RecvBytes(elements int) int { return WqeRecvBytes + elements*SgeBytes }

// Besides the operations of the definition, entries have verbs.OpWriteNotify and verbs.OpRecvNotify of
// out-of-order mode, by their numbers in package verbs: in rings of the device of the agent. The card does
// not have the mode, and refuses them.

// EncodeSend writes a work request of a queue pair of that service to an entry. ah is what the
// entry names the address handle of a UD message by. Errors wrap verbs.ErrInline or verbs.ErrSGL:
// the entry is too short.
func EncodeSend(entry []byte, service verbs.QPType, wr *verbs.SendWR, ah uint32) error {
	clear(entry[:WqeBytes])
	w, tail := Wqe(entry), entry[WqeBytes:]
	w.SetOpcode(uint32(wr.Op))
	w.SetWrId(wr.ID)
	w.SetSignaled(wr.Flags&verbs.Signaled != 0)
	w.SetSolicited(wr.Flags&verbs.Solicited != 0)
	w.SetFence(wr.Flags&verbs.Fence != 0)
	switch wr.Op {
	case verbs.OpSendImm, verbs.OpWriteImm, verbs.OpWriteNotify:
		w.SetImmediate(wr.Imm)
	case verbs.OpSendInv, verbs.OpLocalInv:
		w.SetImmediate(wr.InvKey)
	}
	switch {
	case wr.Flags&verbs.Inline != 0:
		if len(wr.Data) > len(tail) || len(wr.SGL) > 0 {
			return fmt.Errorf("%w: %d bytes of %d", verbs.ErrInline, len(wr.Data), len(tail))
		}
		w.SetInline(true)
		w.SetCount(uint32(len(wr.Data)))
		copy(tail, wr.Data)
	case len(wr.SGL)*SgeBytes > len(tail):
		return fmt.Errorf("%w: %d of %d", verbs.ErrSGL, len(wr.SGL), len(tail)/SgeBytes)
	default:
		w.SetCount(uint32(len(wr.SGL)))
		encodeList(tail, wr.SGL)
	}
	encodeOperation(entry, service, wr, ah)
	return nil
}

// encodeOperation writes the second part of an entry.
func encodeOperation(entry []byte, service verbs.QPType, wr *verbs.SendWR, ah uint32) {
	switch {
	case wr.Op == verbs.OpBindWindow:
		encodeBind(WqeBind(entry), &wr.Bind)
	case service == verbs.UD:
		u := WqeUd(entry)
		u.SetAh(ah)
		u.SetDestQpn(wr.RemoteQPN)
		u.SetDestQkey(wr.RemoteQKey)
	case wr.Op == verbs.OpWrite || wr.Op == verbs.OpWriteImm || wr.Op == verbs.OpWriteNotify || wr.Op == verbs.OpRead:
		r := WqeRdma(entry)
		r.SetRemoteAddr(wr.RemoteAddr)
		r.SetRkey(wr.RKey)
	case wr.Op == verbs.OpCompareSwap || wr.Op == verbs.OpFetchAdd:
		r := WqeRdma(entry)
		r.SetRemoteAddr(wr.RemoteAddr)
		r.SetRkey(wr.RKey)
		r.SetCompare(wr.Compare)
		r.SetSwapAdd(wr.Swap)
		if wr.Op == verbs.OpFetchAdd {
			r.SetSwapAdd(wr.Add)
		}
	}
}

func encodeList(b []byte, sgl []verbs.SGE) {
	for i, s := range sgl {
		e := Sge(b[i*SgeBytes:])
		e.SetAddr(s.Addr)
		e.SetLength(s.Len)
		e.SetLkey(s.LKey)
	}
}

func encodeBind(w WqeBind, b *verbs.Bind) {
	w.SetBindAddr(b.Addr)
	w.SetBindBytes(b.Length)
	w.SetWindowKey(b.Window)
	w.SetRegionKey(b.Region)
	w.SetNewKey(uint32(b.NewKey))
	w.SetAllowWrite(b.Access&verbs.AccessRemoteWrite != 0)
	w.SetAllowRead(b.Access&verbs.AccessRemoteRead != 0)
	w.SetAllowAtomic(b.Access&verbs.AccessRemoteAtomic != 0)
	w.SetZeroBased(b.Access&verbs.AccessZeroBased != 0)
}

// DecodeSend reads a send entry of a queue pair of that service. wr.Data is a part of the entry,
// and the memory of wr.SGL is used again. wr.AH is nil; ah is what the entry names the handle of a
// UD message by. It returns false, with wr.ID, if the entry contradicts itself.
func DecodeSend(entry []byte, service verbs.QPType, wr *verbs.SendWR) (ah uint32, ok bool) {
	w, tail := Wqe(entry), entry[WqeBytes:]
	*wr = verbs.SendWR{ID: w.WrId(), Op: verbs.Op(w.Opcode()), Imm: w.Immediate(), InvKey: w.Immediate(), SGL: wr.SGL[:0]}
	if (wr.Op < verbs.OpSend || wr.Op > verbs.OpBindWindow) && wr.Op != verbs.OpWriteNotify {
		return 0, false
	}
	if w.Signaled() {
		wr.Flags |= verbs.Signaled
	}
	if w.Solicited() {
		wr.Flags |= verbs.Solicited
	}
	if w.Fence() {
		wr.Flags |= verbs.Fence
	}
	n := int(w.Count())
	if w.Inline() {
		wr.Flags |= verbs.Inline
		if n > len(tail) {
			return 0, false
		}
		wr.Data = tail[:n]
	} else if !decodeList(tail, n, &wr.SGL) {
		return 0, false
	}
	switch {
	case wr.Op == verbs.OpBindWindow:
		wr.Bind = decodeBind(WqeBind(entry))
	case service == verbs.UD:
		u := WqeUd(entry)
		ah, wr.RemoteQPN, wr.RemoteQKey = u.Ah(), u.DestQpn(), u.DestQkey()
	default:
		r := WqeRdma(entry)
		wr.RemoteAddr, wr.RKey, wr.Compare, wr.Swap, wr.Add = r.RemoteAddr(), r.Rkey(), r.Compare(), r.SwapAdd(), r.SwapAdd()
	}
	return ah, true
}

// decodeList reads n elements of a list.
func decodeList(b []byte, n int, to *[]verbs.SGE) bool {
	*to = (*to)[:0]
	if n > len(b)/SgeBytes {
		return false
	}
	for i := range n {
		e := Sge(b[i*SgeBytes:])
		*to = append(*to, verbs.SGE{Addr: e.Addr(), Len: e.Length(), LKey: e.Lkey()})
	}
	return true
}

func decodeBind(w WqeBind) verbs.Bind {
	b := verbs.Bind{Window: w.WindowKey(), Region: w.RegionKey(), Addr: w.BindAddr(), Length: w.BindBytes(), NewKey: uint8(w.NewKey())}
	for _, r := range []struct {
		on    bool
		right verbs.Access
	}{
		{w.AllowWrite(), verbs.AccessRemoteWrite}, {w.AllowRead(), verbs.AccessRemoteRead},
		{w.AllowAtomic(), verbs.AccessRemoteAtomic}, {w.ZeroBased(), verbs.AccessZeroBased},
	} {
		if r.on {
			b.Access |= r.right
		}
	}
	return b
}

// EncodeRecv writes a receive to an entry. The error wraps verbs.ErrSGL: the entry is too short.
func EncodeRecv(entry []byte, wr *verbs.RecvWR) error {
	tail := entry[WqeRecvBytes:]
	if len(wr.SGL)*SgeBytes > len(tail) {
		return fmt.Errorf("%w: %d of %d", verbs.ErrSGL, len(wr.SGL), len(tail)/SgeBytes)
	}
	clear(entry[:WqeRecvBytes])
	w := WqeRecv(entry)
	w.SetWrId(wr.ID)
	w.SetCount(uint32(len(wr.SGL)))
	encodeList(tail, wr.SGL)
	return nil
}

// DecodeRecv reads a receive entry. The memory of wr.SGL is used again. It returns false, with
// wr.ID, if the entry has more elements than room.
func DecodeRecv(entry []byte, wr *verbs.RecvWR) bool {
	w := WqeRecv(entry)
	wr.ID = w.WrId()
	return decodeList(entry[WqeRecvBytes:], int(w.Count()), &wr.SGL)
}

// EncodeCompletion writes a completion to an entry of CqeBytes. Without success only ID, queue
// pair, status and solicited are written. The bit owner is 0.
func EncodeCompletion(entry []byte, c *verbs.Completion) {
	clear(entry[:CqeBytes])
	e := Cqe(entry)
	e.SetWrId(c.WRID)
	e.SetQpn(c.QPN)
	e.SetStatus(uint32(c.Status))
	e.SetSolicited(c.Solicited || c.Status != verbs.StatusSuccess)
	if c.Status != verbs.StatusSuccess {
		return
	}
	e.SetOpcode(uint32(c.Op))
	e.SetLength(c.Bytes)
	e.SetSrcQp(c.SrcQP)
	e.SetHasImm(c.HasImm)
	e.SetHasInv(c.HasInv)
	e.SetHasGrh(c.HasGRH)
	e.SetIpv4(c.IPv4)
	switch {
	case c.HasImm:
		e.SetImmediate(c.Imm)
	case c.HasInv:
		e.SetImmediate(c.InvKey)
	}
}

// OwnerAt is where the 8 bytes of a completion are that have the bit owner, and OwnerMask that bit of them
// in the byte order of the machine. Who writes these bytes last, and at once, shows an entry as a whole.
var OwnerAt, OwnerMask = func() (int, uint64) {
	var b [CqeBytes]byte
	Cqe(b[:]).SetOwner(true)
	at := 0
	for binary.NativeEndian.Uint64(b[at:]) == 0 {
		at += 8
	}
	return at, binary.NativeEndian.Uint64(b[at:])
}()

// DecodeCompletion reads an entry of CqeBytes.
func DecodeCompletion(entry []byte) verbs.Completion {
	e := Cqe(entry)
	c := verbs.Completion{WRID: e.WrId(), QPN: e.Qpn(), Status: verbs.Status(e.Status()), Solicited: e.Solicited()}
	if c.Status != verbs.StatusSuccess {
		return c
	}
	c.Op, c.Bytes, c.SrcQP = verbs.Op(e.Opcode()), e.Length(), e.SrcQp()
	c.HasImm, c.HasInv, c.HasGRH, c.IPv4 = e.HasImm(), e.HasInv(), e.HasGrh(), e.Ipv4()
	switch {
	case c.HasImm:
		c.Imm = e.Immediate()
	case c.HasInv:
		c.InvKey = e.Immediate()
	}
	return c
}
