// SPDX-License-Identifier: Apache-2.0

// Package pcibar has the test of hwoffload.OpenBAR on PCI devices of a virtual machine. The
// memory of a BAR is a file of this host, so that the test sees what a store leaves, and
// writes what a load returns. A second device has no memory: the emulator logs each access to
// it, with address and width. No device reacts to accesses as a card does.
//
// Command guest makes the accesses in the machine.
package pcibar
