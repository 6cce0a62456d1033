// SPDX-License-Identifier: Apache-2.0

// Package nic is a RoCEv2 NIC in this process: verbs above, AF_XDP sockets of an interface below.
// Internal to this project. It has the sockets, threads and clocks; the transport itself is package
// qp, memory is package mr. Package loader/engine opens a Device on an interface that is attached
// to the data plane.
//
// # Objects
//
// An application works with these. Any goroutine may call their methods.
//
//	Device   device.go             one NIC on one interface; makes the others
//	PD       pd.go                 protection domain; registers memory (mr.Region, mr.Window)
//	CQ       cq.go                 completion queue: Poll, Wait, an eventfd
//	QP       qp.go, qp_modify.go   queue pair; PostSend and PostRecv in post.go
//	SRQ      srq.go                shared receive queue
//	AH       ah.go                 address handle: the destination of a datagram
//	Distribution                   region whose data goes on to a group of destinations:
//	         distribution.go, distribution_run.go
//
// They implement the interfaces of package verbs. objects.go has what they consist of.
// event.go has the asynchronous events, counters.go the counters by the names of rxe and mlx5,
// counts.go those of one user of several.
//
// All of them share one engine, which owns the state of all queue pairs. state.go has what it
// consists of, engine.go its beginning and end. It belongs to one thread at a time: its own,
// or that of an application which polls or waits for a completion. Package loop has the
// rules as a table, and loop_owner.go is what it asks the engine. PostSend and PostRecv leave copies of work requests for the engine
// (post.go). Everything else that needs the engine is a function that it calls (calls.go).
//
// # One iteration of the loop
//
// iteration.go has the loop's body. It does in this order:
//
//	receive   rx.go               frames of the sockets, then those sent to itself (loopback.go)
//	calls     calls.go            what other goroutines want
//	posts     post.go             work requests into their queue pairs
//	timers    timer_ackwait.go    deadlines of queue pairs and of pacers (package sched)
//	flush     tx.go               ACKs and NAKs of queue pairs that something happened to
//	transmit  tx.go               data
//	loopback  rx.go               the few packets that it has sent to itself in this iteration
//	submit    tx_kick.go          shows the kernel what was pushed
//	sync      dataplane_sync.go   reports to the destination table every 3 ms, and its replies
//
// # A received frame
//
//	rx.go        headers and ICRC; the queue pair by its number (package qpn), and whether the
//	             packet is from its peer; then qp.Receive
//	guard.go     which packets need the token of the peer, and which must have the exact PSN
//	unproven.go  what is dropped without the token, by kind
//	question.go  asking a peer whether it still stamps
//	rx_meta.go   what ingress has put in front: timestamps, CE mark
//	allow.go     whose packets are taken: Options.Allow
//	stamp.go     what is echoed of it
//	outage.go    what continues when a destination or the link is back
//	rtt_probe.go round trips of peers that do not stamp
//	sack.go      whether SACK is used with the peer
//
// # A sent packet
//
//	tx.go        who sends: budgets of an iteration
//	egress.go    how a queue pair sends on an interface: path, destination, flow, keys, place in the queue
//	tx_sched.go  destinations first in, first out; egresses at one by deficit round robin
//	             (package sched)
//	tokens.go    tokens of stamps, one for each source address of a destination
//	tx_pacer.go  token bucket of a destination (package sched)
//	tx_window.go bytes in flight to a destination; qp.Flight limits the packets
//	tx_build.go  route (package route), headers, payload, timestamp option, ICRC
//	tx_report.go what is reported of it
//	sendlimit.go why a queue pair sends nothing
//	tx_kick.go   the kernel sends: in this thread, or in a second one
//
// dest.go is the destination: what all queue pairs that send to one address share. dataplane.go
// is the interface to the attached data plane.
//
// # The transport
//
// transport.go has the interface that sends and receives the packets of a queue pair: package qp, or out-of-order
// mode (package ooo). ooo_qp.go is what that mode needs of the engine. A device may have further interfaces (rail.go),
// which only this mode uses: ooo_rails.go.
//
// # Optional features
//
// hooks.go is the interface by which a feature takes part in all of that. A feature that is
// off costs a comparison with nil. Pre-credit is one (Options.PreCredit): precredit.go, precredit_port.go,
// precredit_tx.go, precredit_wire.go, precredit_state.go, precredit_connect.go, precredit_peers.go.
//
// Encrypted queue pairs are another, of a queue pair instead of the engine: crypt.go.
//
// # The communication manager
//
//	cm.go        sessions of package cm; package internal/cmservice runs the manager
//	cm_rest.go   messages of connections that belong to nobody: the kernel's, or rejected here
//	mad.go       queue pair 1: its messages, received and sent
//	mad_path.go  the paths that they take
//	answers.go   answers to hosts that have proven nothing make no entry
//	mad_request.go requests that wait for the path to their sender
//
// # The rest
//
//	clock.go     CLOCK_MONOTONIC without a system call
//	refs.go      counts the queue pairs of a CQ or an SRQ
//	feeder.go           work requests of other processes: queues in memory that they share with a server
//	device_loopback.go  a device without interface, for tests of applications
package nic
