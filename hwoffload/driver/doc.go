// SPDX-License-Identifier: Apache-2.0

// Package driver drives a card by its registers and its DDR window: the destination table
// (NewTable) and pre-credit (EnablePreCredit). It works with each hwoffload.Device: a PCI BAR, a
// simulator, and the model of package card.
package driver
