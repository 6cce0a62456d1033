// SPDX-License-Identifier: Apache-2.0

package decode

import (
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/softroce/softroce-xdp/rocev2"
)

// appendTime prints the time of capture in UTC.
func appendTime(b []byte, t time.Time) []byte {
	return t.UTC().AppendFormat(b, "2006-01-02T15:04:05.000000000Z")
}

func text(e rocev2.Error) string { return strings.TrimPrefix(e.Error(), "rocev2: ") }

// appendPacket prints addresses, opcode, QP and PSN; then the extended headers, the payload
// length, the verdict on the ICRC and the stamp.
func appendPacket(b []byte, p *rocev2.Packet, icrc error) []byte {
	h := p.BTH()
	b = append(b, ' ')
	b = appendAddr(b, p.Src())
	b = append(b, " > "...)
	b = appendAddr(b, p.Dst())
	if outer, inner, n := p.VLANs(); n == 1 {
		b = fmt.Appendf(b, " vlan %d", outer&0xFFF)
	} else if n == 2 {
		b = fmt.Appendf(b, " vlan %d.%d", outer&0xFFF, inner&0xFFF)
	}
	b = fmt.Appendf(b, " %s qp 0x%06x psn %d", h.Opcode(), h.DestQP(), h.PSN())
	for _, f := range []struct {
		on   bool
		name string
	}{{h.AckReq(), " ackreq"}, {h.Solicited(), " solicited"}, {h.FECN(), " fecn"}, {h.BECN(), " becn"}, {p.CE(), " ce"}} {
		if f.on {
			b = append(b, f.name...)
		}
	}
	b = appendExt(b, p)
	b = fmt.Appendf(b, " payload %d", p.PayloadLen())
	switch icrc {
	case nil:
		b = append(b, " icrc ok"...)
	case rocev2.ErrICRC:
		want, _ := p.ComputeICRC()
		b = fmt.Appendf(b, " icrc BAD (0x%08x, should be 0x%08x)", p.ICRC(), want)
	default:
		b = append(b, " truncated: ICRC not checked"...)
	}
	return appendStamp(b, p)
}

func appendAddr(b []byte, a netip.Addr) []byte { return a.AppendTo(b) }

func appendExt(b []byte, p *rocev2.Packet) []byte {
	if h := p.FETH(); h != nil {
		b = fmt.Appendf(b, " flush type %d selectivity %d", h.Placement(), h.Selectivity())
	}
	if h := p.DETH(); h != nil {
		b = fmt.Appendf(b, " srcqp 0x%06x qkey 0x%08x", h.SrcQP(), h.QKey())
	}
	if h := p.RETH(); h != nil {
		b = fmt.Appendf(b, " va 0x%x rkey 0x%08x len %d", h.VA(), h.RKey(), h.DMALen())
	}
	if h := p.AtomicETH(); h != nil {
		b = fmt.Appendf(b, " va 0x%x rkey 0x%08x", h.VA(), h.RKey())
		if p.Opcode() == rocev2.RCCompareSwap {
			b = fmt.Appendf(b, " compare 0x%x swap 0x%x", h.Compare(), h.SwapOrAdd())
		} else {
			b = fmt.Appendf(b, " add 0x%x", h.SwapOrAdd())
		}
	}
	if h := p.AETH(); h != nil {
		s := h.Syndrome()
		b = fmt.Appendf(b, " %s", s)
		switch s.Type() {
		case rocev2.AckPositive:
			if n, ok := s.Credits(); ok {
				b = fmt.Appendf(b, " credits %d", n)
			}
		case rocev2.AckRNR:
			b = fmt.Appendf(b, " wait %s", rocev2.RNRTime(s.Value()))
		}
		b = fmt.Appendf(b, " syndrome 0x%02x msn %d", uint8(s), h.MSN())
	}
	if h := p.AtomicAckETH(); h != nil {
		b = fmt.Appendf(b, " original 0x%x", h.Original())
	}
	if h := p.ImmDt(); h != nil {
		b = fmt.Appendf(b, " imm 0x%08x", h.Value())
	}
	if h := p.IETH(); h != nil {
		b = fmt.Appendf(b, " invalidate 0x%08x", h.RKey())
	}
	if h := p.SACK(); h != nil {
		hi, lo := h.Bits()
		b = fmt.Appendf(b, " sack 0x%016x%016x", hi, lo)
	}
	if h := p.CreditGrant(); h != nil {
		b = fmt.Appendf(appendCredit(b, h.Fields()), " life %s", time.Duration(h.LifeNs()))
	}
	if h := p.CreditReturn(); h != nil {
		b = fmt.Appendf(appendCredit(b, h.Fields()), " sent %d void %d", h.Sent(), h.Void())
	}
	if h := p.RateLimit(); h != nil {
		f := h.Fields()
		b = fmt.Appendf(b, " epoch %d rate %d bit/s life %s", f.Epoch, f.RateBps, time.Duration(f.LifeNs))
	}
	b = appendOOO(b, p)
	switch h, err := p.Hello(); err {
	case nil:
		b = fmt.Appendf(b, " node %d caps 0x%x link %d Mbit/s nonce 0x%016x", h.Node, h.Caps, h.LinkMbps, h.Nonce)
		if h.Token != 0 {
			b = fmt.Appendf(b, " token 0x%016x", h.Token)
		}
	case rocev2.ErrNotHello:
	default:
		b = fmt.Appendf(b, " (%s)", text(err.(rocev2.Error)))
	}
	return b
}

