// SPDX-License-Identifier: Apache-2.0

// Package limits counts what each process and each user has of a shared device, and refuses what
// exceeds a limit (issue 13, S2). Internal to this project. It does no I/O.
//
//	accounts := limits.New(limits.Defaults())
//	p, err := accounts.Open(uid)                       // a process connects
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
// Calls are a rate and not a number of objects. Process.Spend counts them, and returns how long the
// process has to wait. It is a pure function of the times that it is given.
package limits
