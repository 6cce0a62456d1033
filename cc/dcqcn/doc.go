// SPDX-License-Identifier: Apache-2.0

// Package dcqcn is DCQCN's reaction point and notification point (Zhu et al.,
// SIGCOMM 2015) as pure state machines, for comparison with the product's own
// policies. It uses floats, keeps no clock and starts no goroutine: every event
// takes the time it happens at, in nanoseconds from any origin. Rates are bits
// per second.
//
// Two sets of parameters exist in the literature and both are here: Paper, the
// algorithm and timers of the SIGCOMM text, and ConnectX, what Mellanox's NICs do
// and the HPCC artefact (alibaba-edu/High-Precision-Congestion-Control) simulates,
// which is what published comparisons ran.
package dcqcn
