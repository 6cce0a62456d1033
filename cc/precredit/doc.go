// SPDX-License-Identifier: Apache-2.0

// Package precredit is the policy for the first RTT (S5): what a sender may send before it
// has received any feedback.
//
// A receiver has a budget, the bytes that its last hop and its receive buffer can take
// (Params). When a queue pair of a peer connects, the peer gets a share of it ahead of any data
// (Receiver). The sender spends its share on the first RTT of new flows, small ones first
// (Sender), and ACKs return what it has spent. The first ACK of a flow ends that: from then
// on rate and window of another policy apply, and what the flow has not used stays for the
// next one.
//
//	receiver                                  sender
//	Receiver.NewFlow     CREDIT_GRANT →       Sender.Grant
//	                     ← CREDIT_RETURN
//	                                          Sender.Post (Classify, Queue.Push)
//	                     ← data, sent         Sender.Next, Sender.Sent (SrcSchedulePrecredit)
//	Receiver.Arrive
//	Receiver.DstScheduleCredit  ACK, limit →  Sender.Answer (SrcFixPrecredit)
//	Receiver.Return      ← CREDIT_RETURN      Sender.Timeout, Loss, Expire, Stop
//
// # Endpoint
//
// An Endpoint is all that a host has of this: its Receiver, and for each Peer a Sender. It keeps the lists of
// what is to be done, decides when which method of the two is called, and calls the host through a Port. NIC
// and card are its hosts: what they have of pre-credit is a Port and the calls of an Endpoint. The simulator
// uses the Peer alone for sending: it asks Next itself, and calls the Receiver directly.
//
// # Conservation
//
// Both directions carry running totals, not amounts: how many bytes the sender may
// ever have used (limit), how many it has sent (sent) and how many it has given up
// unsent (void), which together are what it has used. They count modulo 2^32 and only grow, so a message that is lost,
// late or doubled is put right by any later one. The receiver counts a byte as given
// from the moment the limit allows it until it has left the buffer, came back unused,
// or has certainly been lost. The sum over all senders never exceeds the budget.
//
// All of it is integer arithmetic. Nothing reads a clock: callers pass now, in
// nanoseconds of a clock that is never set.
package precredit