// oethFlags are the flags of an OETH, from bit 0 on.
var oethFlags = [...]string{" first", " last", " retry", " solicited-notify"}

// appendOOO prints the header of a packet of out-of-order mode.
func appendOOO(b []byte, p *rocev2.Packet) []byte {
	if h := p.OETH(); h != nil {
		f := h.Fields()
		b = fmt.Appendf(b, " message %d index %d", f.Message, f.Index)
		for i, name := range oethFlags {
			if f.Flags>>i&1 != 0 {
				b = append(b, name...)
			}
		}
		b = fmt.Appendf(b, " va 0x%x rkey 0x%08x len %d", f.VA, f.RKey, f.Length)
	} else if p.Opcode().Ext()&rocev2.ExtOETH != 0 {
		b = append(b, " (OETH of another version)"...)
	}
	if h := p.OACK(); h != nil {
		f := h.Fields()
		b = fmt.Appendf(b, " message %d cumulative %d base %d bitmap 0x%016x window %d out-of-order %d echo %d us",
			f.Message, f.Cumulative, f.Base, f.Bitmap, f.Window, f.OutOfOrder, f.EchoUs)
	}
	if h := p.ONotify(); h != nil {
		f := h.Fields()
		b = fmt.Appendf(b, " message %d queue %d descriptor 0x%016x len %d status 0x%x", f.Message, f.Queue, f.Descriptor, f.Length, f.Status)
	}
	if h := p.ONotifyAck(); h != nil {
		f := h.Fields()
		b = fmt.Appendf(b, " message %d echo %d us", f.Message, f.EchoUs)
	}
	if h := p.ONak(); h != nil {
		f := h.Fields()
		b = fmt.Appendf(b, " message %d %s", f.Message, f.Code)
	}
	return b
}

func appendCredit(b []byte, f rocev2.CreditFields) []byte {
	return fmt.Appendf(b, " epoch %d seq %d limit %d flags 0x%04x", f.Epoch, f.Seq, f.Limit, f.Flags)
}

// appendStamp prints only what the stamp's flags call valid.
func appendStamp(b []byte, p *rocev2.Packet) []byte {
	area := len(p.Surplus())
	if area == 0 {
		return b
	}
	s, err := p.Stamp()
	if err != nil {
		return fmt.Appendf(b, " surplus %d bytes (%s)", area, text(err.(rocev2.Error)))
	}
	b = append(b, " stamp"...)
	if s.Token != 0 {
		b = fmt.Appendf(b, " token 0x%016x", s.Token)
	}
	if s.Flags&rocev2.StampT1 != 0 {
		b = fmt.Appendf(b, " t1 %d", s.T1)
	}
	if s.Flags&rocev2.StampEcho != 0 {
		b = fmt.Appendf(b, " echo t1 %d t2 %d", s.EchoT1, s.EchoT2)
	}
	if s.Flags&rocev2.StampCredit != 0 {
		b = fmt.Appendf(b, " credit %d seq %d", s.Credit, s.CreditSeq)
	}
	if s.Flags&rocev2.StampCE != 0 {
		b = append(b, " ce-seen"...)
	}
	return fmt.Appendf(b, " flags 0x%02x", s.Flags)
}
