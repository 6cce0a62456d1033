// SPDX-License-Identifier: Apache-2.0

package scenario

// This file makes the traffic of an experiment: flow sizes drawn from the
// distributions that the literature measures with, Poisson arrivals for a load,
// and incasts. The same seed gives the same flows.
//
// Times are nanoseconds from the start of a run, sizes are bytes of payload, loads
// are shares of the host links' payload rate, hosts are numbered from 0.
