// SPDX-License-Identifier: Apache-2.0

package rocev2

import (
	"encoding/binary"
	"net/netip"
)

const (
	ethernetLen  = 14
	vlanLen      = 4
	ipv4MinLen   = 20
	ipv6Len      = 40
	udpHeaderLen = 8
	protoUDP     = 17

	etherIPv4 = 0x0800
	etherIPv6 = 0x86DD
	etherVLAN = 0x8100
	etherQinQ = 0x88A8
)

// MinUDPLen is the smallest UDP length of a RoCEv2 packet: UDP header, BTH, ICRC.
const MinUDPLen = udpHeaderLen + BTHLen + ICRCLen

// Packet is the view of one RoCEv2 packet:
//
//	Ethernet, 0-2 VLAN tags | IPv4 or IPv6 | UDP | BTH | extended headers |
//	payload | pad | ICRC | surplus area | Ethernet padding
//
// The first part is missing after ParseIP. All lengths come from the IP and UDP
// headers, never from the frame, so Ethernet padding is harmless. A Packet refers
// to the buffer; it stays valid while the buffer is unchanged. The zero Packet has
// no headers and its methods must not be called.
type Packet struct {
	b []byte

	// Offsets into b. Those from payload on may lie beyond its end in a truncated
	// capture.
	ip, udp, bth  uint32
	payload, pad  uint32
	icrc, surplus uint32
	end           uint32 // end of the IP datagram
	v6            bool
}

// ParseFrame finds the headers of an Ethernet frame.
//
// The error is an Error. After ErrTruncated (a capture with a short snap length)
// the Packet is usable: all headers are there, Payload returns what was captured
// and VerifyICRC may return ErrNoICRC. After any other error it is not.
func ParseFrame(b []byte) (Packet, error) {
	if len(b) < ethernetLen {
		return Packet{}, ErrShort
	}
	off := ethernetLen
	typ := binary.BigEndian.Uint16(b[12:14])
	for range 2 {
		if typ != etherVLAN && typ != etherQinQ {
			break
		}
		if len(b) < off+vlanLen {
			return Packet{}, ErrShort
		}
		typ = binary.BigEndian.Uint16(b[off+2:])
		off += vlanLen
	}
	switch typ {
	case etherIPv4, etherIPv6:
	default:
		return Packet{}, ErrNotIP
	}
	if len(b) > off && (b[off]>>4 == 6) != (typ == etherIPv6) {
		return Packet{}, ErrNotIP
	}
	var p Packet
	err := p.parseIP(b, off)
	return p, err
}

// ParseIP finds the headers of an IP datagram; b may be longer than it. Errors
// are those of ParseFrame.
func ParseIP(b []byte) (Packet, error) {
	var p Packet
	err := p.parseIP(b, 0)
	return p, err
}

func (p *Packet) parseIP(b []byte, off int) error {
	if len(b) <= off {
		return ErrShort
	}
	switch b[off] >> 4 {
	case 4:
		return p.parseIPv4(b, off)
	case 6:
		return p.parseIPv6(b, off)
	}
	return ErrNotIP
}

func (p *Packet) parseIPv4(b []byte, off int) error {
	h := b[off:]
	if len(h) < ipv4MinLen {
		return ErrShort
	}
	hdrLen := int(h[0]&0x0F) * 4
	total := int(binary.BigEndian.Uint16(h[2:4]))
	if hdrLen < ipv4MinLen || total < hdrLen {
		return ErrIPHeader
	}
	if h[9] != protoUDP {
		return ErrNotUDP
	}
	const moreFragments, offsetMask = 0x2000, 0x1FFF
	if binary.BigEndian.Uint16(h[6:8])&(moreFragments|offsetMask) != 0 {
		return ErrFragment
	}
	return p.parseUDP(b, off, off+hdrLen, off+total)
}

func (p *Packet) parseIPv6(b []byte, off int) error {
	h := b[off:]
	if len(h) < ipv6Len {
		return ErrShort
	}
	const nextFragment = 44
	switch h[6] {
	case protoUDP:
	case nextFragment:
		return ErrFragment
	default:
		return ErrNotUDP
	}
	payload := int(binary.BigEndian.Uint16(h[4:6]))
	p.v6 = true
	return p.parseUDP(b, off, off+ipv6Len, off+ipv6Len+payload)
}

