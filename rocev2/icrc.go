// SPDX-License-Identifier: Apache-2.0

package rocev2

import (
	"encoding/binary"
	"hash/crc32"
)

// ICRCLen is the size of the invariant CRC in bytes.
const ICRCLen = 4

// icrcSeed is the CRC register after the eight bytes 0xFF that stand for the
// masked LRH and GRH of InfiniBand, starting from all ones.
const icrcSeed = 0xDEBB20E3

// icrc computes the invariant CRC of the datagram whose IP header of ipLen bytes
// starts at ip[0] and whose UDP length is udpLen (annex A17). ip must reach at least
// to the ICRC and udpLen must leave room for a BTH.
//
// What routers and switches change is replaced by ones: IPv4 TOS, TTL and header
// checksum; IPv6 traffic class, flow label and hop limit; the UDP checksum; byte 4
// of the BTH. The length in the IP header is covered. A surplus area is not, and
// the length counts as if there were none: the receiver strips the stamp option
// before anything checks the ICRC.
func icrc(ip []byte, ipLen, udpLen int) uint32 {
	var head [60 + udpHeaderLen + bthHead]byte
	n := copy(head[:ipLen+udpHeaderLen+bthHead], ip)
	maskHead(head[:n], ipLen, udpLen)

	// crc32.Update would force the head to the heap. The rest is the packet's own
	// bytes.
	return crc32.Update(^icrcHead(head[:n]), crc32.IEEETable, ip[n:ipLen+udpLen-ICRCLen])
}

// bthHead is how many bytes of the BTH are in the head that maskHead changes.
const bthHead = 8

// maskHead replaces the fields of b that the ICRC does not cover. b starts with the IP header.
func maskHead(b []byte, ipLen, udpLen int) {
	if b[0]>>4 == 6 {
		b[0] |= 0x0F
		b[1], b[2], b[3] = 0xFF, 0xFF, 0xFF
		binary.BigEndian.PutUint16(b[4:6], uint16(udpLen))
		b[7] = 0xFF
	} else {
		b[1] = 0xFF
		binary.BigEndian.PutUint16(b[2:4], uint16(ipLen+udpLen))
		b[8] = 0xFF
		b[10], b[11] = 0xFF, 0xFF
	}
	udp := b[ipLen:]
	udp[6], udp[7] = 0xFF, 0xFF
	udp[udpHeaderLen+4] = 0xFF
}

// icrcInPlace is icrc for a buffer that belongs to the caller alone. The head is masked where it
// is, and restored: one pass over the packet takes less time than the head by table and the rest
// by crc32.
func icrcInPlace(ip []byte, ipLen, udpLen int) uint32 {
	const masked = 12 // bytes of an IP header that maskHead changes some of
	udp := ip[ipLen : ipLen+udpHeaderLen+bthHead]
	head, checksum, reserved := [masked]byte(ip), [2]byte(udp[6:8]), udp[udpHeaderLen+4]
	maskHead(ip, ipLen, udpLen)
	crc := uint32(icrcSeed)
	crc = crc32.Update(^crc, crc32.IEEETable, ip[:ipLen+udpLen-ICRCLen])
	*(*[masked]byte)(ip), *(*[2]byte)(udp[6:8]), udp[udpHeaderLen+4] = head, checksum, reserved
	return crc
}

// icrcHead returns the CRC register after the seed and b, whose length is a multiple
// of 4: both IP headers are, and what follows is 16 bytes.
func icrcHead(b []byte) uint32 {
	reg := uint32(icrcSeed)
	for ; len(b) >= 4; b = b[4:] {
		reg ^= binary.LittleEndian.Uint32(b)
		reg = by4[3][byte(reg)] ^ by4[2][byte(reg>>8)] ^ by4[1][byte(reg>>16)] ^ by4[0][byte(reg>>24)]
	}
	return reg
}

// by4 advances the register by four bytes at once (Kounavis and Berry, 2005): by4[i]
// is what a byte does that i zero bytes follow.
var by4 = func() (t [4][256]uint32) {
	t[0] = *crc32.IEEETable
	for i := range 3 {
		for c := range 256 {
			v := t[i][c]
			t[i+1][c] = crc32.IEEETable[byte(v)] ^ v>>8
		}
	}
	return t
}()

// ComputeICRC returns what the packet's ICRC should be. The ICRC field itself and
// everything behind it may be missing from the buffer; ErrNoICRC if more is.
func (p *Packet) ComputeICRC() (uint32, error) {
	if int(p.icrc) > len(p.b) {
		return 0, ErrNoICRC
	}
	return icrc(p.b[p.ip:], int(p.udp-p.ip), int(p.surplus-p.udp)), nil
}

// VerifyICRC returns nil, ErrICRC, or ErrNoICRC if the capture ends before it.
func (p *Packet) VerifyICRC() error {
	if int(p.surplus) > len(p.b) {
		return ErrNoICRC
	}
	want, err := p.ComputeICRC()
	if err == nil && want != p.ICRC() {
		err = ErrICRC
	}
	return err
}

// VerifyICRCInPlace is VerifyICRC for a packet in a buffer that belongs to the caller alone. It
// changes bytes of the headers meanwhile, and takes less time.
func (p *Packet) VerifyICRCInPlace() error {
	if int(p.surplus) > len(p.b) {
		return ErrNoICRC
	}
	if icrcInPlace(p.b[p.ip:], int(p.udp-p.ip), int(p.surplus-p.udp)) != p.ICRC() {
		return ErrICRC
	}
	return nil
}

// PutICRC computes and writes the ICRC, or returns ErrNoICRC.
func (p *Packet) PutICRC() error {
	if int(p.surplus) > len(p.b) {
		return ErrNoICRC
	}
	v, err := p.ComputeICRC()
	if err == nil {
		binary.LittleEndian.PutUint32(p.b[p.icrc:], v)
	}
	return err
}

// ICRC reads the field, which is little-endian unlike all others. It is 0 if the
// capture ends before it.
func (p *Packet) ICRC() uint32 {
	if int(p.surplus) > len(p.b) {
		return 0
	}
	return binary.LittleEndian.Uint32(p.b[p.icrc:])
}
