// SPDX-License-Identifier: Apache-2.0

// Package ooobench has the commands of bench that compare out-of-order mode (S3) with RC: between attached interfaces
// (disorder), on a virtual wire (order), and over two interfaces of each host (rails).
package ooobench
