// SPDX-License-Identifier: Apache-2.0

// Package nic is a RoCEv2 NIC in this process: verbs above, AF_XDP sockets of an interface below.
// Internal to this project. It has the sockets, threads and clocks; what is done with frames and work requests is package
// engine, memory is package mr. Package loader/engine opens a Device on an interface that is attached
// to the data plane.
//
// # Objects
//
// An application works with these. Any goroutine may call their methods.
//
//	Device   device.go             one NIC on one interface; makes the others
//	PD       pd.go                 protection domain; registers memory (mr.Region, mr.Window)
//	CQ       cq.go, cq_resize.go    completion queue: Poll, Wait, an eventfd
//	QP       qp.go, qp_modify.go   queue pair; PostSend and PostRecv in post.go
//	SRQ      srq.go                shared receive queue
//	AH       ah.go                 address handle: the destination of a datagram
//	Distribution                   region whose data goes on to a group of destinations:
//	         distribution.go
//
// They implement the interfaces of package verbs. objects.go has what they consist of.
// event.go has the asynchronous events, counters.go the counters by the names of rxe and mlx5,
// counts.go those of one user of several.
//
// All of them share one core (package engine), which owns the state of all queue pairs. runner.go has what runs it, and
// how that begins and ends; host.go is what the core asks. The runner and its core belong to one thread at a time: its own,
// or that of an application which polls or waits for a completion. Package loop has the
// rules as a table, and loop_owner.go is what it asks the runner. PostSend and PostRecv leave copies of work requests for
// the core (post.go). Everything else that needs the core is a function that the runner calls (calls.go).
//
// # One iteration of the loop
//
// iteration.go has the loop's body. It does in this order:
//
//	receive   iteration.go        frames of the sockets to the core, then those that it has sent to itself
//	calls     calls.go            what other goroutines want
//	posts     post.go             work requests into their queue pairs
//	run       package engine      timers, ACKs and NAKs, data
//	submit    tx_kick.go          shows the kernel what was pushed
//	sync      dataplane_sync.go   reports to the destination table every 3 ms, and its replies
//
// Package engine has the way of a frame in and of a work request out. tx_kick.go has the kernel send: in this thread, or
// in a second one. dataplane.go is the interface to the attached data plane, allow.go whose packets are taken
// (Options.Allow). Paths are those of package route.
//
// A device may have further interfaces (rail.go), which only queue pairs in out-of-order mode use: ooo_rails.go.
// crypt.go gives queue pairs their keys.
//
// # The communication manager
//
//	cm.go        sessions of package cm; package internal/cmservice runs the manager
//	cm_rest.go   messages of connections that belong to nobody: the kernel's, or rejected here
//	mad_path.go  the paths that its messages take to the core
//	mad_request.go requests that wait for the path to their sender
//
// # The rest
//
//	clock.go     CLOCK_MONOTONIC without a system call
//	refs.go      counts the queue pairs of a CQ or an SRQ
//	feeder.go           work requests of other processes: queues in memory that they share with a server
//	device_loopback.go  a device without interface, for tests of applications
package nic
