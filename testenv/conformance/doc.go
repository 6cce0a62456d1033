// SPDX-License-Identifier: Apache-2.0

// Package conformance checks that every kind of device does what verbs say: the engine on an interface, the device
// that an agent serves with memory of Go and of the arena, the loopback device and the card.
//
// The table of checks is run over two connected devices of each kind. docs/reference/conformance.md is what came out of it.
package conformance
