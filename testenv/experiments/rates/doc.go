// SPDX-License-Identifier: Apache-2.0

// Package rates has the experiments about the rates of destinations: isolation of a slow destination (S1.9), pacers,
// traffic that is not acknowledged, and the receiver's division of its link (S4.5).
package rates
