// SPDX-License-Identifier: Apache-2.0

// Package compare is what all benchmarks share.
//
// Turns and Around measure candidates in alternating turns. A Series has the figures of one of them, round by round. A
// Limit judges a figure with its rounds: where the rounds are so far apart that they do not tell on which side of the
// limit the figure is, the verdict is UNSTABLE. A Report prints tables and goals with their verdicts.
//
// Run has the exit statuses of all benchmarks:
//
//	0  measured, and no target is missed
//	1  a target is missed or its verdict is UNSTABLE, or the command line is wrong
//	2  not measured: the message says why
package compare
