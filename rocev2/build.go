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

	Credit     CreditFields // CREDIT_GRANT, CREDIT_RETURN
	LifeNs     uint64       // CREDIT_GRANT
	Sent, Void uint32       // CREDIT_RETURN

	RateLimit RateLimitFields // RATE_LIMIT

	OOO *OOOFields // OWRITE .. ONAK; nil: zeros

	Payload []byte // padded to a multiple of 4
	Sealed  bool   // payload is allowed with every opcode: packets of package seal
	Stamp   *Stamp // appended if not nil
}

// AppendTo appends the IP datagram to b and returns the longer slice; it allocates
// only if the capacity of b is too small.
//
// Errors: ErrOpcode, ErrFamily, ErrPayload, ErrTooBig, ErrFieldMax; b is returned
// unchanged then.
func (d *Datagram) AppendTo(b []byte) ([]byte, error) {
	l, err := d.layout(len(d.Payload))
	if err != nil {
		return b, err
	}
	start := len(b)
	b = grow(b, l.total)
	copy(d.begin(b[start:], l), d.Payload)
	d.Seal(b[start:])
	return b, nil
}

// Len is the length of the datagram with n bytes of payload, without the stamp.
func (d *Datagram) Len(n int) int {
	ip := ipv4MinLen
	if !d.is4() {
		ip = ipv6Len
	}
	return ip + MinUDPLen + int(d.Opcode.Info().ExtLen) + n + -n&3
}

// Begin writes to b the headers of the datagram with n bytes of payload, and
// returns the payload's place. The caller fills it and calls Seal; what is in
// d.Payload does not matter. So data is copied once, from where it lies into the
// frame.
//
// Errors: those of AppendTo, and ErrTooBig if b cannot hold the datagram. Nothing
// was written then.
func (d *Datagram) Begin(b []byte, n int) (payload []byte, err error) {
	l, err := d.layout(n)
	if err == nil && l.total > len(b) {
		err = ErrTooBig
	}
	if err != nil {
		return nil, err
	}
	return d.begin(b, l), nil
}

// Seal completes the datagram that Begin started in b with pad, ICRC and stamp,
// and returns its length. The stamp may have changed meanwhile, but not whether
// there is one.
func (d *Datagram) Seal(b []byte) int { return d.seal(b, true) }

// SealLocal is Seal for a datagram that stays in the memory of its sender, where nothing can change it: its
// ICRC is 0, and VerifyICRC does not accept it.
func (d *Datagram) SealLocal(b []byte) int { return d.seal(b, false) }

func (d *Datagram) seal(b []byte, checked bool) int {
	ipLen := ipv4MinLen
	if b[0]>>4 == 6 {
		ipLen = ipv6Len
	}
	udpLen := int(binary.BigEndian.Uint16(b[ipLen+4:]))
	end := ipLen + udpLen
	bth := BTH(b[ipLen+udpHeaderLen:])
	clear(b[end-ICRCLen-bth.PadCount() : end-ICRCLen])
	crc := uint32(0)
	if checked {
		crc = icrcInPlace(b, ipLen, udpLen)
	}
	binary.LittleEndian.PutUint32(b[end-ICRCLen:], crc)
	if d.Stamp != nil {
		d.Stamp.Put(b[end:])
		end += StampLen
	}
	return end
}

// layout is where the parts of a datagram lie.
type layout struct {
	info         *OpcodeInfo
	ip, udp      int // lengths: of the IP header, and of UDP header to ICRC
	payload, pad int
	total        int
}

