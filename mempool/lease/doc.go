// SPDX-License-Identifier: Apache-2.0

// Package lease decides which node has which space of a memory pool (S4.1 to S4.3). Internal to
// this project.
//
// The pool is divided into slabs of one length. Table is a state machine without I/O, clock and
// goroutines: calls have the time now as an argument, and return the actions that the server executes.
//
//   - A node joins with a name and the length of its period (Join).
//   - When a period of a node ends, the node is asked what it needed (ActionAsk, Report). A Planner then
//     divides the pool, and the node gets its lease for the next period (ActionLease).
//   - A lease that becomes smaller names the slabs to return, with a deadline. A slab that is not returned
//     in time is closed.
//   - A node whose connection has ended keeps its slabs for a limited time (Lost, Config.Hold).
//
// A slab that changes its owner is closed first: the server ends its key, zeroes it, and reports that
// (ActionClose, Closed). Only then it is free. So a slab never has two owners, and no node sees data of
// another one.
//
// Times are durations since any fixed moment of a clock that never goes back.
package lease
