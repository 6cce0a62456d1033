// SPDX-License-Identifier: Apache-2.0

// Package schemes are the congestion controls that the simulator can run, by name. Internal to this
// project. Each file adapts one policy package to sim.Scheme; the table is List.
//
// Parameters come as text from a scenario (New). What is left out has the value
// that the policy's paper gives for the link and the path it runs on.
package schemes
