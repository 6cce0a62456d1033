// SPDX-License-Identifier: Apache-2.0

// Package proto has the messages between a node and the server of a memory pool (docs/memory-pool.md).
//
// A Request is the private data of a connection request of the communication manager, a Welcome that of
// its acceptance. All others are SENDs of that connection, in both directions; each begins with a Header.
// Integers are big-endian. Reserved bytes are sent as 0 and ignored.
//
// Messages of another version, unknown kinds, and lengths that do not fit are errors: nothing of such a
// message is used.
package proto

import "errors"

// Version is the version of the protocol.
const Version = 1

// MaxMessage is the longest message in bytes. Both ends use it as rdma.WithMaxMessage.
const MaxMessage = 16 << 10

// Kind says what a message is.
type Kind uint8

// The kinds. Those up to KindWelcome are private data.
const (
	KindJoin    Kind = 1 // node: Request, to lease slabs
	KindRemove  Kind = 2 // Request, to end what a node of the same host leases
	KindStatus  Kind = 3 // Request, for the state of the pool
	KindWelcome Kind = 4 // server: Welcome

	KindAsk    Kind = 16 // server: what did the node need in this period?
	KindReport Kind = 17 // node: Report
	KindLease  Kind = 18 // server: Lease
	KindReturn Kind = 19 // node: Return
	KindLeave  Kind = 20 // node: it has gone
	KindText   Kind = 21 // server: a part of a text: why the connection ends, or an answer
)

// ErrFormat: bytes are no message of this version.
var ErrFormat = errors.New("no message of a memory pool of version 1")