// layout checks what can be wrong with a datagram of n bytes of payload.
func (d *Datagram) layout(n int) (l layout, err error) {
	l = layout{info: d.Opcode.Info(), ip: ipv4MinLen, payload: n}
	v4 := d.is4()
	if !v4 {
		l.ip = ipv6Len
	}
	switch {
	case l.info.Class == ClassUnknown:
		return l, ErrOpcode
	case !d.Src.IsValid() || !d.Dst.IsValid() || v4 != d.Dst.Unmap().Is4():
		return l, ErrFamily
	case n != 0 && !l.info.Payload && !d.Sealed:
		return l, ErrPayload
	case d.DestQP|d.SrcQP|uint32(d.PSN)|d.MSN > PSNMask:
		return l, ErrFieldMax
	case n > 0xFFFF:
		return l, ErrTooBig
	}
	if d.Opcode == CNP && n == 0 {
		l.payload = CNPBodyLen
	}
	l.pad = -l.payload & 3
	l.udp = MinUDPLen + int(l.info.ExtLen) + l.payload + l.pad
	l.total = l.ip + l.udp
	if d.Stamp != nil {
		l.total += StampLen
	}
	if l.total > 0xFFFF {
		return l, ErrTooBig
	}
	return l, nil
}

// begin writes the headers and returns the payload's place.
func (d *Datagram) begin(p []byte, l layout) []byte {
	headers := l.ip + udpHeaderLen + BTHLen + int(l.info.ExtLen)
	clear(p[:headers])
	d.putIP(p, l.total)
	udp := p[l.ip:]
	binary.BigEndian.PutUint16(udp[0:2], d.srcPort())
	binary.BigEndian.PutUint16(udp[2:4], UDPPort)
	binary.BigEndian.PutUint16(udp[4:6], uint16(l.udp))
	d.putBTH(BTH(udp[udpHeaderLen:udpHeaderLen+BTHLen]), l.pad)
	d.putExt(l.info, udp[udpHeaderLen+BTHLen:])
	end := headers + l.payload
	if d.Opcode == CNP {
		clear(p[headers:end])
	}
	return p[headers:end:end]
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
	// The sum is formed from the fields. To read back the bytes just written would wait until
	// they are in the cache (store forwarding fails for wider loads).
	sum := uint32(0x4500) + uint32(d.TOS) + uint32(uint16(total)) + uint32(d.IPID) + dontFragment + uint32(ttl)<<8 + protoUDP +
		uint32(binary.BigEndian.Uint16(src[:])) + uint32(binary.BigEndian.Uint16(src[2:])) +
		uint32(binary.BigEndian.Uint16(dst[:])) + uint32(binary.BigEndian.Uint16(dst[2:]))
	binary.BigEndian.PutUint16(p[10:12], ^uint16(onesSum(sum, nil)))
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
	if h := CreditGrant(info.view(ExtGrant, body)); h != nil {
		h.Set(d.Credit, d.LifeNs)
	}
	if h := CreditReturn(info.view(ExtReturn, body)); h != nil {
		h.Set(d.Credit, d.Sent, d.Void)
	}
	if h := RateLimit(info.view(ExtRateLimit, body)); h != nil {
		h.Set(d.RateLimit)
	}
	if d.OOO != nil {
		d.OOO.put(info, body)
	}
}

// OOOFields are the fields of the headers of out-of-order mode (S3). They are behind a
// pointer because other packets have none of them.
type OOOFields struct {
	OETH      OETHFields       // OWRITE, OREAD_REQ, OREAD_RESP
	OACK      OACKFields       // OACK
	Notify    ONotifyFields    // ONOTIFY
	NotifyAck ONotifyAckFields // ONOTIFY_ACK
	Nak       ONakFields       // ONAK
}

func (f *OOOFields) put(info *OpcodeInfo, body []byte) {
	if h := OETH(info.view(ExtOETH, body)); h != nil {
		h.Set(f.OETH)
	}
	if h := OACK(info.view(ExtOACK, body)); h != nil {
		h.Set(f.OACK)
	}
	if h := ONotify(info.view(ExtONotify, body)); h != nil {
		h.Set(f.Notify)
	}
	if h := ONotifyAck(info.view(ExtONotifyAck, body)); h != nil {
		h.Set(f.NotifyAck)
	}
	if h := ONak(info.view(ExtONak, body)); h != nil {
		h.Set(f.Nak)
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
