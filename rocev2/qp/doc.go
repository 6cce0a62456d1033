// SPDX-License-Identifier: Apache-2.0

// Package qp implements queue pairs of RC, UC and UD as pure state machines. Internal to this
// project. Method calls bring packets, work requests and the time. NextData and NextAck return the
// packets to send. Memory accesses and completions go through interfaces. There is no socket, no
// goroutine and no clock here: package nic has those.
//
// A queue pair (qp.go) has two halves. The requester (requester.go, req_*.go) executes the
// send queue and processes responses. The responder (responder.go, rsp_*.go) executes the
// requests of the peer. A message passes through the functions and files in this order:
//
//	PostSend         req_sendq        a work request becomes a WQE with its range of PSNs
//	NextData         req_segment      the WQE becomes packets, as far as sendlimit allows
//	Receive          rsp_rc           the responder compares the PSN
//	                 rsp_execute      and executes the packet: SEND, WRITE, READ, ATOMIC
//	NextAck          rsp_ack          the response: ACK, NAK, atomic result, SACK
//	NextData         rsp_read         or READ responses, which carry data
//	Receive          req_ack          the response completes WQEs (req_complete)
//	Deadline, Expire req_timer        without a response the requester sends again
//
// The other files, by subject:
//
//	state                                      the state table and Modify
//	exact                                      packets that may be forged
//	outbound, counters                         types; those of applications are in package verbs
//	sendlimit                                  all reasons why no packet may leave
//	req_loss                                   loss detection
//	req_retransmit, req_rnr                    retransmission after loss, after RNR NAK
//	req_sack, req_scoreboard, bitmap           SACK received: which packets are missing
//	rsp_sack, rsp_reorder, reorder_pool        SACK sent: packets buffered after a gap
//	req_window_loss                            loss window of one queue pair
//	req_inflight, req_window_congestion        limits of one destination, packets and bytes
//	req_inflight_queue                         which of its queue pairs is next
//	req_credit                                 end-to-end credits
//	req_read, rsp_read                         READ and ATOMIC at both ends
//	req_rtt                                    RTT from ACKs, without timestamps
//	req_silence                                probes while a destination answers nothing
//	req_payload, rsp_recvq, rsp_srq            memory of sends, receives and shared receives
//	req_local                                  local invalidate and bind
//	req_unreliable, rsp_uc, rsp_ud             UC and UD
//	rsp_refuse                                 NAKs and what they end
//
// A queue pair belongs to one thread of its engine. No method may run concurrently with a
// method of the same queue pair, or of one that shares its SRQ, Flight, ReorderPool or Counters.
//
// Clause numbers are those of the InfiniBand Architecture Specification, volume 1. Comments
// name the places where Linux rxe behaves differently.
package qp
