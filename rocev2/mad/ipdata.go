// SPDX-License-Identifier: Apache-2.0

package mad

import (
	"encoding/binary"
	"net/netip"
)

// IPDataLen is the size of the IP addressing header in bytes.
const IPDataLen = 36

// IPData is the IP addressing header, with which the private data of REQ and SIDR_REQ begins if
// the service ID is that of an IP port (IBTA annex A11). The destination port is in the service
// ID. An IPv4 address stands in the last 4 of its 16 bytes, behind zeros.
//
//	0 major version(4) minor version(4)  1 IP version(4) reserved(4)  2 source port(16)
//	4 source address(128)  20 destination address(128)
type IPData struct {
	Src, Dst netip.Addr
	SrcPort  uint16
}

// ParseIPData reads the header and returns the private data behind it. Errors: ErrLength,
// ErrIPVersion. The addresses are not judged.
func ParseIPData(b []byte) (d IPData, rest []byte, err error) {
	if len(b) < IPDataLen {
		return d, nil, ErrLength
	}
	version := b[1] >> 4
	if b[0]>>4 != 0 || version != 4 && version != 6 {
		return d, nil, ErrIPVersion
	}
	d.SrcPort = binary.BigEndian.Uint16(b[2:])
	d.Src, d.Dst = netip.AddrFrom16([16]byte(b[4:20])), netip.AddrFrom16([16]byte(b[20:36]))
	if version == 4 {
		d.Src, d.Dst = netip.AddrFrom4([4]byte(b[16:20])), netip.AddrFrom4([4]byte(b[32:36]))
	}
	return d, b[IPDataLen:], nil
}

// Append appends the header to b; ErrFamily if the addresses do not fit together.
func (d IPData) Append(b []byte) ([]byte, error) {
	src, dst := d.Src.Unmap(), d.Dst.Unmap()
	if !src.IsValid() || src.Is4() != dst.Is4() || !dst.IsValid() {
		return b, ErrFamily
	}
	version := byte(6 << 4)
	if src.Is4() {
		version = 4 << 4
	}
	b = append(b, 0, version)
	b = binary.BigEndian.AppendUint16(b, d.SrcPort)
	for _, a := range []netip.Addr{src, dst} {
		if a.Is4() {
			b = append(b, make([]byte, 12)...)
		}
		b = append(b, a.AsSlice()...)
	}
	return b, nil
}
