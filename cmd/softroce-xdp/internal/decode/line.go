// SPDX-License-Identifier: Apache-2.0

package decode

import (
	"fmt"
	"strings"
	"time"

	"github.com/google/gopacket"
	gplayers "github.com/google/gopacket/layers"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/layers"
)

// appendTime prints the time of capture in UTC.
func appendTime(b []byte, t time.Time) []byte {
	return t.UTC().AppendFormat(b, "2006-01-02T15:04:05.000000000Z")
}

func text(e rocev2.Error) string { return strings.TrimPrefix(e.Error(), "rocev2: ") }

// appendPacket prints addresses, opcode, QP and PSN; then the extended headers, the payload
// length, the verdict on the ICRC and the stamp. What stands behind UDP are the layers of package rocev2/layers.
func appendPacket(b []byte, p *rocev2.Packet, icrc error) []byte {
	first := gplayers.LayerTypeIPv4
	if p.IsIPv6() {
		first = gplayers.LayerTypeIPv6
	}
	all := gopacket.NewPacket(p.Datagram(), first, gopacket.NoCopy).Layers()
	b = appendAddrs(b, p)
	for _, l := range all {
		if h, ok := l.(*layers.BTH); ok {
			b = appendBTH(b, h, p.CE())
			continue
		}
		b = appendExt(b, l, p)
	}
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
	for _, l := range all {
		switch s := l.(type) {
		case *layers.Stamp:
			b = appendStamp(b, &s.Stamp)
		case *layers.Surplus:
			b = fmt.Appendf(b, " surplus %d bytes (%s)", len(s.Contents), text(s.Err.(rocev2.Error)))
		}
	}
	return b
}

func appendAddrs(b []byte, p *rocev2.Packet) []byte {
	b = append(b, ' ')
	b = p.Src().AppendTo(b)
	b = append(b, " > "...)
	b = p.Dst().AppendTo(b)
	if outer, inner, n := p.VLANs(); n == 1 {
		b = fmt.Appendf(b, " vlan %d", outer&0xFFF)
	} else if n == 2 {
		b = fmt.Appendf(b, " vlan %d.%d", outer&0xFFF, inner&0xFFF)
	}
	return b
}

func appendBTH(b []byte, h *layers.BTH, ce bool) []byte {
	b = fmt.Appendf(b, " %s qp 0x%06x psn %d", h.Opcode, h.DestQP, h.PSN)
	for _, f := range []struct {
		on   bool
		name string
	}{{h.AckReq, " ackreq"}, {h.Solicited, " solicited"}, {h.FECN, " fecn"}, {h.BECN, " becn"}, {ce, " ce"}} {
		if f.on {
			b = append(b, f.name...)
		}
	}
	return b
}

// appendExt prints an extended header. The bodies of another version have no fields that are known.
func appendExt(b []byte, l gopacket.Layer, p *rocev2.Packet) []byte {
	switch h := l.(type) {
	case *layers.FETH:
		return fmt.Appendf(b, " flush type %d selectivity %d", h.Placement, h.Selectivity)
	case *layers.DETH:
		return fmt.Appendf(b, " srcqp 0x%06x qkey 0x%08x", h.SrcQP, h.QKey)
	case *layers.RETH:
		return fmt.Appendf(b, " va 0x%x rkey 0x%08x len %d", h.VA, h.RKey, h.DMALen)
	case *layers.AtomicETH:
		b = fmt.Appendf(b, " va 0x%x rkey 0x%08x", h.VA, h.RKey)
		if p.Opcode() == rocev2.RCCompareSwap {
			return fmt.Appendf(b, " compare 0x%x swap 0x%x", h.Compare, h.SwapOrAdd)
		}
		return fmt.Appendf(b, " add 0x%x", h.SwapOrAdd)
	case *layers.AETH:
		return appendAETH(b, h)
	case *layers.AtomicAckETH:
		return fmt.Appendf(b, " original 0x%x", h.Original)
	case *layers.ImmDt:
		return fmt.Appendf(b, " imm 0x%08x", h.Value)
	case *layers.IETH:
		return fmt.Appendf(b, " invalidate 0x%08x", h.RKey)
	case *layers.SACK:
		return fmt.Appendf(b, " sack 0x%016x%016x", h.Hi, h.Lo)
	case *layers.CreditGrant:
		if h.Version == rocev2.CreditVersion {
			b = fmt.Appendf(appendCredit(b, h.CreditFields), " life %s", time.Duration(h.LifeNs))
		}
	case *layers.CreditReturn:
		if h.Version == rocev2.CreditVersion {
			b = fmt.Appendf(appendCredit(b, h.CreditFields), " sent %d void %d", h.Sent, h.Void)
		}
	case *layers.RateLimit:
		if h.Version == rocev2.RateLimitVersion {
			b = fmt.Appendf(b, " epoch %d rate %d bit/s life %s", h.Epoch, h.RateBps, time.Duration(h.LifeNs))
		}
	case *layers.Hello:
		return appendHello(b, h, p)
	}
	return appendOOO(b, l)
}

