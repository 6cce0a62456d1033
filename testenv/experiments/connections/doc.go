// SPDX-License-Identifier: Apache-2.0

// Package connections makes many connections over the devices of two agents: in a loop, by many goroutines at
// once, and by many processes at once. Each connection carries a message to the listener and back, and is closed
// by both ends. The package reports rates, failed attempts, and what agents and programs hold meanwhile.
//
//	connections.go  a load, and its run between two hosts
//	program.go      the processes that connect
//	held.go         memory and descriptors of a process
//	goroutines.go   the number of goroutines of another process
//	report.go       the figures as text
package connections
