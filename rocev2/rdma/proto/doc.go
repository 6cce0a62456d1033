// SPDX-License-Identifier: Apache-2.0

// Package proto has the control messages between a process and the device server, and the socket
// that carries them (docs/run/device.md). Internal to this project.
//
// The socket is of type SOCK_SEQPACKET: one message is one packet of at most MaxMessage bytes. A
// message is a Header and a body. The body is the structure that Bodies names for its type: integers
// of fixed size, little-endian, each at a multiple of its size. A reply has the type of the request
// with Reply set, the same sequence number, and a status. If the status is not OK, the body is text.
//
// Descriptors travel with messages (SCM_RIGHTS); each message says which.
package proto
