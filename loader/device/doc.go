// SPDX-License-Identifier: Apache-2.0

// Package device serves an engine (rocev2/nic) to other processes: docs/run/device.md has the protocol,
// the memory and the limits. Internal to this project. The other end is package rocev2/rdma/client.
//
//	server.go     the socket, its clients, events of the device
//	session.go    one process: its messages, its objects, and the end of all of them
//	socket.go     the connection of a process
//	calls.go      what the messages do; calls_queue.go those of queues
//	accept.go     new processes; batch.go: several messages in one
//	rings.go      what the engine's thread has of a process
//	feeder.go     which rings the engine's thread looks at, and when
//	decode.go     work requests decoded from the entries of the rings
//	watch.go      rings that it looks at without a doorbell
//	queue.go      rings of queue pairs, shared receive queues and completion queues
//	cm.go         connections: what a process has of the communication manager
//	objects.go    the objects of a process
//	memory.go     memory that the server gives to a process
//	ring_files.go the rings of a process, in few files
//	shares.go     what the kernel allows the server, of which all processes together have a share
//	process_memory.go  memory of the process itself, and the guard that ends one that delays accesses
//	file_systems.go  the end of FUSE file systems behind the memory of a process
//	cpulimit.go   processor time that the messages of a process cost, and how long they wait
//	fairness.go   the same for the engine's thread: its rings, its signals (engine_thread.go)
//	foreign.go    system calls on descriptors of a process
//	privilege.go  what takes a capability
//	status.go     what `softroce-xdp status` shows
//
// Limits are package limits, arenas package rocev2/mr/clientmem.
//
// # Fairness
//
// A user has one budget for all that its processes cost the server besides moving data, and each process has one
// (limits.Process.Spend, SpendEngine). Its currency is processor time: messages, ring checks and signals are different
// things, and processor time is what each of them takes from others. Data has no budget: an iteration of the engine takes a
// bounded number of entries of each process in turn (feeder.go).
//
// # Threads
//
// The engine's thread takes work requests from the rings and writes completions to them (nic.Feeder,
// nic.CQSink): between a process and its queue pair there is no other thread. Each process has a
// goroutine for its control messages, and one for its events. A completion ring needs no single writer
// (ring.Completions); completionQueue has what one thread has of it.
//
// What the engine's thread uses of a process (rings; queue) is set before feeder.join, and changed in nic.Device.InLoop only
// from then on. Memory is unmapped after that.
package device
