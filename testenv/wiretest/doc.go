// SPDX-License-Identifier: Apache-2.0

// Package wiretest joins engines by a virtual wire on virtual time, for tests.
// The bytes are real: what a core of package engine sends may be lost, duplicated,
// overtaken, delayed or damaged on the way, before the core of the peer gets it.
//
//	Wire      wire.go      the clock, the events, the seed, the first failure
//	Path      path.go      one direction between two nodes, with its faults
//	Node      node.go      a host: an engine.Core that the events run, its port, its memory
//	          check.go     what its core may count in a run
//	QP        node_qp.go   a queue pair of a node, with the calls of an application
//	Memory    memory.go    a mem.Memory that is simple rather than fast
//	Endpoint  endpoint.go  an application on one queue pair, that knows what must
//	                       come out of everything that it and its peer posted
//	Scenario  scenario.go  random operations under random faults
//
// Tests of package ooo choose windows, timers, paths and first message ids, which the engine does
// not let an application choose. They have its state machine without the engine around it:
//
//	OOONode   ooo_node.go  a host that asks ooo.QPs for their packets
//	OOOApp    ooo_app.go   an application on one of them
//
// Everything random comes from the seed of the Wire, so a run can be repeated.
package wiretest
