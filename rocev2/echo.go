// SPDX-License-Identifier: Apache-2.0

package rocev2

import "net/netip"

// EchoLen is the size of the body of ECHO in bytes. It is that of HELLO, so that both have
// one shape.
const EchoLen = HelloLen

// BuildEcho writes an ECHO as BuildHello writes a HELLO: a datagram with the same headers, a
// body of zeros, and a stamp option with no flags, which egress fills in with the echo of
// the latest stamp that came from dst. It returns the length, and the errors of BuildHello.
func BuildEcho(b []byte, src, dst netip.Addr) (int, error) {
	return buildHello(b, OpEcho, src, dst, Hello{}, Stamp{})
}
