// SPDX-License-Identifier: Apache-2.0

// Package mr decides which memory a packet or a work request may touch, and touches it: protection
// domains, memory regions, memory windows of type 2B and the translation table behind them (S2.2,
// S2.3, S2.6; IBTA 10.6). Internal to this project.
//
// A [Table] is what queue pairs see, as a mem.Memory. Applications get their
// protection domains, regions and windows from it:
//
//	t, _ := mr.New(mr.Config{})
//	pd := t.AllocPD()
//	r, err := t.Register(mr.Spec{PD: pd, Host: buf, Access: verbs.AccessLocalWrite | verbs.AccessRemoteWrite})
//	... r.VA() and r.RKey() go to the peer ...
//	err = r.Deregister() // nothing touches buf from here on
//
// # Keys
//
// A key names one region or window and proves the right to use it:
//
//	31          16 15         8 7          0
//	| slot        | random     | random, or |
//	|             |            | consumer's |
//
// The slot makes the lookup one array index however many regions there are. The
// rest makes the key a secret: a peer knows the slots of the keys that it was
// given, and 16 random bits, new with each registration, keep it from
// walking on to those of others. Slots are drawn at random from the free ones too,
// so that of n regions a guess hits one with n/2^32, as if all 32 bits were
// random. The low 8 bits of a window's key are its consumer's (IBTA
// 10.6.7.2.6; ibv_inc_rkey changes them), so two keys in a row on one slot always
// differ above them. With more slots (Config.Keys) fewer bits are left to guess.
//
// A table may leave all this to its caller (Config.ChosenKeys): the driver of a card writes the
// key of a region into a register.
//
// # Who may call what, and when
//
// All methods may be called by any goroutine. Accesses take no lock: they read an
// immutable entry through an atomic pointer, and count themselves in the entry
// while they copy. The caller that withdraws an entry (deregistration, invalidation) first
// makes it unreachable and then waits for that count to fall to zero, so memory may
// be unmapped as soon as Deregister returns. The count is in the entry and not an
// epoch of the engine's threads because Deregister then waits for copies from this
// region only, and may be called from an engine's thread between two accesses.
package mr
