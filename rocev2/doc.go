// SPDX-License-Identifier: Apache-2.0

// Package rocev2 is the wire: RoCEv2 packets as bytes.
//
// Every header is a view, a byte slice of the header's exact size that its
// Parse function checked once. After that its getters and setters neither
// allocate nor panic. A view made by conversion instead of Parse is the
// caller's promise that the length is right. Fields are big-endian on the
// wire and host integers in Go.
//
// Packet finds the headers of a whole frame or IP datagram; Datagram builds
// one. The invariant CRC is in icrc.go, the stamp option (S1.2 to S1.4, S5.5)
// in stamp.go, the capability handshake in hello.go.
//
// Clause numbers refer to the InfiniBand Architecture Specification, volume 1,
// and its annex A17 (RoCEv2).
package rocev2
