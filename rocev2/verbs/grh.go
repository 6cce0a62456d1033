// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"fmt"
	"net/netip"
)

// SenderOf returns the address vector of the sender of a datagram: the destination of an answer. grh is the first
// GRHLen bytes of the receive, whose completion has HasGRH. Src is the address to which the datagram was sent, and
// TClass has the DSCP of the datagram without ECN. The queue pair of the sender is SrcQP of the completion (IBTA
// 11.4.2.1, annex A17.4.4.3).
func SenderOf(grh []byte) (AddressVector, error) {
	if len(grh) < GRHLen {
		return AddressVector{}, fmt.Errorf("%w: a network header of %d bytes: pass the first %d of the receive", ErrRange, len(grh), GRHLen)
	}
	const dscp = 0xfc
	switch ipv4 := grh[GRHLen-20:]; {
	case grh[0]>>4 == 6:
		return AddressVector{
			Src: netip.AddrFrom16([16]byte(grh[24:40])), Dst: netip.AddrFrom16([16]byte(grh[8:24])), TClass: (grh[0]<<4 | grh[1]>>4) & dscp,
		}, nil
	case ipv4[0]>>4 == 4:
		return AddressVector{Src: netip.AddrFrom4([4]byte(ipv4[16:20])), Dst: netip.AddrFrom4([4]byte(ipv4[12:16])), TClass: ipv4[1] & dscp}, nil
	}
	return AddressVector{}, fmt.Errorf("%w: no IPv6 header in the %d bytes, and no IPv4 header in the last 20: % x", ErrRange, GRHLen, grh[:GRHLen])
}