func (p *Packet) parseUDP(b []byte, ip, udp, end int) error {
	if len(b) < udp+udpHeaderLen {
		return ErrShort
	}
	if binary.BigEndian.Uint16(b[udp+2:]) != UDPPort {
		return ErrNotRoCE
	}
	udpLen := int(binary.BigEndian.Uint16(b[udp+4:]))
	if udpLen < MinUDPLen || udp+udpLen > end {
		return ErrUDPLength
	}
	bth := udp + udpHeaderLen
	if len(b) < bth+BTHLen {
		return ErrShortBTH
	}
	h := BTH(b[bth : bth+BTHLen])
	payload := bth + BTHLen + int(h.Opcode().Info().ExtLen)
	icrc := udp + udpLen - ICRCLen
	pad := icrc - h.PadCount()
	if payload > pad {
		return ErrBodyLength
	}
	if len(b) < payload {
		return ErrShortBTH
	}
	p.b = b
	p.ip, p.udp, p.bth = uint32(ip), uint32(udp), uint32(bth)
	p.payload, p.pad, p.icrc = uint32(payload), uint32(pad), uint32(icrc)
	p.surplus, p.end = uint32(udp+udpLen), uint32(end)
	if len(b) < end {
		return ErrTruncated
	}
	return nil
}

// Frame is the buffer that was parsed.
func (p *Packet) Frame() []byte { return p.b }

// LinkHeader is what stands before the IP header: Ethernet and VLAN tags, or
// nothing after ParseIP.
func (p *Packet) LinkHeader() []byte { return p.b[:p.ip:p.ip] }

// VLANs returns the tag control information of the VLAN tags, outer first, and
// their number 0..2.
func (p *Packet) VLANs() (outer, inner uint16, n int) {
	if p.ip >= ethernetLen+vlanLen {
		outer = binary.BigEndian.Uint16(p.b[ethernetLen:])
		n++
	}
	if p.ip >= ethernetLen+2*vlanLen {
		inner = binary.BigEndian.Uint16(p.b[ethernetLen+vlanLen:])
		n++
	}
	return outer, inner, n
}

// Datagram is the IP datagram with its surplus area, without Ethernet padding.
func (p *Packet) Datagram() []byte { return p.slice(p.ip, p.end) }

// IsIPv6 tells the IP version.
func (p *Packet) IsIPv6() bool { return p.v6 }

// IPHeader is the IP header with the options of IPv4.
func (p *Packet) IPHeader() []byte { return p.b[p.ip:p.udp:p.udp] }

// IPLen is the length of the datagram as its IP header says, in bytes with the
// header and the surplus area.
func (p *Packet) IPLen() int { return int(p.end - p.ip) }

// Src is the source address.
func (p *Packet) Src() netip.Addr {
	if p.v6 {
		return netip.AddrFrom16([16]byte(p.b[p.ip+8 : p.ip+24]))
	}
	return netip.AddrFrom4([4]byte(p.b[p.ip+12 : p.ip+16]))
}

// Dst is the destination address.
func (p *Packet) Dst() netip.Addr {
	if p.v6 {
		return netip.AddrFrom16([16]byte(p.b[p.ip+24 : p.ip+40]))
	}
	return netip.AddrFrom4([4]byte(p.b[p.ip+16 : p.ip+20]))
}

// TOS is the IPv4 type of service or IPv6 traffic class: DSCP and ECN.
func (p *Packet) TOS() uint8 {
	if p.v6 {
		return uint8(binary.BigEndian.Uint16(p.b[p.ip:]) >> 4)
	}
	return p.b[p.ip+1]
}

// CE reports congestion experienced: both ECN bits set.
func (p *Packet) CE() bool { return p.TOS()&3 == 3 }

// SrcPort is the UDP source port. Never judge it.
func (p *Packet) SrcPort() uint16 { return binary.BigEndian.Uint16(p.b[p.udp:]) }

// UDPLen is the UDP length: header, BTH to ICRC.
func (p *Packet) UDPLen() int { return int(p.surplus - p.udp) }

// UDPChecksum is the field as it stands; RoCEv2 senders leave it zero.
func (p *Packet) UDPChecksum() uint16 { return binary.BigEndian.Uint16(p.b[p.udp+6:]) }

// BTH is the base transport header.
func (p *Packet) BTH() BTH { return BTH(p.b[p.bth : p.bth+BTHLen : p.bth+BTHLen]) }

// Opcode is that of the BTH.
func (p *Packet) Opcode() Opcode { return Opcode(p.b[p.bth]) }

// ext returns one extended header, or nil if the opcode has none such.
func (p *Packet) ext(e Ext) []byte { return p.Opcode().Info().view(e, p.b[p.bth+BTHLen:]) }

// FETH is the flush header or nil.
func (p *Packet) FETH() FETH { return p.ext(ExtFETH) }

// DETH is the datagram header or nil.
func (p *Packet) DETH() DETH { return p.ext(ExtDETH) }

// RETH is the RDMA header or nil.
func (p *Packet) RETH() RETH { return p.ext(ExtRETH) }

// AtomicETH is the atomic header or nil.
func (p *Packet) AtomicETH() AtomicETH { return p.ext(ExtAtomicETH) }

// AETH is the acknowledge header or nil.
func (p *Packet) AETH() AETH { return p.ext(ExtAETH) }

