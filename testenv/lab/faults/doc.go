// SPDX-License-Identifier: Apache-2.0

// Package faults has faults for tests. Switch loses the RoCEv2 packets of a topology in its switch. Box is a middle box
// that loses, duplicates and delays them, in place of the switch or in the link of one host. MapStalled maps a file whose
// pages never come. The kernel of the test machines may have no netem.
package faults
