// SPDX-License-Identifier: Apache-2.0

// Package loop decides which thread runs the engine's loop.
//
// The loop has a thread of its own (Run). But an application that polls or waits for a
// completion runs iterations itself, inline (PollOnce, PollUntil): a message is sent and its
// answer received without another thread to be woken, which takes longer than all the rest.
//
//	thread:  iteration ─► iteration ─► sleep on the sockets ─► iteration ...
//	caller:  PostSend ─► Poll: iteration ─► iteration: completion     the thread is parked
//
// While callers come back within callerGap each time, the thread stays parked and only looks
// from time to time whether they still do. A caller that was away for longer wakes it when
// it leaves, so that peers are answered meanwhile.
//
// # States
//
// runMu is held by the owner of the loop.
//
//	state           runMu    the thread                    callerPolling  ends with
//	running         thread   in an iteration, or spins     false          nothing to do: idle; a caller gets runMu
//	                                                                      between two iterations: polled
//	idle            free     sleeps: packets, timers and   false          any of these: running; a caller: polled
//	                         Wake wake it
//	idle, masked    free     the same, RX wake-ups masked  false          the same but packets
//	polled          caller   parked, or waits for runMu    true           the caller leaves: expected or running
//	expected        free     parked                        false          the caller is back: polled; it is not
//	                                                                      within callerGap, or Call: running
//	ended           -        gone                          false          -
//
// # Invariants
//
//  1. One owner. The loop's state is read and written only by the holder of runMu. What
//     others leave for it is behind atomics or locks of its own.
//  2. No work is lost. A producer stores the work first and then calls Wake or Call. A
//     sleeper sets its asleep flag first and then checks for work (NothingPending). So either
//     the sleeper finds the work, or the producer finds the flag and wakes the sleeper.
//  3. No work waits for long. With no caller inside, the thread is running, idle, or parked
//     for at most parkMax. A caller that is not expected back wakes the parked thread before
//     it returns, and so does Call, for work that cannot wait for callers. A caller that has
//     done anything wakes the idle thread, whose sleep was meant for what was known before.
package loop
