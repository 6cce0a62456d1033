// SPDX-License-Identifier: Apache-2.0

package rocev2

import "encoding/binary"

// onesSum adds the 16-bit big-endian words of b to sum and folds the result into
// 16 bits (RFC 1071). An odd last byte counts as the high half of a word.
func onesSum(sum uint32, b []byte) uint32 {
	for ; len(b) >= 2; b = b[2:] {
		sum += uint32(b[0])<<8 | uint32(b[1])
	}
	if len(b) == 1 {
		sum += uint32(b[0]) << 8
	}
	for sum > 0xFFFF {
		sum = sum>>16 + sum&0xFFFF
	}
	return sum
}

// setIPLength changes the length of the datagram in its IP header: the total
// length of IPv4, the payload length of IPv6. total counts the IP header in both
// cases and must fit.
//
// The IPv4 checksum is updated incrementally (RFC 1624, equation 3), so a header
// that was damaged before stays recognisably damaged.
func setIPLength(ip []byte, total int) {
	if ip[0]>>4 == 6 {
		binary.BigEndian.PutUint16(ip[4:6], uint16(total-ipv6Len))
		return
	}
	old := binary.BigEndian.Uint16(ip[2:4])
	check := binary.BigEndian.Uint16(ip[10:12])
	sum := uint32(^check) + uint32(^old) + uint32(total)
	sum = sum>>16 + sum&0xFFFF
	sum = sum>>16 + sum&0xFFFF
	binary.BigEndian.PutUint16(ip[2:4], uint16(total))
	binary.BigEndian.PutUint16(ip[10:12], ^uint16(sum))
}
