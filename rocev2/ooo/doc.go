// SPDX-License-Identifier: Apache-2.0

// Package ooo implements out-of-order RDMA with asynchronous notification (S3) as pure state
// machines. Internal to this project. Method calls bring packets, requests and the time. NextData
// and NextAck return the packets to send. Memory accesses, completions and notifications go through
// interfaces. There is no socket, no goroutine and no clock here.
//
// Every packet names its place in memory, so packets may arrive in any order and over any path.
// The target answers every packet; one answer may serve several of a path. When all packets of a message are answered, the source sends
// a notification, and the target puts it on a notification receive queue. Messages of a queue
// pair are not ordered among each other.
//
// The modules of S3.4 and their files:
//
//	sending engine                              receiving engine
//	suspension buffer    snd_suspension.go      request processing           rcv_request.go
//	response processing  snd_response.go        response queue               rcv_respqueue.go
//	unpacking            snd_unpacking.go       response packet processing   rcv_response.go
//	grouping             snd_grouping.go        receive-queue management     rcv_queues.go
//	memory access        snd_memory.go          memory access                rcv_memory.go
//	data buffer          snd_databuffer.go
//
// The other files, by subject:
//
//	qp, config, outbound, counters  the queue pair, its limits and its packets
//	transport                       the mode as the transport of a queue pair of package qp: its life,
//	transport_send, transport_wire  its send queue, and its packets
//	snd_loss, snd_probe             loss found by time; packets repeated on suspicion
//	paths, rtt                      UDP source ports as paths, each with its RTT and loss
//	rails                           paths on several interfaces
//	psnwindow, idwindow             duplicates at the target (S3.5)
//	fifo                            a bounded queue
//
// A QP belongs to one thread of its engine. Notification receive queues may be shared by the
// queue pairs of that thread. No method may run concurrently with another of the same queue
// pair, of its Queues or of its Counters.
//
// Formats are in docs/reference/wire-format.md, states and limits in docs/change/out-of-order.md.
package ooo