func appendAETH(b []byte, h *layers.AETH) []byte {
	s := h.Syndrome
	b = fmt.Appendf(b, " %s", s)
	switch s.Type() {
	case rocev2.AckPositive:
		if n, ok := s.Credits(); ok {
			b = fmt.Appendf(b, " credits %d", n)
		}
	case rocev2.AckRNR:
		b = fmt.Appendf(b, " wait %s", rocev2.RNRTime(s.Value()))
	}
	return fmt.Appendf(b, " syndrome 0x%02x msn %d", uint8(s), h.MSN)
}

func appendHello(b []byte, h *layers.Hello, p *rocev2.Packet) []byte {
	err := h.Err
	if p.PayloadLen() != 0 || p.BTH().PadCount() != 0 {
		err = rocev2.ErrHelloLength
	}
	if err != nil {
		return fmt.Appendf(b, " (%s)", text(err.(rocev2.Error)))
	}
	b = fmt.Appendf(b, " node %d caps 0x%x link %d Mbit/s nonce 0x%016x", h.Node, h.Caps, h.LinkMbps, h.Nonce)
	if h.Token != 0 {
		b = fmt.Appendf(b, " token 0x%016x", h.Token)
	}
	return b
}

// oethFlags are the flags of an OETH, from bit 0 on.
var oethFlags = [...]string{" first", " last", " retry", " solicited-notify"}

// appendOOO prints the header of a packet of out-of-order mode.
func appendOOO(b []byte, l gopacket.Layer) []byte {
	switch h := l.(type) {
	case *layers.OETH:
		if h.Version != rocev2.OETHVersion {
			return append(b, " (OETH of another version)"...)
		}
		b = fmt.Appendf(b, " message %d index %d", h.Message, h.Index)
		for i, name := range oethFlags {
			if h.Flags>>i&1 != 0 {
				b = append(b, name...)
			}
		}
		b = fmt.Appendf(b, " va 0x%x rkey 0x%08x len %d", h.VA, h.RKey, h.Length)
	case *layers.OACK:
		b = fmt.Appendf(b, " message %d cumulative %d base %d bitmap 0x%016x window %d out-of-order %d echo %d us",
			h.Message, h.Cumulative, h.Base, h.Bitmap, h.Window, h.OutOfOrder, h.EchoUs)
	case *layers.ONotify:
		b = fmt.Appendf(b, " message %d queue %d descriptor 0x%016x len %d status 0x%x", h.Message, h.Queue, h.Descriptor, h.Length, h.Status)
	case *layers.ONotifyAck:
		b = fmt.Appendf(b, " message %d echo %d us", h.Message, h.EchoUs)
	case *layers.ONak:
		b = fmt.Appendf(b, " message %d %s", h.Message, h.Code)
	}
	return b
}

func appendCredit(b []byte, f rocev2.CreditFields) []byte {
	return fmt.Appendf(b, " epoch %d seq %d limit %d flags 0x%04x", f.Epoch, f.Seq, f.Limit, f.Flags)
}

// appendStamp prints only what the stamp's flags call valid.
func appendStamp(b []byte, s *rocev2.Stamp) []byte {
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