// AtomicAckETH is the atomic acknowledge header or nil.
func (p *Packet) AtomicAckETH() AtomicAckETH { return p.ext(ExtAtomicAckETH) }

// ImmDt is the immediate data or nil.
func (p *Packet) ImmDt() ImmDt { return p.ext(ExtImmDt) }

// IETH is the invalidate header or nil.
func (p *Packet) IETH() IETH { return p.ext(ExtIETH) }

// SACK is the bitmap of our SACK packet or nil.
func (p *Packet) SACK() SACK { return p.ext(ExtSACK) }

// CreditGrant is the body of CREDIT_GRANT, nil if this is none or of another version.
func (p *Packet) CreditGrant() CreditGrant {
	h := CreditGrant(p.ext(ExtGrant))
	if h == nil || h.Version() != CreditVersion {
		return nil
	}
	return h
}

// CreditReturn is the body of CREDIT_RETURN, nil if this is none or of another version.
func (p *Packet) CreditReturn() CreditReturn {
	h := CreditReturn(p.ext(ExtReturn))
	if h == nil || h.Version() != CreditVersion {
		return nil
	}
	return h
}

// RateLimit is the body of RATE_LIMIT, nil if this is none or of another version.
func (p *Packet) RateLimit() RateLimit {
	h := RateLimit(p.ext(ExtRateLimit))
	if h == nil || h.Version() != RateLimitVersion {
		return nil
	}
	return h
}

// OETH is the header of OWRITE, OREAD_REQ and OREAD_RESP, nil if this is none or of another
// version.
func (p *Packet) OETH() OETH {
	h := OETH(p.ext(ExtOETH))
	if h == nil || h.Version() != OETHVersion {
		return nil
	}
	return h
}

// OACK is the body of OACK or nil.
func (p *Packet) OACK() OACK { return p.ext(ExtOACK) }

// ONotify is the body of ONOTIFY or nil.
func (p *Packet) ONotify() ONotify { return p.ext(ExtONotify) }

// ONotifyAck is the body of ONOTIFY_ACK or nil.
func (p *Packet) ONotifyAck() ONotifyAck { return p.ext(ExtONotifyAck) }

// ONak is the body of ONAK or nil.
func (p *Packet) ONak() ONak { return p.ext(ExtONak) }

// Hello is the body of HELLO and HELLO_ACK, checked; ErrNotHello for others.
func (p *Packet) Hello() (Hello, error) {
	b := p.ext(ExtHello)
	if b == nil {
		return Hello{}, ErrNotHello
	}
	if p.PayloadLen() != 0 || p.BTH().PadCount() != 0 {
		return Hello{}, ErrHelloLength
	}
	return ParseHello(b)
}

// Payload is what stands between the headers and the pad; in a truncated capture
// as much of it as there is.
func (p *Packet) Payload() []byte { return p.slice(p.payload, p.pad) }

// PayloadLen is the length of the payload in bytes, even if it was not captured.
func (p *Packet) PayloadLen() int { return int(p.pad - p.payload) }

// Body is what stands between the UDP header and the pad: BTH, extended headers and
// payload; in a truncated capture as much of it as there is.
func (p *Packet) Body() []byte { return p.slice(p.bth, p.pad) }

// Pad is what stands between the payload and the ICRC, 0 to 3 bytes.
func (p *Packet) Pad() []byte { return p.slice(p.pad, p.icrc) }

// CutPayload removes bytes from both ends of the payload of this view, in the way in which
// an opened packet of package seal is cut. The packet itself stays as it is, and the ICRC is
// still found; Body and Pad are no longer valid. A payload of fewer bytes becomes empty. A copy
// of the view is made by Copy.
func (p *Packet) CutPayload(front, back int) {
	p.payload = min(p.payload+uint32(front), p.pad)
	p.pad -= min(uint32(back), p.pad-p.payload)
}

// Copy appends the IP datagram to b, and returns a view of the copy with the payload of this
// view, cut or not. Parsing the copy again would find the whole payload.
func (p *Packet) Copy(b []byte) Packet {
	c := *p
	start := uint32(len(b))
	c.b = append(b, p.Datagram()...)
	for _, off := range []*uint32{&c.ip, &c.udp, &c.bth, &c.payload, &c.pad, &c.icrc, &c.surplus, &c.end} {
		*off += start - p.ip
	}
	return c
}

// Surplus is the surplus area of RFC 9868: what the IP datagram holds beyond the
// UDP length.
func (p *Packet) Surplus() []byte { return p.slice(p.surplus, p.end) }

// Stamp decodes the stamp option; see DecodeStamp for the errors.
func (p *Packet) Stamp() (Stamp, error) {
	return DecodeStamp(p.Surplus(), p.UDPChecksum())
}

func (p *Packet) slice(from, to uint32) []byte {
	n := uint32(len(p.b))
	from, to = min(from, n), min(to, n)
	return p.b[from:to:to]
}
