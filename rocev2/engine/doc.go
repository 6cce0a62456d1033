// SPDX-License-Identifier: Apache-2.0

// Package engine is the core of a RoCEv2 NIC: frames, work requests and the time go in; frames, completions and
// deadlines come out. Internal to this project. It has no socket, no goroutine, no clock and no lock. A
// program that has them runs a Core: package nic on AF_XDP sockets. Package qp has the transport of a queue pair, package
// mr its memory.
//
// # A program and its core
//
// The program gives the core Ports, by which frames leave, Paths, which say how to reach a destination, and a Host,
// which answers what the core asks. Then it does this again and again:
//
//	Begin(now)        the time of all that follows
//	Frame             each frame that has arrived; then ReceiveLoopback
//	Send, Recv        work requests; and calls, as Modify
//	Run               timers, answers, data
//	FailOverruns      of completion queues that have lost completions
//	Reports, Replies  what was sent to destinations, and their rates
//	Deadline          when it has something to do by itself
//
// core.go has these and the state of a Core. Completions go to the qp.CompletionQueue of a queue pair.
//
// # A received frame
//
//	rx.go        headers and ICRC; the queue pair by its number (qpn.go), and whether the
//	             packet is from its peer; then its transport (transport.go)
//	rx_meta.go   what ingress has put in front: timestamps, CE mark
//	allow.go     whose packets are taken
//	crypt.go     opens packets of encrypted queue pairs
//	guard.go     which packets need the token of the peer, and which must have the exact PSN
//	unproven.go  what is dropped without the token, by kind
//	question.go  asking a peer whether it still stamps
//	stamp.go     what is echoed of it
//	rtt_probe.go round trips of peers that do not stamp
//	outage.go    what continues when a destination or the link is back
//	sack.go      whether SACK is used with the peer
//
// # A work request
//
//	post.go      to the transport; the queue pair is marked dirty
//	tx.go        flushDirty sends ACKs and NAKs, and queues the queue pair at its destination. transmit serves
//	             destinations within the budget of an iteration
//	egress.go    how a queue pair sends on an interface: path, destination, flow, keys, place in the queue
//	tx_sched.go  destinations first in, first out (fifo.go); egresses at one by deficit round robin (drr.go)
//	tx_window.go bytes in flight to a destination; qp.Flight limits the packets
//	tx_pacer.go  token bucket of a destination (bucket.go)
//	tx_build.go  headers, payload, stamp, ICRC; then the frame goes to the Port. crypt.go seals it
//	loopback.go  packets to the core itself
//	tokens.go    tokens of stamps, one for each source address of a destination
//	tx_report.go what is reported of it
//	sendlimit.go why a queue pair sends nothing
//
// # Queue pairs and destinations
//
//	qp.go, modify.go, srq.go  queue pairs and shared receive queues, and what others see of them
//	overrun.go                completion queues that have lost completions
//	timer_ackwait.go          deadlines of queue pairs (wheel.go)
//	state.go                  what a destination consists of: what all queue pairs that send to one address share
//	dest.go                   its beginning and end
//	path.go                   how it is reached
//	entry.go                  destinations whose rate and stamps the program keeps, instead of reports and replies
//	dataplane.go, dataplane_sync.go  reports and replies
//	counters.go               counters by the names of rxe and mlx5
//	prefetch_amd64.go         cache lines that are loaded ahead
//
// # Optional features
//
// hooks.go is the interface by which a feature takes part in all of that. A feature that is off costs a comparison with
// nil. Pre-credit is one (UsePreCredit): precredit.go, precredit_port.go, precredit_tx.go, precredit_wire.go,
// precredit_state.go, precredit_connect.go, precredit_peers.go.
//
// Others belong to a queue pair or a region:
//
//	crypt.go                              encrypted queue pairs
//	ooo_qp.go, ooo_rails.go               out-of-order mode (package ooo), on several interfaces
//	distribution.go, distribution_run.go  regions whose data goes on to a group of destinations
//	mad.go, answers.go                    queue pair 1: messages of the communication manager
package engine
