// SPDX-License-Identifier: Apache-2.0

package agents

// The files connections_*.go make many connections over the devices of two agents: in a loop, by many goroutines at
// once, and by many processes at once. Each connection carries a message to the listener and back, and is closed
// by both ends. They report rates, failed attempts, and what agents and programs hold meanwhile.
//
//	connections.go  a load, and its run between two hosts
//	connections_program.go    the processes that connect
//	connections_held.go      memory and descriptors of a process
//	connections_goroutines.gothe number of goroutines of another process
//	report.go       the figures as text
