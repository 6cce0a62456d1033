// SPDX-License-Identifier: Apache-2.0

package mad

import "fmt"

// ServiceID names what a REQ or SIDR_REQ asks for (IBTA 12.7.3).
type ServiceID uint64

// PortSpace is a space of ports of the RDMA IP CM service (IBTA annex A11): 0x01 and the number
// of an IP protocol.
type PortSpace uint16

// The port spaces of librdmacm.
const (
	PortTCP PortSpace = 0x0106 // connections
	PortUDP PortSpace = 0x0111 // datagrams
	PortIB  PortSpace = 0x013F // both
)

// IPServiceID is the service ID of a port.
func IPServiceID(s PortSpace, port uint16) ServiceID { return ServiceID(s)<<16 | ServiceID(port) }

// IP returns port space and port of the RDMA IP CM service; ok is false for other service IDs,
// whose messages carry no IP addressing header.
func (id ServiceID) IP() (s PortSpace, port uint16, ok bool) {
	return PortSpace(id >> 16), uint16(id), id>>24 == 1
}

// String is "tcp port 7174", "udp port 7174", "ib port 7174" or the number in hex.
func (id ServiceID) String() string {
	s, port, _ := id.IP()
	name, ok := map[PortSpace]string{PortTCP: "tcp", PortUDP: "udp", PortIB: "ib"}[s]
	if !ok || id>>32 != 0 {
		return fmt.Sprintf("service ID %#016x", uint64(id))
	}
	return fmt.Sprintf("%s port %d", name, port)
}
