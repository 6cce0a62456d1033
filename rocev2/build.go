// SPDX-License-Identifier: Apache-2.0

package rocev2

import (
	"encoding/binary"
	"net/netip"
)

// DefaultTTL is the hop limit that rxe sends, and we.
const DefaultTTL = 64

// CNPTOS is the type of service of a CNP: DSCP 48, no ECN.
const CNPTOS = 48 << 2

// Datagram describes one RoCEv2 packet to build: IP header without options to
// ICRC, and perhaps a stamp. Fields that the opcode has no header for are ignored.
// The zero values of TTL, SrcPort and PKey stand for 64, SourcePort(FlowLabel(SrcQP,
// DestQP)) and 0xFFFF. IPv4 packets are sent with DF, and with a zero UDP checksum
// like all RoCEv2. v4-mapped addresses (::ffff:a.b.c.d) mean IPv4.
type Datagram struct {
	Src, Dst  netip.Addr
	TOS       uint8
	TTL       uint8
	IPID      uint16 // IPv4 identification
	FlowLabel uint32 // IPv6 flow label, 20 bits
	SrcPort   uint16

	Opcode    Opcode
	Solicited bool
	MigReq    bool
	BECN      bool
	AckReq    bool
	PKey      uint16
	DestQP    uint32
	PSN       PSN

	QKey, SrcQP      uint32   // DETH
	VA               uint64   // RETH, AtomicETH
	RKey             uint32   // RETH, AtomicETH, IETH
	DMALen           uint32   // RETH
	SwapAdd          uint64   // AtomicETH
	Compare          uint64   // AtomicETH
	Syndrome         Syndrome // AETH
	MSN              uint32   // AETH
	Original         uint64   // AtomicAckETH
	Imm              uint32   // ImmDt
	SACKHi, SACKLo   uint64   // SACK
	FlushPlacement   uint8    // FETH
	FlushSelectivity uint8    // FETH
	Hello            Hello    // HELLO, HELLO_ACK

	Payload []byte // padded to a multiple of 4
	Stamp   *Stamp // appended if not nil
}

// AppendTo appends the IP datagram to b and returns the longer slice; it allocates
// only if the capacity of b is too small.
//
// Errors: ErrOpcode, ErrFamily, ErrPayload, ErrTooBig, ErrFieldMax; b is returned
// unchanged then.
func (d *Datagram) AppendTo(b []byte) ([]byte, error) {
	info := d.Opcode.Info()
	ipLen := ipv4MinLen
	if !d.is4() {
		ipLen = ipv6Len
	}
	switch {
	case info.Class == ClassUnknown:
		return b, ErrOpcode
	case !d.Src.IsValid() || !d.Dst.IsValid() || d.is4() != d.Dst.Unmap().Is4():
		return b, ErrFamily
	case len(d.Payload) != 0 && !info.Payload:
		return b, ErrPayload
	case d.DestQP|d.SrcQP|uint32(d.PSN)|d.MSN > PSNMask:
		return b, ErrFieldMax
	}
	payload := len(d.Payload)
	if d.Opcode == CNP && payload == 0 {
		payload = CNPBodyLen
	}
	pad := -payload & 3
	if payload > 0xFFFF {
		return b, ErrTooBig
	}
	udpLen := MinUDPLen + int(info.ExtLen) + payload + pad
	total := ipLen + udpLen
	if d.Stamp != nil {
		total += StampLen
	}
	if total > 0xFFFF {
		return b, ErrTooBig
	}
	start := len(b)
	b = grow(b, total)
	p := b[start:]

	d.putIP(p, total)
	udp := p[ipLen:]
	binary.BigEndian.PutUint16(udp[0:2], d.srcPort())
	binary.BigEndian.PutUint16(udp[2:4], UDPPort)
	binary.BigEndian.PutUint16(udp[4:6], uint16(udpLen))
	d.putBTH(BTH(udp[udpHeaderLen:udpHeaderLen+BTHLen]), pad)
	body := udp[udpHeaderLen+BTHLen:]
	d.putExt(info, body)
	copy(body[info.ExtLen:], d.Payload)
	binary.LittleEndian.PutUint32(udp[udpLen-ICRCLen:], icrc(p, ipLen, udpLen))
	if d.Stamp != nil {
		d.Stamp.Put(udp[udpLen:])
	}
	return b, nil
}

