// SPDX-License-Identifier: Apache-2.0

// Package wiretest joins queue pairs by a virtual wire on virtual time, for tests.
// The bytes are real: what a queue pair sends is built with rocev2.Datagram and its
// ICRC, may be lost, duplicated, overtaken, delayed or damaged on the way, and is
// parsed and verified again before the other queue pair sees it.
//
//	Wire      wire.go      the clock, the events, the seed, the first failure
//	Path      path.go      one direction between two nodes, with its faults
//	Node      node.go      an engine: port, queue pairs, timers, memory
//	Memory    memory.go    a mem.Memory that is simple rather than fast
//	Endpoint  endpoint.go  an application on one queue pair, that knows what must
//	                       come out of everything that it and its peer posted
//	Scenario  scenario.go  random operations under random faults
//	OOONode ooo_node.go an engine with queue pairs of out-of-order mode (S3), and
//	OOOApp  ooo_app.go  an application on one of them
//
// Everything random comes from the seed of the Wire, so a run can be repeated.
package wiretest
