// SPDX-License-Identifier: Apache-2.0

// Package qp holds the queue pairs of RC, UC and UD as pure state machines: what
// happens comes in as a method call that carries the time, and what is to be done
// comes out of Next calls, memory accesses and completions. There is no socket,
// no goroutine and no clock here; package nic has those.
//
// The way of a message:
//
//	PostSend  req_sendq.go   a work request becomes a WQE with its range of PSNs
//	NextData  req_segment.go the WQE becomes packets, as far as the window allows
//	Receive   rsp_rc.go      the peer's queue pair checks PSN, key and rights, and
//	                         touches memory
//	NextAck   rsp_ack.go     the answer: ACK, NAK, atomic result, SACK
//	NextData  rsp_read.go    or READ responses, which are data
//	Receive   req_ack.go     the answer completes WQEs, or has some sent again;
//	          req_read.go    data of READs and ATOMICs goes where it belongs
//	Deadline, Expire         req_timer.go: what happens when no answer comes
//	NextData  req_loss.go    what is sent again, and how much of it (req_window_loss.go)
//
// A queue pair belongs to one thread of its engine; no method may run beside
// another one of the same queue pair, or of a queue pair that shares its SRQ.
//
// Clause numbers are those of the InfiniBand Architecture Specification, volume 1.
// Where Linux rxe was seen to do something else, the comment says so.
package qp
