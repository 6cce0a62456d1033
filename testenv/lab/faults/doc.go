// SPDX-License-Identifier: Apache-2.0

// Package faults has faults for tests. Switch loses the RoCEv2 packets of a topology in its switch. Box is a middle box
// in place of the switch, which loses, duplicates and delays them. MapStalled maps a file whose pages never come. The
// kernel of the test machines may have no netem.
package faults
