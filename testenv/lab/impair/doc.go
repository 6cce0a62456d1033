// SPDX-License-Identifier: Apache-2.0

// Package impair loses, duplicates and delays the RoCEv2 packets of a topology: Switch loses them in the switch, Box is
// a middle box in its place. The kernel of the test machines may have no netem.
package impair
