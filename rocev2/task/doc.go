// SPDX-License-Identifier: Apache-2.0

// Package task executes compute tasks (S1.1, S1.7), for the software NIC and for the card. Internal
// to this project.
//
// A task is a kernel, operands in registered memory, and a place for the result. It is written
// as a Descriptor, which has the same bytes in a SEND from another node and in a slot of the
// card's ring (docs/reference/wire-format.md). Its answer has the number of the task and a Status.
//
// An Executor has cores, which execute tasks in parallel. Tasks come from origins: a queue of
// this host, or the queue pair of another node. Each origin has its own Memory, so that keys,
// protection domain, ranges and rights are checked as they are for its other requests.
//
//	kernels := task.Builtin()
//	e, err := task.NewExecutor(task.Config{Cores: 4, Kernels: kernels})
//	o, err := e.NewOrigin(task.Local(table, pd))
//	o.Submit(task.Task{Descriptor: d, Done: func(a task.Answer) { ... }})
//
// # Guarantees
//
//   - A task is checked before anything is read: its kernel, the types and shapes of operands
//     and result, and the access to each of them.
//   - A task that fails writes nothing. The result is written in one access, after the kernel
//     has succeeded. Only memory that fails during this access leaves it incomplete (StatusMemory).
//   - A task id of an origin is executed at most once, see History.
//   - Tasks of one origin start in the order in which they were submitted, or in which their
//     Fetch has ended. They end in any order. Origins are served in turn.
//
// A Server executes the tasks that arrive on a queue pair, and a Client sends them. Both use
// the interfaces of package verbs only.
package task
