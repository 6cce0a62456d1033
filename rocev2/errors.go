// SPDX-License-Identifier: Apache-2.0

package rocev2

// Error says why bytes are not the packet, header or option they were taken
// for. It is one byte, so that returning it as an error does not allocate; the
// constants compare with == and errors.Is.
type Error uint8

// What Parse functions return. Foreign tells the first group from the rest.
const (
	errNone Error = iota

	// The packet is not RoCEv2, or not recognisably so: leave it alone.
	ErrShort    // the buffer ends before the UDP ports, or inside a header
	ErrNotIP    // neither IPv4 nor IPv6
	ErrIPHeader // IPv4 header length below 20 or above the total length
	ErrNotUDP   // IP, but not UDP (or UDP behind IPv6 extension headers)
	ErrNotRoCE  // UDP to another port than 4791
	ErrFragment // an IP fragment; RoCEv2 is never fragmented

	// The packet goes to port 4791 but its bytes do not fit together.
	ErrShortBTH   // the buffer ends inside the BTH or its extended headers
	ErrTruncated  // the headers are whole, the buffer lacks part of what follows
	ErrUDPLength  // UDP length too small for BTH and ICRC, or above the IP length
	ErrBodyLength // the opcode's headers and the pad need more than the UDP length
	ErrNoICRC     // the ICRC is not in the buffer
	ErrICRC       // the ICRC does not match

	// The surplus area behind the UDP datagram holds no stamp that we may use.
	ErrNoSurplus     // there is no surplus area
	ErrStampForeign  // the surplus area holds something else
	ErrStampChecksum // the option checksum (OCS) is wrong
	ErrStampVersion  // a stamp option of another version

	// Control packets.
	ErrNotHello     // the opcode is neither HELLO nor HELLO_ACK
	ErrHelloLength  // HELLO body other than 32 bytes
	ErrHelloVersion // HELLO of another version

	// Building.
	ErrTooBig   // the result would exceed 65535 bytes of IP or the buffer
	ErrFamily   // source and destination are not both IPv4 or both IPv6
	ErrSurplus  // the datagram carries a surplus area already
	ErrOpcode   // the opcode is not in the table
	ErrPayload  // payload on an opcode that carries none
	ErrFieldMax // a 24-bit field (QPN, PSN, MSN) or the 5-bit AETH value is too large
)

var errorText = [...]string{
	errNone:          "no error",
	ErrNotIP:         "not IPv4 or IPv6",
	ErrNotUDP:        "not UDP directly behind the IP header",
	ErrNotRoCE:       "not UDP port 4791",
	ErrFragment:      "IP fragment",
	ErrShort:         "too short: the buffer ends inside a header",
	ErrShortBTH:      "too short: the buffer ends inside the BTH or the headers behind it",
	ErrTruncated:     "truncated: the buffer ends before the packet does",
	ErrIPHeader:      "IP header length or total length is impossible",
	ErrUDPLength:     "UDP length does not fit the IP length or is too small for BTH and ICRC",
	ErrBodyLength:    "UDP length is too small for the opcode's headers and pad",
	ErrNoICRC:        "the ICRC is not in the buffer",
	ErrICRC:          "ICRC does not match",
	ErrNoSurplus:     "no surplus area behind the UDP datagram",
	ErrStampForeign:  "the surplus area holds no stamp option",
	ErrStampChecksum: "stamp option with a wrong option checksum (OCS)",
	ErrStampVersion:  "stamp option of another version",
	ErrNotHello:      "neither HELLO nor HELLO_ACK",
	ErrHelloLength:   "HELLO body is not 32 bytes long",
	ErrHelloVersion:  "HELLO of another version",
	ErrTooBig:        "packet would exceed the buffer or 65535 bytes",
	ErrFamily:        "source and destination must both be IPv4 or both be IPv6 addresses",
	ErrSurplus:       "the datagram already has a surplus area",
	ErrOpcode:        "opcode is not in the table",
	ErrPayload:       "this opcode carries no payload",
	ErrFieldMax:      "QPN, PSN and MSN have 24 bits",
}

// Error returns a lower-case sentence without the package name.
func (e Error) Error() string {
	if int(e) < len(errorText) {
		return "rocev2: " + errorText[e]
	}
	return "rocev2: unknown error"
}

// Foreign reports whether the packet is not, or not recognisably, RoCEv2, as
// opposed to RoCEv2 that is damaged.
func (e Error) Foreign() bool { return e >= ErrShort && e <= ErrFragment }
