// SPDX-License-Identifier: Apache-2.0

// Package stream is a byte stream over RDMA: net.Conn and net.Listener over a connection of
// package rdma, so that ordinary Go programs run on it, net/http for example.
//
//	l, err := stream.Listen(ctx, dev, ":7174")          // a net.Listener
//	c, err := stream.Dial(ctx, dev, "10.0.0.2:7174")    // a net.Conn
//
// A stream behaves as TCP does: Write returns when the bytes are copied, and waits while the peer
// does not read; CloseWrite ends one direction; after all bytes, Read returns io.EOF if the peer has
// closed in order and another error if it has not; deadlines end Read and Write. Close sends what was
// written before it disconnects, for up to five seconds.
//
// # Protocol
//
// Both ends are streams of this package. The private data of request and acceptance begins with
// "SRS1", the number of data buffers (16 bits) and their length in bytes (32 bits), big-endian. Then
// each message is a SEND with immediate data:
//
//	bits 0 to 15   credits: data buffers that the sender of the message has posted again
//	bit 16         the last message of this direction
//
// A message with bytes needs a credit of the peer. One without bytes needs none: it returns credits,
// when half of the buffers are free again and no data goes the other way, or it is the last one. So
// at most three of them can be in buffers of a peer that reads nothing, and each end has three
// buffers more than it gives credits. A receive is therefore always posted: there are no RNR NAKs,
// and no message waits for one of the other direction.
package stream
