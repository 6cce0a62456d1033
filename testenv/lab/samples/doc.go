// SPDX-License-Identifier: Apache-2.0

// Package samples has packets for tests: the frames of small captures, and the table of forged packets.
package samples