func (d *Datagram) is4() bool { return d.Src.Unmap().Is4() }

func (d *Datagram) srcPort() uint16 {
	if d.SrcPort != 0 {
		return d.SrcPort
	}
	return SourcePort(FlowLabel(d.SrcQP, d.DestQP))
}

func (d *Datagram) putIP(p []byte, total int) {
	ttl := d.TTL
	if ttl == 0 {
		ttl = DefaultTTL
	}
	if !d.is4() {
		binary.BigEndian.PutUint32(p[0:4], 6<<28|uint32(d.TOS)<<20|d.FlowLabel&0xFFFFF)
		binary.BigEndian.PutUint16(p[4:6], uint16(total-ipv6Len))
		p[6], p[7] = protoUDP, ttl
		src, dst := d.Src.As16(), d.Dst.As16()
		copy(p[8:24], src[:])
		copy(p[24:40], dst[:])
		return
	}
	const dontFragment = 0x4000
	p[0], p[1] = 0x45, d.TOS
	binary.BigEndian.PutUint16(p[2:4], uint16(total))
	binary.BigEndian.PutUint16(p[4:6], d.IPID)
	binary.BigEndian.PutUint16(p[6:8], dontFragment)
	p[8], p[9] = ttl, protoUDP
	src, dst := d.Src.Unmap().As4(), d.Dst.Unmap().As4()
	copy(p[12:16], src[:])
	copy(p[16:20], dst[:])
	putIPv4Checksum(p[:ipv4MinLen])
}

func (d *Datagram) putBTH(h BTH, pad int) {
	h.SetOpcode(d.Opcode)
	h.SetSolicited(d.Solicited)
	h.SetMigReq(d.MigReq)
	h.SetPadCount(pad)
	h.SetPKey(d.PKey)
	if d.PKey == 0 {
		h.SetPKey(DefaultPKey)
	}
	h.SetBECN(d.BECN || d.Opcode == CNP)
	h.SetDestQP(d.DestQP)
	h.SetAckReq(d.AckReq)
	h.SetPSN(d.PSN)
}

func (d *Datagram) putExt(info *OpcodeInfo, body []byte) {
	if h := FETH(info.view(ExtFETH, body)); h != nil {
		h.Set(d.FlushPlacement, d.FlushSelectivity)
	}
	if h := DETH(info.view(ExtDETH, body)); h != nil {
		h.SetQKey(d.QKey)
		h.SetSrcQP(d.SrcQP)
	}
	if h := RETH(info.view(ExtRETH, body)); h != nil {
		h.SetVA(d.VA)
		h.SetRKey(d.RKey)
		h.SetDMALen(d.DMALen)
	}
	if h := AtomicETH(info.view(ExtAtomicETH, body)); h != nil {
		h.SetVA(d.VA)
		h.SetRKey(d.RKey)
		h.SetSwapOrAdd(d.SwapAdd)
		h.SetCompare(d.Compare)
	}
	if h := AETH(info.view(ExtAETH, body)); h != nil {
		h.SetSyndrome(d.Syndrome)
		h.SetMSN(d.MSN)
	}
	if h := AtomicAckETH(info.view(ExtAtomicAckETH, body)); h != nil {
		h.SetOriginal(d.Original)
	}
	if h := ImmDt(info.view(ExtImmDt, body)); h != nil {
		h.SetValue(d.Imm)
	}
	if h := IETH(info.view(ExtIETH, body)); h != nil {
		h.SetRKey(d.RKey)
	}
	if h := SACK(info.view(ExtSACK, body)); h != nil {
		h.SetBits(d.SACKHi, d.SACKLo)
	}
	if b := info.view(ExtHello, body); b != nil {
		d.Hello.Put(b)
	}
}

// grow returns b longer by n zero bytes.
func grow(b []byte, n int) []byte {
	if cap(b)-len(b) >= n {
		b = b[:len(b)+n]
		clear(b[len(b)-n:])
		return b
	}
	return append(b, make([]byte, n)...)
}
