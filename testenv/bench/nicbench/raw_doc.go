// SPDX-License-Identifier: Apache-2.0

package nicbench

// The files raw_*.go measure raw AF_XDP over a veth pair: how many packets of a size
// get through, and how long one takes there and back. That is the limit that the
// NIC's engine (S2), which does the same with a transport in between, is held
// against. Redirect is also for tests of rocev2/xsk, which receive nothing without it.
