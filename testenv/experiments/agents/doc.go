// SPDX-License-Identifier: Apache-2.0

// Package agents has three experiments with agents of attached interfaces. One makes many connections over the devices of
// two agents (connections.go). One runs for hours with random events (soak.go). The third changes what an administrator may change on a host with an
// attached interface, one situation after another, and checks what follows: nothing,
// a repair by the agent, or a line of `softroce-xdp status` that names the change.
//
// The situations are data. The test runs them on two hosts with traffic, and
// docs/run/administrator.md has them as a table.
//
//	situation.go   what a situation is
//	table.go       the situations, by subject
//	foreign.go     programs of somebody else
//	changes.go     changes that need more than a command
//	lab.go         two hosts, a cable, the product and traffic
//	foreground.go  the agent as the unit runs it
//	traffic.go     the flow between the hosts
//	force.go       what is in force on an interface, as the kernel describes it
package agents
