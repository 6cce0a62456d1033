// SPDX-License-Identifier: Apache-2.0

// Package limits counts what each process and each user has of a shared device, and refuses what
// exceeds a limit (issue 13, S2). Internal to this project. It does no I/O.
//
//	accounts := limits.New(limits.Defaults())
//	p, err := accounts.Open(now, uid)                  // a process connects
//	err = p.Acquire(limits.Use{limits.QPs, 1}, limits.Use{limits.WRs, 256})
//	p.Release(limits.Use{limits.QPs, 1}, limits.Use{limits.WRs, 256})
//	p.Close()                                          // it has ended: all of it is free again
//
// Each object counts for its process and for the user of that process. Both limits hold. A
// request is granted as a whole or not at all. The error names the limit, and the flag that
// raises it.
//
// What the kernel limits for the server itself, all processes together share (Limits.All).
//
// # Processor time
//
// What a process has the server do is no number of objects. Each user has one budget for it, and each process one. The
// currency is processor time of the server in nanoseconds, because only it bounds everything: messages, ring checks and
// signals have no other unit in common. Process.Spend takes the time that messages cost, in any goroutine, and
// Process.SpendEngine what the engine's thread does besides moving data. Both return how long the process has to wait.
// Process.SpendSignal takes the time of a signal, which waits for the process's own limit only, and Process.SpendLongSignal
// that of one that took long, which waits for the user's.
//
// Limits.Process[Calls] and Limits.User[Calls] say how many messages a budget is filled with in a second. At its own limit,
// the engine's thread takes half of that, so a process that does both has half of its messages left. The engine's thread
// keeps what was not used for some milliseconds only, and messages for half a minute.
//
// All of it is a pure function of the times that it is given.
package limits
