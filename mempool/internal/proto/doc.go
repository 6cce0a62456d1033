// SPDX-License-Identifier: Apache-2.0

// Package proto has the messages between a node and the server of a memory pool (docs/run/memory-pool.md).
//
// A Request is the private data of a connection request of the communication manager (REQ), an Offer that of
// its acceptance (REP). All others are SENDs of that connection, in both directions. Integers are big-endian.
// Reserved bytes are sent as 0 and ignored.
//
// A REQ can be forged by a host that receives nothing at the address in it, so a Request changes nothing at the
// server. The first SEND of the peer is a Begin with the challenge of the Offer: only a host that has received
// the REP can send it. The server answers with a Welcome, a Text or a Refusal. All messages of a node have its
// token, a secret of node and server.
//
// Messages of another version, unknown kinds, and lengths that do not fit are errors: nothing of such a
// message is used.
package proto

import "errors"

// Version is the version of the protocol.
const Version = 2

// MaxMessage is the longest message in bytes. Both ends use it as rdma.WithMaxMessage.
const MaxMessage = 16 << 10

// Kind says what a message is.
type Kind uint8

// The kinds. Those up to KindOffer are private data.
const (
	KindJoin   Kind = 1 // node: Request, to lease slabs
	KindRemove Kind = 2 // Request, to end what a node leases
	KindStatus Kind = 3 // Request, for the state of the pool
	KindOffer  Kind = 4 // server: Offer

	KindAsk    Kind = 16 // server: what did the node need in this period?
	KindReport Kind = 17 // node: Report
	KindLease  Kind = 18 // server: Lease
	KindReturn Kind = 19 // node: Return
	KindLeave  Kind = 20 // node: it has gone
	KindText   Kind = 21 // server: a part of a text: why the connection ends, or an answer

	KindBegin   Kind = 22 // peer: its first message, which proves that it has received the Offer
	KindWelcome Kind = 23 // server: the node has joined
	KindRefusal Kind = 24 // server: why it does not do what the Request asks for
)

// ErrFormat: bytes are no message of this version.
var ErrFormat = errors.New("no message of a memory pool of version 2")
